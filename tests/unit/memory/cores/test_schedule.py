"""The order of a core's requests: against a plain program that follows the rule's words."""

from __future__ import annotations

import random

import numpy as np
import pytest
from farlane.backend.memory.cores.schedule import Launch, place, requests
from farlane.backend.memory.cores.spec import Cores
from farlane.backend.memory.cores.touches import Columns, Spool, records
from farlane.backend.memory.slots.core import Demand
from farlane.backend.memory.slots.dispatcher import Dispatcher, Schedule
from farlane.backend.memory.slots.policies import POLICIES

Row = tuple[int, int, int, int, int]  # page, warp, write, block, issued


def launch(name: str, stream: int, blocks: int, touched: list[Row], cuts: int = 1, shared: int = 0) -> Launch:
    made = Launch(name, stream, Demand(shared, 32, 64), blocks, Spool(1 << 20))
    table = np.array(touched, np.int64).reshape(-1, 5)
    for part in np.array_split(table, cuts):
        made.add(records(*part.T))
    return made


def naive(
    launches: list[Launch], touched: list[list[Row]], schedule: Schedule, cores: int, issue: int
) -> list[list[tuple[int, int]]]:
    """For each core (cycle, page), as schedule.py's rule says."""
    where = {(one.kernel, one.block): one for one in schedule.placements}
    found: list[list[tuple[int, int, int, int, int, int]]] = [[] for _ in range(cores)]
    for number, entries in enumerate(touched):
        for order, (page, warp, _, block, issued) in enumerate(entries):
            placed = where[number, block]
            cycle = placed.start + issue * issued + warp % issue
            assert placed.start <= cycle < placed.end
            found[placed.core].append((cycle, warp, number, block, order, page))
    result = []
    for entries_of_core in found:
        made, previous = [], -1
        for cycle, _, _, _, _, page in sorted(entries_of_core):
            previous = max(cycle, previous + 1)
            made.append((previous, page))
        result.append(made)
    return result


def streams(
    launches: list[Launch], schedule: Schedule, cores: int, issue: int, window: int
) -> list[list[tuple[int, int]]]:
    """The same from the windows: cycles are the sums of gaps."""
    made: list[list[tuple[int, int]]] = [[] for _ in range(cores)]
    for stream in requests(launches, schedule, cores, issue, window):
        for core, page, gap in zip(stream.core_of().tolist(), stream.page.tolist(), stream.gap.tolist(), strict=True):
            before = made[core][-1][0] if made[core] else -1
            made[core].append((before + gap, page))
    return made


@pytest.mark.parametrize("seed", range(12))
def test_order_is_the_rules(seed: int) -> None:
    random_ = random.Random(seed)
    cores, issue = random_.choice([1, 3, 4]), random_.choice([1, 5, 16])
    launches, touched = [], []
    for number in range(random_.randint(1, 3)):
        blocks = random_.randint(1, 30)
        entries: list[Row] = []
        for block in range(blocks):
            order = [(warp, random_.randint(1, 6)) for warp in range(2) for _ in range(random_.randint(0, 5))]
            random_.shuffle(order)
            issued = [0, 0]
            for warp, step in order:
                issued[warp] += step
                pages = random_.sample(range(50), random_.randint(1, 3))
                entries += [(page, warp, random_.randint(0, 1), block, issued[warp]) for page in pages]
        touched.append(entries)
        launches.append(
            launch(
                str(number), random_.randint(0, 1), blocks, entries, random_.randint(1, 4), random_.choice([0, 20000])
            )
        )
    dispatcher = Dispatcher(Cores(slots=64, blocks=3).dispatcher(cores), POLICIES["two-ended"])
    schedule = place(launches, dispatcher, issue)
    expected = naive(launches, touched, schedule, cores, issue)
    for window in (1, 17, 1 << 19):
        assert streams(launches, schedule, cores, issue, window) == expected


def test_touches_survive_the_file() -> None:
    columns = [np.arange(1000) % 7, np.arange(1000) % 32, np.arange(1000) % 2, np.arange(1000), np.arange(1000) * 5]
    spool = Spool(3 * 100 * 16)
    for part in range(10):
        spool.add(records(*(column[100 * part : 100 * part + 100] for column in columns)))
    assert spool.records == 1000
    found = [np.concatenate(parts) for parts in zip(*(Columns.of(piece) for piece in spool), strict=True)]
    for have, wanted in zip(found, columns, strict=True):
        assert np.array_equal(have, wanted)
    spool.close()
    assert spool.records == len(spool) == 0
