"""Blocks of several kernels and streams: every block once, never more than a core has, order within a stream, one schedule."""

from __future__ import annotations

import json
import random

import pytest
from farlane.backend.memory.slots.allocator import SlotError
from farlane.backend.memory.slots.core import Core, CoreSpec, CoreState, Demand, Use, use
from farlane.backend.memory.slots.dispatcher import Dispatcher, DispatcherSpec, Kernel, Placement
from farlane.backend.memory.slots.fast import FastDispatcher
from farlane.backend.memory.slots.policies import POLICIES, FirstFit, TwoEnded
from hypothesis import given
from hypothesis import strategies as st

SMALL = CoreSpec(slots=16, slot_bytes=512, registers=8192, threads=256, blocks=4)


def some_kernels(seed: int) -> list[Kernel]:
    source = random.Random(seed)
    return [
        Kernel(
            f"kernel{number}",
            source.randrange(3),
            Demand(
                source.choice([0, 100, 512, 3000, 8192]), source.choice([8, 16, 32]), source.choice([1, 32, 64, 200])
            ),
            [source.randint(1, 50) for _ in range(source.randint(0, 12))],
        )
        for number in range(source.randint(1, 6))
    ]


def overlapping(placements: list[Placement], core: int, cycle: int) -> list[Placement]:
    return [each for each in placements if each.core == core and each.start <= cycle < each.end]


@pytest.mark.parametrize("name", POLICIES)
@given(seed=st.integers(0, 2**32), cores=st.integers(1, 3), fifo=st.integers(1, 3))
def test_every_block_runs_once_and_no_core_is_overfull(name: str, seed: int, cores: int, fifo: int) -> None:
    kernels = some_kernels(seed)
    dispatcher = Dispatcher(DispatcherSpec(cores, SMALL, fifo), POLICIES[name])
    schedule = dispatcher.run(kernels)
    assert dispatcher.run(kernels) == schedule
    blocks = [(each.kernel, each.block) for each in schedule.placements]
    assert sorted(blocks) == [(k, b) for k, kernel in enumerate(kernels) for b in range(len(kernel.durations))]
    for each in schedule.placements:
        assert each.asked <= each.start
        together = overlapping(schedule.placements, each.core, each.start)
        uses = [use(kernels[other.kernel].demand, SMALL) for other in together]
        assert len(together) <= SMALL.blocks
        assert sum(one.registers for one in uses) <= SMALL.registers
        assert sum(one.threads for one in uses) <= SMALL.threads
        taken = 0
        for other in together:
            if other.span:
                assert not taken & other.span.mask
                taken |= other.span.mask
    for stream in {kernel.stream for kernel in kernels}:
        last_end = 0
        for number, kernel in enumerate(kernels):
            mine = [each for each in schedule.placements if each.kernel == number]
            if kernel.stream == stream and mine:
                assert min(each.asked for each in mine) >= last_end
                last_end = max(each.end for each in mine)
    assert schedule.cycles == max((each.end for each in schedule.placements), default=0)
    assert 0 <= schedule.utilisation(cores * SMALL.slots) <= 1


@pytest.mark.xdist_group("tlb")  # compiled code
@given(seed=st.integers(0, 2**32), cores=st.integers(1, 3), fifo=st.integers(1, 3))
def test_the_compiled_one_equals_the_other(seed: int, cores: int, fifo: int) -> None:
    kernels, spec = some_kernels(seed), DispatcherSpec(cores, SMALL, fifo)
    schedule = FastDispatcher(spec, TwoEnded()).run(kernels)
    expected = Dispatcher(spec, TwoEnded()).run(kernels)
    assert schedule == expected
    assert schedule.placements == expected.placements


def test_streams_take_turns() -> None:
    demand = Demand(512, 8, 32)
    kernels = [Kernel("a", 0, demand, [10] * 4), Kernel("b", 1, demand, [10] * 4)]
    schedule = Dispatcher(DispatcherSpec(1, SMALL, 1), FirstFit()).run(kernels)
    assert [(each.kernel, each.start) for each in schedule.placements][:4] == [(0, 0), (1, 0), (0, 0), (1, 0)]
    assert schedule.cycles == 20


def test_a_block_that_waits_holds_nothing() -> None:
    core = Core(SMALL, TwoEnded())
    assert [
        block for block, _ in core.step((), [(1, Use(10, 100, 32)), (2, Use(10, 100, 32)), (3, Use(1, 100, 32))])
    ] == [1]
    assert core.used_slots() == 10
    assert [block for block, _ in core.step([1])] == [2, 3]


def test_the_state_goes_through_json() -> None:
    core = Core(SMALL, TwoEnded())
    core.step((), [(1, Use(10, 100, 32)), (2, Use(0, 50, 32)), (3, Use(10, 100, 32))])
    again = Core(SMALL, TwoEnded(), CoreState.from_json(json.loads(json.dumps(core.state.to_json()))))
    assert again.state == core.state
    assert again.step([1]) == core.step([1])


@pytest.mark.parametrize(
    ("demand", "told"),
    [
        (Demand(9000, 8, 32), "18 slots of shared memory, a core has 16"),
        (Demand(0, 255, 256), "registers, a core has 8192"),
        (Demand(0, 8, 288), "288 threads, a core has 256"),
    ],
)
def test_a_block_that_no_core_holds_is_refused_before_anything_runs(demand: Demand, told: str) -> None:
    with pytest.raises(SlotError, match=told):
        Dispatcher(DispatcherSpec(1, SMALL, 1), FirstFit()).run([Kernel("k", 0, demand, [1])])


def test_specifications_are_checked() -> None:
    with pytest.raises(SlotError, match="slots = 0"):
        CoreSpec(slots=0)
    with pytest.raises(SlotError, match="fifo = 0"):
        DispatcherSpec(fifo=0)
