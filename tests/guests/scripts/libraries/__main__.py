"""NVIDIA's own libraries, compared with NumPy and SciPy: `python libraries LIBRARY [EVERY] [CASE...]`, each EVERY-th case."""

from __future__ import annotations

import importlib
import sys

library, *wanted = sys.argv[1:]
every = int(wanted.pop(0)) if wanted and wanted[0].isdigit() else 1
failed = importlib.import_module(library).case.run(wanted, every)
print(f"{library}: {' '.join(failed) or 'right'}", flush=True)
sys.exit(bool(failed))
