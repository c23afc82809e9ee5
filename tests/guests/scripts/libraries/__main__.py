"""NVIDIA's own libraries, compared with NumPy and SciPy: `python libraries LIBRARY [CASE...]`."""

from __future__ import annotations

import importlib
import sys

library, *wanted = sys.argv[1:]
failed = importlib.import_module(library).case.run(wanted)
print(f"{library}: {' '.join(failed) or 'right'}", flush=True)
sys.exit(bool(failed))
