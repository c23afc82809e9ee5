"""Of a test that is marked as sampled, a share of the cases runs, the same ones each time."""

from __future__ import annotations

from typing import Any

import pytest
import sampling


class Item:
    """What is looked at of a collected test."""

    def __init__(self, nodeid: str, mark: pytest.MarkDecorator | None = None) -> None:
        self.nodeid, self._mark = nodeid, mark

    def get_closest_marker(self, name: str) -> pytest.Mark | None:
        return self._mark.mark if self._mark is not None and self._mark.name == name else None


def test_a_share_of_each_tests_cases_runs() -> None:
    third, half = pytest.mark.sampled(3), pytest.mark.sampled(2)
    items: list[Any] = [Item(f"a.py::some[{case}]", third) for case in range(10)]
    items += [Item("a.py::one[x]", half), *(Item(f"b.py::some[{case}]", half) for case in "xyz"), Item("b.py::all[x]")]
    left = sampling.left_out(items)
    runs = [item.nodeid.partition("[")[0] for item in items if item not in left]
    assert [runs.count(name) for name in ("a.py::some", "a.py::one", "b.py::some", "b.py::all")] == [4, 1, 2, 1]
    assert sampling.left_out(items[::-1]) == left


class Config:
    """What is looked at of pytest's configuration."""

    def __init__(self, *args: str, **options: object) -> None:
        self.args, self._options = args, options
        self.hook = self

    def getoption(self, name: str) -> object:
        return self._options.get(name.removeprefix("--").replace("-", "_"))

    def pytest_deselected(self, items: list[Any]) -> None:
        assert items


@pytest.mark.parametrize(
    ("config", "runs"),
    [
        (Config("a.py"), 4),
        (Config("a.py", "a.py::some[1]"), 10),
        (Config("a.py", full_matrix=True), 10),
        (Config("a.py", only_skipped="skipped.txt"), 10),  # a sample of these would not be the cases that skipped
    ],
)
def test_what_is_named_runs_anyhow(config: Any, runs: int) -> None:
    items: list[Any] = [Item(f"a.py::some[{case}]", pytest.mark.sampled(3)) for case in range(10)]
    sampling.choose(config, items)
    assert len(items) == runs


@pytest.mark.sampled(4)
@pytest.mark.parametrize("case", range(8))
def test_what_is_left_out_is_not_run(case: int, request: pytest.FixtureRequest) -> None:
    ran = [item for item in request.session.items if item.originalname == "test_what_is_left_out_is_not_run"]  # type: ignore[attr-defined]
    assert sampling.everything_runs(request.config) or len(ran) <= 2
