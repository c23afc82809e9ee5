"""The generator as a library: its folder is on the path for these tests only, it is no part of the package."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "protos" / "codegen"))
