"""The order in which allocations are accessed."""

from __future__ import annotations

import numpy as np
from farlane.backend.memory.cores.objects import Accesses, pages_of
from farlane.backend.memory.cores.touches import records
from farlane.backend.memory.planner.trace import Trace

PAGE = 4096


def launched(accesses: Accesses, touched: list[tuple[int, int]], *parameters: int) -> None:
    page, write = np.array(touched, np.int64).T
    accesses.launched(pages_of(records(page, 0, write, 0, 1)), parameters)


def test_steps_name_what_was_touched() -> None:
    accesses = Accesses(PAGE)
    accesses.allocated(0, 3 * PAGE)
    accesses.allocated(3 * PAGE, PAGE + 256)
    accesses.allocated(4 * PAGE + 256, 256)
    accesses.copied([(0, 3 * PAGE, True)])
    accesses.copied([(8, 16, True), (3 * PAGE, 16, False)])
    launched(accesses, [(1, 0), (3, 1)], 0, 3 * PAGE)
    launched(accesses, [(4, 1)], 4 * PAGE + 256)  # shared by two: the one that is pointed to
    launched(accesses, [(3, 0), (4, 1)], 3 * PAGE, 4 * PAGE + 256)  # the first one's own page says that it is read
    launched(accesses, [(77, 1)], 77 * PAGE)  # no allocation
    accesses.copied([(99 * PAGE, 1, False)])
    data = accesses.to_json()
    assert data["steps"] == [
        [[0, "w"]],
        [[0, "rw"], [1, "r"]],
        [[0, "r"], [1, "rw"]],
        [[2, "rw"]],
        [[1, "r"], [2, "rw"]],
    ]
    trace = Trace.from_json(data)
    assert trace.memory == 4 * PAGE + 256


def test_an_address_that_is_used_again_is_another_object() -> None:
    accesses = Accesses(PAGE)
    for _ in range(2):
        accesses.allocated(0, PAGE)
        accesses.copied([(0, PAGE, True)])
        accesses.freed(0)
    accesses.copied([(0, PAGE, False)])
    assert accesses.to_json()["steps"] == [[[0, "w"]], [[1, "w"]]]
