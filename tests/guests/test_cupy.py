"""Small shares of CuPy's own test suite, by `farlane run`: their tests pass (cupy_suite.py runs larger ones)."""

from __future__ import annotations

import cupy_suite as suite
import pytest
from suites import count

pytestmark = pytest.mark.guests

# How many tests of a part there are for one that is run. `make test-libraries` runs what is marked.
SHARES = [{"logic": 60}, pytest.param({"sorting": 30, "statistics": 45}, marks=pytest.mark.whole)]


@pytest.mark.timeout(900)  # where nothing is cached, each test compiles kernels for seconds
@pytest.mark.parametrize("shares", SHARES, ids=" ".join)
def test_shares(shares: dict[str, int]) -> None:
    for part, every in shares.items():
        results = suite.run(part, every, 2)
        assert count(results, "pass") >= 10, part
        assert [item for item in results if item.failed] == []
