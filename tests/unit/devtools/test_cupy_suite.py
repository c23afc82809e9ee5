"""How tests/guests/cupy_suite.py reads outcomes, what it calls a regression, and what it refuses to write."""

from __future__ import annotations

import json

import cupy_suite as suite
import pytest
from suites import Result


def test_of_several_outcomes_the_worst_counts() -> None:
    lines = [
        ["cupy_tests/logic_tests/test_x.py::a", "pass", ""],
        ["cupy_tests/logic_tests/test_x.py::a", "error", "at its end"],
    ]
    (result,) = suite.parse("logic", "\n".join(map(json.dumps, lines)))
    assert result == Result("logic/test_x.py::a", "error", "at its end")
    assert suite.regressions([result], "logic: pass 0 skip 0 fail 0 error 1\nerror logic/test_x.py::a\n") == []
    assert suite.regressions([result], "logic: pass 1 skip 0 fail 0 error 0\n") == [result]


def test_a_failure_without_a_reason_is_not_written() -> None:
    result = Result("logic/test_x.py::a", "fail")
    with pytest.raises(KeyError, match="no reason for logic"):
        suite.page([result], {"logic": 1}, {"core/": "of another part"})
    assert "of this part" in suite.page([result], {"logic": 1}, {"logic/": "of this part"})
