"""The table: groups by number, and their compiled ranges.

Edits are atomic. `with table.edit() as edit:` collects changes; they take effect together when the block ends, or not at all when it raises. A lookup
sees the state before or after all of them: it reads one reference, which an edit replaces. Edits exclude each other; lookups take no lock, but for the first
one behind an edit, which compiles the ranges. An edit costs what it changes, however many groups there are.

`version` counts the states, so that a holder of translations knows when to forget them.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
from farlane.backend.memory.translation.groups import Group, Translation, TranslationError
from farlane.backend.memory.translation.ranges import Compiled, Range
from numpy.typing import NDArray


class Edit:
    """Changes that take effect together. Every method raises TranslationError for what cannot be; the table is then as before."""

    def __init__(self, groups: Mapping[int, Group], following: int, behind: int) -> None:
        """`following`: the number of the next group; `behind`: a priority that comes after all there are."""
        self._before = groups
        self.changed: dict[int, Group | None] = {}  # None: removed
        self.following = following
        self.behind = behind

    @property
    def groups(self) -> Mapping[int, Group]:
        """As they will be."""
        merged = {**self._before, **self.changed}
        return {number: group for number, group in merged.items() if group is not None}

    def add(self, start: int, physical: int, length: int, *, priority: int | None = None, enabled: bool = True) -> int:
        """A new group; returns its number. Without a priority it comes behind all others."""
        if priority is None:
            priority = self.behind
        group = Group(self.following, start, physical, length, priority, enabled)
        self._put(group)
        self.following += 1
        return group.number

    def remove(self, number: int) -> None:
        self._group(number)
        self.changed[number] = None

    def enable(self, number: int, enabled: bool = True) -> None:
        self._put(replace(self._group(number), enabled=enabled))

    def move(self, number: int, physical: int) -> None:
        """The same addresses are now at `physical`."""
        self._put(replace(self._group(number), physical=physical))

    def prioritize(self, priorities: Mapping[int, int]) -> None:
        """Group -> its new priority, all at once, so that two can change places."""
        for number, priority in priorities.items():
            self._put(replace(self._group(number), priority=priority))

    def _put(self, group: Group) -> None:
        self.changed[group.number] = group
        self.behind = max(self.behind, group.priority + 1)

    def _group(self, number: int) -> Group:
        group = self.changed[number] if number in self.changed else self._before.get(number)
        if group is None:
            raise TranslationError(f"there is no group {number}")
        return group


class TranslationTable:
    """See the module. Addresses and lengths in bytes."""

    def __init__(self, groups: Iterable[Group] = ()) -> None:
        self._lock = threading.Lock()
        self._groups: dict[int, Group] = {}
        self._by_priority: dict[int, int] = {}
        self._following = self._behind = 0
        self._version = 0
        self._known: Compiled | None = None
        self._apply({group.number: group for group in groups})

    @property
    def groups(self) -> Mapping[int, Group]:
        with self._lock:
            return dict(self._groups)

    @property
    def version(self) -> int:
        return self._version

    @property
    def ranges(self) -> tuple[Range, ...]:
        return self._compiled().ranges

    @contextmanager
    def edit(self) -> Iterator[Edit]:
        with self._lock:
            edit = Edit(self._groups, self._following, self._behind)
            yield edit
            self._apply(edit.changed)
            self._version += 1

    def lookup(self, address: int) -> Translation | None:
        """What the first group in the order of priority says that covers the address, in logarithmic time."""
        return self._compiled().lookup(address)

    def lookup_many(self, addresses: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """(physical, group), -1 where nothing maps the address; all by one state of the table."""
        return self._compiled().lookup_many(addresses)

    def pieces(self, start: int, length: int) -> list[Range]:
        return self._compiled().pieces(start, length)

    def to_json(self) -> list[dict[str, Any]]:
        return [group.to_json() for group in self.groups.values()]

    @classmethod
    def from_json(cls, data: list[dict[str, Any]]) -> TranslationTable:
        return cls(Group(**each) for each in data)

    def _compiled(self) -> Compiled:
        known = self._known
        if known is None:
            with self._lock:
                known = self._known
                if known is None:
                    known = self._known = Compiled.of(self._groups.values())
        return known

    def _apply(self, changed: Mapping[int, Group | None]) -> None:
        """Makes the changes, or raises TranslationError and makes none."""
        seen: dict[int, int] = {}
        for number, group in changed.items():
            if group is None:
                continue
            other = self._by_priority.get(group.priority)
            if other in changed:
                other = None  # it has another priority by now, or is in `seen`
            other = seen.setdefault(group.priority, number if other is None else other)
            if other != number:
                first, second = sorted((other, number))
                raise TranslationError(f"groups {first} and {second} have the same priority, {group.priority}")
        for number in changed:
            if (before := self._groups.get(number)) is not None:
                del self._by_priority[before.priority]
        for number, group in changed.items():
            if group is None:
                self._groups.pop(number, None)
                continue
            self._groups[number] = group
            self._by_priority[group.priority] = number
            self._following = max(self._following, number + 1)
            self._behind = max(self._behind, group.priority + 1)
        self._known = None
