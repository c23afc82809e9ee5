"""Where the address of a heap block is taken from at a loop's entry."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from farlane.analyzer.loader import elf
from farlane.analyzer.machine.instruction import RSP
from farlane.analyzer.permissions.abstract.domain import Heap, add, based_on, beginning, constant, frame
from farlane.analyzer.permissions.abstract.memory import State
from farlane.analyzer.slices.extents import address
from farlane.analyzer.slices.form import Origin

RBX, RBP = 3, 5


def test_the_beginning_of_a_block_is_taken_before_other_addresses_of_it(build: Callable[..., Path]) -> None:
    """Compilers keep where an array ends in a register, and where it begins in the frame."""
    state, heap = State.at_entry(elf.load(build("int main() { return 0; }"))), Heap((1,))
    state.registers[RSP] = frame(-64)
    begins, behind = beginning(heap), add(beginning(heap), constant(32))
    state.registers[RBX] = behind
    assert behind == based_on(frozenset({heap})) != begins
    assert address(state, heap, None) == (Origin.REGISTER, RBX)
    state.write(frame(-48), 8, begins)
    assert address(state, heap, None) == (Origin.FRAME, 16)
    state.registers[RBP] = begins
    assert address(state, heap, None) == (Origin.REGISTER, RBP)
    assert address(state, heap, (Origin.REGISTER, RBX)) == (Origin.REGISTER, RBX), "a copy takes it from there"
    assert address(state, Heap((2,)), None) is None
