"""Where the benchmarks of Python guests find the guests' environment, and how they run programs in it: by `farlane run`."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[2]
PYTHON = ROOT / ".cache/guests/bin/python"
FARLANE_RUN = (str(ROOT / ".venv/bin/farlane"), "run")
INTEROP = {"FARLANE_INTEROP": "1"}  # NVIDIA's runtime is in CuPy and in NVIDIA's libraries
