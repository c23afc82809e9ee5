"""How far indices reach: divisions by multiplication, limits from branches, addresses that count downward."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from farlane.analyzer.loader import elf
from farlane.analyzer.loops.dependence.ranges import _divisor
from farlane.analyzer.values.expression import OPAQUE, PHI, Values
from farlane.analyzer.values.memory import Memory
from farlane.analyzer.values.state import State
from hypothesis import given
from hypothesis import strategies as st


@pytest.fixture
def state(build: Callable[..., Path]) -> State:
    return State.at_entry(Memory(Values(), elf.load(build("int main() { return 0; }"))))


@given(st.integers(2, 5000), st.integers(0, 20), st.lists(st.integers(0, 2**31 - 1)))
def test_a_division_by_multiplication_is_found(divisor: int, more: int, numbers: list[int]) -> None:
    shift = 31 + divisor.bit_length() + more
    multiplier = -(-(1 << shift) // divisor)
    assert _divisor(multiplier, shift) == divisor
    assert all(number * multiplier >> shift == number // divisor for number in [*numbers, 2**31 - 1])


@given(st.integers(1, 2**40), st.integers(32, 70), st.integers(0, 2**31 - 1))
def test_what_is_taken_for_a_division_is_one(multiplier: int, shift: int, number: int) -> None:
    divisor = _divisor(multiplier, shift)
    assert divisor is None or number * multiplier >> shift == number // divisor


def test_a_store_at_an_index_with_a_limit(state: State) -> None:
    values = state.memory.values
    inside, behind = values.add(values.stack_pointer, -48), values.add(values.stack_pointer, -32)
    for place in (inside, behind):
        state.write(place, 8, values.constant(5), 0x10)
    index = values.atom(PHI, 0x1, 0x2, (values.stack_pointer, -8, 4))
    address = values.combine(values.add(values.stack_pointer, -64), values.sign_extended(index, 4), 4)
    limited = state.limit(index, 7, 4)
    limited.write(address, 4, values.zero, 0x20)
    assert not limited.read(inside, 8).is_constant
    assert limited.read(behind, 8).is_constant
    state.write(address, 4, values.zero, 0x20)
    assert not state.read(behind, 8).is_constant


def test_a_store_at_an_index_that_counts_down_may_be_below(state: State) -> None:
    values = state.memory.values
    below = values.add(values.stack_pointer, -96)
    state.write(below, 8, values.constant(5), 0x10)
    state.write(
        values.combine(values.add(values.stack_pointer, -64), values.atom(OPAQUE, 1, "a"), -8), 8, values.zero, 0x20
    )
    assert not state.read(below, 8).is_constant
