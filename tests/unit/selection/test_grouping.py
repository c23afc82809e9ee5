"""Tests of a file that share a fixture of their module run in one process; slow groups begin first, then large ones."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import grouping
import pytest


class Item:
    """What is looked at of a collected test."""

    def __init__(self, nodeid: str, *marks: pytest.MarkDecorator, scope: str = "function") -> None:
        self.nodeid, self._marks = nodeid, [mark.mark for mark in marks]
        self._fixtureinfo = SimpleNamespace(name2fixturedefs={"used": [SimpleNamespace(scope=scope)]})

    def iter_markers(self, name: str) -> list[pytest.Mark]:
        return [mark for mark in self._marks if mark.name == name]

    def get_closest_marker(self, name: str) -> pytest.Mark | None:
        return next(iter(self.iter_markers(name)), None)

    def add_marker(self, mark: pytest.MarkDecorator) -> None:
        self._marks.append(mark.mark)

    @property
    def groups(self) -> list[str]:
        return [mark.args[0] for mark in self.iter_markers("xdist_group")]


def test_groups_and_their_order() -> None:
    own = pytest.mark.xdist_group("own")
    items: list[Any] = [
        Item("a.py::alone"),
        Item("a.py::other", scope="session"),
        Item("b.py::one", scope="module"),
        Item("c.py::x", own, scope="module"),
        Item("b.py::two", scope="module"),
        Item("c.py::y", own),
        Item("c.py::z", own),
        Item("d.py::long", pytest.mark.slow),
    ]
    grouping.arrange(items)
    assert [item.nodeid for item in items] == [
        *("d.py::long", "c.py::x", "c.py::y", "c.py::z", "b.py::one", "b.py::two", "a.py::alone", "a.py::other")
    ]
    assert [item.groups for item in items] == [[], ["own"], ["own"], ["own"], ["b.py"], ["b.py"], [], []]
