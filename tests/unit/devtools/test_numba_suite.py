"""How tests/guests/numba_suite.py reads unittest's output, and what it calls a regression."""

from __future__ import annotations

import numba_suite as suite
from suites import Result

LOG = """\
test_a (numba.cuda.tests.m.T.test_a) ... ok
test_b (numba.cuda.tests.m.T.test_b) ... noise of a library
ok
test_c (numba.cuda.tests.m.T.test_c)
A docstring. ... skipped 'two GPUs'
test_d (numba.cuda.tests.m.T.test_d) ... \n  test_d (numba.cuda.tests.m.T.test_d) (index=1) ... ERROR
test_e (numba.cuda.tests.m.T.test_e) ... expected failure
"""
END = "\n======\nERROR: test_d (numba.cuda.tests.m.T.test_d) (index=1)\n\nRan 5 tests in 1s\n\nexit status 1\n"


def test_outcomes() -> None:
    results = suite.parse("m", LOG + END)
    assert [(item.name[-1], item.outcome, item.words) for item in results] == [
        ("a", "pass", ""),
        ("b", "pass", ""),
        ("c", "skip", "two GPUs"),
        ("d", "error", ""),
        ("e", "pass", ""),
    ]


def test_a_run_that_was_cut_off_is_an_error() -> None:
    results = suite.parse("m", LOG + "\nexit status 124\n")
    assert Result("m", "error", "timeout") in results


def test_a_failure_that_is_not_committed_is_a_regression() -> None:
    results = suite.parse("m", LOG + END)
    assert [item.name for item in suite.regressions(results, "pass 4\n")] == ["m.T.test_d"]
    assert suite.regressions(results, suite.results_text(results)) == []


def test_the_sample_is_of_tests_that_pass_and_always_the_same() -> None:
    names = [f"m.T.test_{index}" for index in range(400)]
    committed = "pass 398\nskip m.T.test_0 a device\nfail m.T.test_1\n"
    chosen = suite.sample(names, committed)
    assert len(chosen) == suite.SAMPLE_SIZE
    assert chosen == suite.sample(reversed(names), committed) == sorted(chosen)
    assert not {"m.T.test_0", "m.T.test_1"} & set(chosen)
    assert set(suite.sample(chosen, committed)) == set(chosen)
