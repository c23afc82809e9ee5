"""Edits are atomic, nonsense is refused with its reason, and the two modules map what they say."""

from __future__ import annotations

import json
import threading

import pytest
from farlane.backend.memory.translation.groups import Group, TranslationError
from farlane.backend.memory.translation.segments import SegmentView
from farlane.backend.memory.translation.table import TranslationTable
from farlane.backend.memory.translation.tasks import TaskRanges


def test_priority_decides_and_can_be_exchanged() -> None:
    table = TranslationTable()
    with table.edit() as edit:
        low = edit.add(0, 1000, 100, priority=1)
        high = edit.add(50, 2000, 100, priority=0)
    assert table.lookup(49) == (1049, low)
    assert table.lookup(50) == (2000, high)
    with table.edit() as edit:
        edit.prioritize({low: 0, high: 1})
    assert table.lookup(50) == (1050, low)
    assert table.lookup(100) == (2050, high)
    assert table.lookup(150) is None
    with table.edit() as edit:
        edit.enable(low, enabled=False)
        edit.move(high, 3000)
    assert table.lookup(50) == (3000, high)
    assert table.lookup(0) is None
    assert table.version == 3
    assert TranslationTable.from_json(json.loads(json.dumps(table.to_json()))).ranges == table.ranges


def test_an_edit_that_fails_changes_nothing() -> None:
    table = TranslationTable([Group(0, 0, 0, 10, 0)])
    before = table.to_json()

    def colliding() -> None:
        with table.edit() as edit:
            edit.add(10, 0, 10, priority=0)

    def half_done() -> None:
        with table.edit() as edit:
            edit.remove(0)
            edit.enable(9)

    with pytest.raises(TranslationError, match="groups 0 and 1 have the same priority, 0"):
        colliding()
    with pytest.raises(TranslationError, match="no group 9"):
        half_done()
    assert (table.to_json(), table.version) == (before, 0)


@pytest.mark.parametrize(
    ("start", "physical", "length", "priority", "told"),
    [
        (0, 0, 0, 0, "length of 0"),
        (-1, 0, 5, 0, "start"),
        (0, (1 << 57) - 2, 5, 0, "physical"),
        (0, 0, 5, -1, "negative"),
    ],
)
def test_groups_that_cannot_be(start: int, physical: int, length: int, priority: int, told: str) -> None:
    with pytest.raises(TranslationError, match=told):
        Group(3, start, physical, length, priority)


def test_a_lookup_never_sees_half_an_edit() -> None:
    table = TranslationTable([Group(0, 0, 0, 100, 0), Group(1, 100, 100, 100, 1)])
    stop = threading.Event()
    torn: list[tuple[int, int]] = []

    def look() -> None:
        while not stop.is_set():
            first, second = (piece.physical - piece.start for piece in table.pieces(0, 200))
            if first != second:
                torn.append((first, second))

    thread = threading.Thread(target=look)
    thread.start()
    for shift in range(300):
        with table.edit() as edit:
            edit.move(0, shift)
            edit.move(1, 100 + shift)
    stop.set()
    thread.join()
    assert not torn


def test_scattered_segments_are_one_range() -> None:
    view = SegmentView(100, 10)
    for task in range(5):
        view.take(task, 20, base=1000 * task)
    view.give_back(1)
    view.give_back(3)
    assert view.free_segments == [(20, 20), (60, 20)]
    assert view.missing(41) == 10
    holding = view.take(9, 35, base=5000)
    assert holding.segments == ((20, 20), (60, 20))
    mapped = [view.table.lookup(5000 + byte) for byte in range(holding.length)]
    assert [each.physical for each in mapped if each] == [*range(20, 40), *range(60, 80)]
    assert view.table.lookup(5040) is None
    with pytest.raises(TranslationError, match="asks for 10 bytes, 0 are free"):
        view.take(10, 1)
    with pytest.raises(TranslationError, match="has a range already"):
        view.take(9, 1)
    for task in (0, 2, 4, 9):
        view.give_back(task)
    assert view.free_segments == [(0, 100)]
    assert not view.table.groups
    with pytest.raises(TranslationError, match="task 9 has no range"):
        view.give_back(9)


def test_every_task_finds_its_program_at_the_same_addresses() -> None:
    ranges = TaskRanges(base=0x1000)
    ranges.bind(1, [(0, 16), (64, 16)])
    ranges.bind(2, [(32, 32)])
    shared = ranges.share(0x1000, 500, 64)
    assert ranges.table.lookup(0x1000) == (500, shared)
    ranges.activate(1)
    assert [found.physical for a in (0, 15, 16, 31, 32) if (found := ranges.table.lookup(0x1000 + a))] == [
        0,
        15,
        64,
        79,
        532,
    ]
    version = ranges.table.version
    ranges.activate(2)
    assert ranges.table.version == version + 1
    assert [found.physical for a in (0, 31, 32) if (found := ranges.table.lookup(0x1000 + a))] == [32, 63, 532]
    ranges.unbind(2)
    assert ranges.active is None
    assert ranges.table.lookup(0x1000) == (500, shared)
    for task, segments, told in ((1, [(0, 1)], "bound already"), (3, [], "no memory")):
        with pytest.raises(TranslationError, match=told):
            ranges.bind(task, segments)
    with pytest.raises(TranslationError, match="task 7 is not bound"):
        ranges.activate(7)
