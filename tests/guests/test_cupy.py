"""Small shares of CuPy's own test suite, by `farlane run`: their tests pass (cupy_suite.py runs larger ones)."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.guests

_SPEC = importlib.util.spec_from_file_location("cupy_suite", Path(__file__).parent / "cupy_suite.py")
assert _SPEC is not None
assert _SPEC.loader is not None
suite = importlib.util.module_from_spec(_SPEC)
sys.modules["cupy_suite"] = suite  # dataclasses look there
_SPEC.loader.exec_module(suite)

EVERY = {"logic": 60, "sorting": 30, "statistics": 45}


def test_shares() -> None:
    for part, every in EVERY.items():
        results = suite.run(part, every, 2)
        assert suite.count(results, "pass") >= 10, part
        assert [item for item in results if item.outcome in ("fail", "error")] == []
