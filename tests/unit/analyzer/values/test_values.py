"""Symbolic values, memory's rules of aliasing, trip counts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from farlane.analyzer.analysis.program import analyze
from farlane.analyzer.limits import AnalysisError
from farlane.analyzer.loader import elf
from farlane.analyzer.loops.shape.variables import iterations
from farlane.analyzer.machine.arithmetic import compare
from farlane.analyzer.machine.instruction import RDI, RSI
from farlane.analyzer.values.expression import CALL, INITIAL, OPAQUE, Values
from farlane.analyzer.values.memory import Memory
from farlane.analyzer.values.parts import leaves
from farlane.analyzer.values.state import State
from hypothesis import given
from hypothesis import strategies as st


@pytest.fixture
def state(build: Callable[..., Path]) -> State:
    return State.at_entry(Memory(Values(), elf.load(build("int main() { return 0; }"))))


def test_equal_sums_are_one_object() -> None:
    values = Values()
    first, second = values.atom(OPAQUE, 1, "a"), values.atom(OPAQUE, 2, "b")
    left = values.add(values.combine(first, second, 3), -4)
    right = values.combine(values.scale(second, 3), values.add(first, -4))
    assert left is right
    assert values.combine(left, right, -1) is values.zero
    assert values.zero_extended(values.add(values.zero_extended(first, 4), 1), 4) is values.zero_extended(
        values.add(first, 1), 4
    )


def test_operands_that_operations_share_are_taken_apart_once() -> None:
    values = Values()
    first = value = values.atom(INITIAL, RDI)
    for _ in range(200):  # 2**200 ways down
        value = values.operation("xor", value, values.operation("shl", value, values.constant(13)))
    assert leaves(values.add(value, 3)) == [first]


@given(st.integers(-60, 60), st.integers(-7, 7).filter(bool), st.sampled_from(["<", "<=", ">", ">=", "==", "!="]))
def test_trip_counts_by_counting(start: int, step: int, relation: str) -> None:
    count = 0
    while count < 500 and compare(relation, start + step * count, 0):
        count += 1
    assert iterations(start, step, relation) == (count if count < 500 else None)


def test_what_may_alias_is_forgotten(state: State) -> None:
    values = state.memory.values
    first, second = state.registers[RDI], state.registers[RSI]
    one, two = values.constant(1), values.constant(2)
    state.write(first, 8, one, 0x10)
    assert state.read(first, 8) is one
    state.write(second, 8, two, 0x20)
    assert state.read(second, 8) is two
    assert state.read(first, 8) is not one
    state.write(values.add(second, 8), 8, one, 0x30)
    assert state.read(second, 8) is two
    state.write(values.add(second, 4), 4, one, 0x40)
    assert state.read(second, 8) is not two


def test_a_store_leaves_what_lies_beside_it_from_the_same_address_on(state: State) -> None:
    values = state.memory.values
    first, second = state.registers[RDI], state.registers[RSI]
    before = state.read(values.add(first, 16), 8)
    state.write(first, 8, values.constant(1), 0x10)
    assert state.read(values.add(first, 16), 8) is before
    state.write(values.add(first, 4), 8, values.constant(2), 0x20)  # cuts what was stored
    assert state.read(values.add(first, 16), 8) is not before
    before = state.read(values.add(first, 16), 8)
    state.write(second, 8, values.constant(1), 0x30)
    assert state.read(values.add(first, 16), 8) is not before


def test_the_rest_of_a_cell_that_is_written_in_part(state: State) -> None:
    values = state.memory.values
    place = values.add(values.stack_pointer, -32)
    state.write(place, 8, values.constant(0x1122334455667788), 0x10)
    state.write(values.add(place, 4), 2, values.constant(0xAAAA), 0x20)
    assert state.read(place, 4).constant == 0x55667788
    assert state.read(values.add(place, 6), 2).constant == 0x1122
    state.write(values.add(place, 1), 1, values.zero, 0x30)
    assert not any(state.read(place, size).is_constant for size in (4, 8))


def test_the_frame_is_private_until_its_address_escapes(state: State) -> None:
    values = state.memory.values
    low, high = values.add(values.stack_pointer, -64), values.add(values.stack_pointer, -32)
    number = values.constant(5)
    for place in (low, high):
        state.write(place, 8, number, 0x10)
    state.write(state.registers[RDI], 8, values.zero, 0x20)
    state.clobber(0x30)
    assert state.read(low, 8) is number
    assert state.read(high, 8) is number
    state.escape(high)
    state.clobber(0x40)
    assert state.read(low, 8) is number
    assert state.read(high, 8) is not number
    before = state.read(high, 8)
    state.clobber(0x50)
    assert state.read(high, 8) is not before


def test_an_address_stored_in_escaped_memory_escapes_too(state: State) -> None:
    values = state.memory.values
    low, high = values.add(values.stack_pointer, -64), values.add(values.stack_pointer, -32)
    state.write(low, 8, values.constant(5), 0x10)
    state.write(high, 8, low, 0x20)
    state.escape(high)
    state.clobber(0x30)
    assert not state.read(low, 8).is_constant


def test_a_store_at_a_computed_offset_of_the_frame(state: State) -> None:
    values = state.memory.values
    index = values.scale(values.atom(CALL, 0x5, "rand"), 8)
    below, inside = values.add(values.stack_pointer, -96), values.add(values.stack_pointer, -56)
    for place in (below, inside):
        state.write(place, 8, values.constant(5), 0x10)
    state.write(values.combine(values.add(values.stack_pointer, -64), index), 8, values.zero, 0x20)
    assert state.read(below, 8).is_constant
    assert not state.read(inside, 8).is_constant


def test_damaged_code_ends_in_a_report_or_an_error(build: Callable[..., Path], tmp_path: Path) -> None:
    """The calls are to a function that looks like the runtime's, so the whole analysis runs."""
    source = """
    extern "C" { __attribute__((noinline)) int helper(int n) { return n * 3; } int cudaDeviceSynchronize(); int cudaMalloc(void **, long); }
    int main(int argc, char **) { void *p; for (int i = 0; i < argc; ++i) { cudaMalloc(&p, helper(i)); cudaDeviceSynchronize(); } }
    """
    runtime = (
        'extern "C" int cudaDeviceSynchronize() { return 0; } extern "C" int cudaMalloc(void **, long) { return 0; }'
    )
    program = build(source, "-O2", runtime=runtime)
    whole = analyze(program)
    assert [loop.class_ for loop in whole.loops] == ["2"]
    content = program.read_bytes()
    text = next(segment for segment in elf.load(program).segments if segment.name == ".text")
    at = content.index(text.data)
    import random

    chance = random.Random(3)
    for _ in range(60):
        damaged = bytearray(content)
        for _ in range(chance.randint(1, 12)):
            damaged[at + chance.randrange(len(text.data))] = chance.randrange(256)
        path = tmp_path / "damaged"
        path.write_bytes(damaged)
        try:
            analyze(path, seconds=5)
        except AnalysisError:
            continue
