"""A small share of CuPy's own test suite, by `farlane run`: its tests pass (cupy_suite.py runs larger ones)."""

from __future__ import annotations

import cupy_suite as suite
import pytest
from suites import count

pytestmark = pytest.mark.guests

EVERY = {"logic": 60}


@pytest.mark.timeout(900)  # where nothing is cached, each test compiles kernels for seconds
def test_shares() -> None:
    for part, every in EVERY.items():
        results = suite.run(part, every, 2)
        assert count(results, "pass") >= 10, part
        assert [item for item in results if item.failed] == []
