"""The table: groups by number, and their compiled ranges.

Edits are atomic. `with table.edit() as edit:` collects changes; they take effect together when the block ends, or not at all when it raises. A lookup
sees the state before or after all of them: it reads one reference, which an edit replaces. Edits exclude each other; lookups take no lock.

`version` counts the states, so that whoever remembers translations knows when to forget them.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from farlane.backend.memory.translation.groups import Group, Translation, TranslationError
from farlane.backend.memory.translation.ranges import Compiled, Range
from numpy.typing import NDArray


@dataclass(frozen=True)
class _State:
    groups: Mapping[int, Group]
    compiled: Compiled
    version: int


class Edit:
    """Changes that take effect together. Every method raises TranslationError for what cannot be; the table is then as before."""

    def __init__(self, groups: Mapping[int, Group]) -> None:
        self._groups = dict(groups)
        self._next = max(groups, default=-1) + 1

    @property
    def groups(self) -> Mapping[int, Group]:
        return self._groups

    def add(self, start: int, physical: int, length: int, *, priority: int | None = None, enabled: bool = True) -> int:
        """A new group; returns its number. Without a priority it comes behind all others."""
        if priority is None:
            priority = 1 + max((group.priority for group in self._groups.values()), default=-1)
        group = Group(self._next, start, physical, length, priority, enabled)
        self._groups[group.number] = group
        self._next += 1
        return group.number

    def remove(self, number: int) -> None:
        self._group(number)
        del self._groups[number]

    def enable(self, number: int, enabled: bool = True) -> None:
        self._groups[number] = replace(self._group(number), enabled=enabled)

    def move(self, number: int, physical: int) -> None:
        """The same addresses are now at `physical`."""
        self._groups[number] = replace(self._group(number), physical=physical)

    def prioritize(self, priorities: Mapping[int, int]) -> None:
        """Group -> its new priority, all at once, so that two can change places."""
        for number, priority in priorities.items():
            self._groups[number] = replace(self._group(number), priority=priority)

    def _group(self, number: int) -> Group:
        try:
            return self._groups[number]
        except KeyError:
            raise TranslationError(f"there is no group {number}") from None


class TranslationTable:
    """See the module. Addresses and lengths in bytes."""

    def __init__(self, groups: Iterable[Group] = ()) -> None:
        self._lock = threading.Lock()
        found = {group.number: group for group in groups}
        self._state = _State(found, Compiled.of(found.values()), 0)
        _check(found)

    @property
    def groups(self) -> Mapping[int, Group]:
        return self._state.groups

    @property
    def version(self) -> int:
        return self._state.version

    @property
    def ranges(self) -> tuple[Range, ...]:
        return self._state.compiled.ranges

    @contextmanager
    def edit(self) -> Iterator[Edit]:
        with self._lock:
            state = self._state
            edit = Edit(state.groups)
            yield edit
            _check(edit.groups)
            groups = dict(edit.groups)
            self._state = _State(groups, Compiled.of(groups.values()), state.version + 1)

    def lookup(self, address: int) -> Translation | None:
        """What `groups.first_match` says, in logarithmic time."""
        return self._state.compiled.lookup(address)

    def lookup_many(self, addresses: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """(physical, group), -1 where nothing maps the address; all by one state of the table."""
        return self._state.compiled.lookup_many(addresses)

    def pieces(self, start: int, length: int) -> list[Range]:
        return self._state.compiled.pieces(start, length)

    def to_json(self) -> list[dict[str, Any]]:
        return [group.to_json() for group in self._state.groups.values()]

    @classmethod
    def from_json(cls, data: list[dict[str, Any]]) -> TranslationTable:
        return cls(Group(**each) for each in data)


def _check(groups: Mapping[int, Group]) -> None:
    seen: dict[int, int] = {}
    for group in groups.values():
        other = seen.setdefault(group.priority, group.number)
        if other != group.number:
            raise TranslationError(f"groups {other} and {group.number} have the same priority, {group.priority}")
