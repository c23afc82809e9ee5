"""The second module: each task's program at the fixed virtual range it expects (S2, point 4).

Every task was made to run at the same addresses; its data lie elsewhere in external memory. All tasks' groups are in the table, and the enable bits
say whose they are now: a switch is one atomic edit of bits, nothing is copied and no group is made. What all tasks share is mapped once, behind
every task's own groups in priority, so that a task's mapping of the same address wins.
"""

from __future__ import annotations

from collections.abc import Sequence

from farlane.backend.memory.translation.groups import TranslationError
from farlane.backend.memory.translation.table import TranslationTable

# Below every task's groups.
SHARED_PRIORITY = 1 << 40


class TaskRanges:
    """See the module. `base`: where every task expects its program."""

    def __init__(self, base: int) -> None:
        self.base = base
        self.table = TranslationTable()
        self._groups: dict[int, tuple[int, ...]] = {}
        self._shared = 0
        self._active: int | None = None

    @property
    def active(self) -> int | None:
        return self._active

    def bound(self, task: int) -> bool:
        return task in self._groups

    def bind(self, task: int, segments: Sequence[tuple[int, int]]) -> None:
        """The task's range is made of `segments` (physical start, length), one behind the other from `base` on. It is not active yet."""
        if task in self._groups:
            raise TranslationError(f"task {task} is bound already")
        if not segments:
            raise TranslationError(f"task {task} has no memory")
        groups, at = [], self.base
        with self.table.edit() as edit:
            own = [group.priority for group in edit.groups.values() if group.priority < SHARED_PRIORITY]
            priority = 1 + max(own, default=-1)
            for number, (physical, length) in enumerate(segments):
                groups.append(edit.add(at, physical, length, priority=priority + number, enabled=False))
                at += length
        self._groups[task] = tuple(groups)

    def share(self, start: int, physical: int, length: int) -> int:
        """Maps something for all tasks; returns the group's number."""
        with self.table.edit() as edit:
            group = edit.add(start, physical, length, priority=SHARED_PRIORITY + self._shared)
        self._shared += 1
        return group

    def activate(self, task: int | None) -> None:
        """The range at `base` is this task's from now on; None: no task's."""
        if task is not None:
            self._known(task)
        with self.table.edit() as edit:
            for other in {self._active, task} - {None}:
                for group in self._groups.get(other, ()) if other is not None else ():
                    edit.enable(group, other == task)
        self._active = task

    def unbind(self, task: int) -> None:
        groups = self._known(task)
        with self.table.edit() as edit:
            for group in groups:
                edit.remove(group)
        del self._groups[task]
        if self._active == task:
            self._active = None

    def _known(self, task: int) -> tuple[int, ...]:
        try:
            return self._groups[task]
        except KeyError:
            raise TranslationError(f"task {task} is not bound") from None
