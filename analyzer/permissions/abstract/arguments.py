"""What an imported function is passed, in registers, on the stack, or in a structure."""

from __future__ import annotations

from farlane.analyzer.externals.forms import ARRAY_MEMORY, DEVICE_MEMORY, HOST_MEMORY, StructuredCopy
from farlane.analyzer.machine.instruction import ARGUMENTS, RSP
from farlane.analyzer.permissions.abstract.domain import CONSTANT, Value, add, constant
from farlane.analyzer.permissions.abstract.memory import State


def passed(state: State, index: int, size: int = 8) -> Value:
    """What a call is passed as an argument: the first six are in registers, whatever their size."""
    if index < len(ARGUMENTS):
        return state.registers[ARGUMENTS[index]]
    return state.read(add(state.registers[RSP], constant(8 * (index - len(ARGUMENTS)))), size)


def host_memory(state: State, copy: StructuredCopy, side: int) -> bool | None:
    """Whether source (0) or destination (1) of a copy by structure is the host's memory; None: it is not known."""
    kind = state.read(add(state.registers[ARGUMENTS[0]], constant(copy.kinds[side])), 4)
    if kind.kind != CONSTANT or kind.number not in (HOST_MEMORY, DEVICE_MEMORY, ARRAY_MEMORY):
        return None
    return kind.number == HOST_MEMORY


def structured_host(state: State, copy: StructuredCopy, side: int) -> Value:
    """The host's address of one side of a copy by structure."""
    return state.read(add(state.registers[ARGUMENTS[0]], constant(copy.hosts[side])), 8)
