"""What calls of imported functions do to a state.

CUDA's calls follow `interface.ROLES`, those of the C and C++ libraries `library.EFFECTS`. Everything else is an unknown
function: whatever has escaped, and whatever it is given addresses of, may have changed.
"""

from __future__ import annotations

from collections.abc import Sequence

from farlane.analyzer.externals import interface, library
from farlane.analyzer.externals.forms import (
    BY_ADDRESS,
    DEVICE_TO_DEVICE,
    DEVICE_TO_HOST,
    HOST_MEMORY,
    HOST_TO_DEVICE,
    HOST_TO_HOST,
    UNIFIED_MEMORY,
    Copy,
    StructuredCopy,
)
from farlane.analyzer.flow import launches
from farlane.analyzer.flow.call import CudaCall
from farlane.analyzer.machine.instruction import ARGUMENTS, CALLER_SAVED, RAX, RSP, XMM0, lane
from farlane.analyzer.values.cells import CONFIGURATION, PUSHED
from farlane.analyzer.values.expression import CALL, OPAQUE, OPERATION, OUT, VERSION, Value
from farlane.analyzer.values.memory import LAUNCH_SLOT, OTHER, Filled, Store
from farlane.analyzer.values.state import State


def cuda_call(state: State, name: str, site: int) -> CudaCall | None:
    """Applies a CUDA call; what is recorded of it (None: configuration and bookkeeping, no call of its own)."""
    written = interface.WRITES.get(name)
    name = interface.plain(name)
    values = state.memory.values
    inputs = [state.registers[number] for number in ARGUMENTS]
    if name == interface.PUSH:
        for index, value in enumerate(inputs):
            state.registers[CONFIGURATION + index] = values.zero_extended(value, 4) if index in (1, 3) else value
        state.registers[PUSHED] = values.atom(OPAQUE, site, interface.PUSH)
        lose_registers(state, site, values.zero)
        return None
    if name == interface.POP:
        held = state.registers[CONFIGURATION:PUSHED]
        configuration = [
            values.atom(OPAQUE, site, CONFIGURATION + index) if value.lost else value
            for index, value in enumerate(held)
        ]
        state.registers[CONFIGURATION:PUSHED] = state.memory.lost[CONFIGURATION:]  # it is for one launch
        writes = [(0, 0, 8, 0), (0, 8, 4, 1), (1, 0, 8, 2), (1, 8, 4, 3), (2, 0, 8, 4), (3, 0, 8, 5)]
        state.memory.storing = LAUNCH_SLOT
        for argument, offset, size, index in writes:
            state.write(values.add(inputs[argument], offset), size, configuration[index], site)
        state.memory.storing = OTHER
        lose_registers(state, site, values.zero)
        return None
    if name == interface.GET_KERNEL:
        if inputs[0].is_constant and inputs[1].is_constant:
            state.memory.note_handle(inputs[0].constant, inputs[1].constant)
        else:
            state.write(inputs[0], 8, values.atom(OPERATION, "kernel", inputs[1]), site)
        lose_registers(state, site, values.atom(CALL, site, name))
        return None
    form = interface.LAUNCHES.get(name)
    if form is not None:
        recorded = launches.launch(state, form, site)
        lose_registers(state, site, values.atom(CALL, site, name))
        log = state.memory.frame_log
        state.memory.behind_call = log, len(log or ())
        return recorded
    structured = interface.STRUCTURED_COPIES.get(name)
    if structured is not None:
        return _structured_copy(state, name, site, structured)
    return _api(state, name, site, inputs, written)


def _api(state: State, name: str, site: int, inputs: Sequence[Value], written: int | None) -> CudaCall:
    """`written`: the bytes that it writes at most where its roles do not tell."""
    values = state.memory.values
    roles = interface.roles(name)
    if roles is None:
        arguments = tuple((f"argument {index}", value) for index, value in enumerate(inputs))
        unknown_call(state, site)
        state.registers[RAX] = values.atom(CALL, site, name)
        return CudaCall(site, (), name, None, arguments)
    letters = roles.split()
    copy = interface.COPIES.get(name)
    kind = None if copy is None else _direction(state, copy, letters)
    recorded = []
    counted = 2 if name in interface.FROM_SYMBOL else None if copy is None else copy.size
    size = None if counted is None else inputs[counted]
    for index, letter in enumerate(letters):
        value = inputs[index]
        if letter == "v":
            recorded.append((f"argument {index}", value))
        elif letter == "w":
            recorded.append((f"argument {index}", values.zero_extended(value, 4)))
    for index, letter in enumerate(letters):
        if letter.startswith("o") and inputs[index] is not values.zero:
            made = values.atom(OUT, site, name, index, 0)
            if name in interface.HOST_ALLOCATORS:
                state.fresh(made)
            state.write(inputs[index], int(letter[1:]), made, site)
        elif letter == "O":
            state.write_range(inputs[index], None if written is None else values.constant(written), site)
            if written is not None and name not in interface.STRUCTURES:
                filled = Filled(inputs[index], written, site, name)
                state.memory.filled[values.atom(VERSION, site)] = filled
        elif letter == "h":
            if size is not None and size.is_constant and size.constant in (1, 2, 4, 8):
                state.write(inputs[index], size.constant, values.atom(OUT, site, name, index, 0), site)
            else:
                state.write_range(inputs[index], size, site, values.atom(OUT, site, name, index, 0))
    lose_registers(state, site, inputs[0] if name in interface.STRUCTURES else values.atom(CALL, site, name))
    return CudaCall(site, (), name, None, tuple(recorded), kind)


def _direction(state: State, copy: Copy, letters: list[str]) -> int | None:
    """A copy's direction when it is a constant; its roles are changed accordingly."""
    if copy.kind is None:
        kind: int | None = copy.direction
    else:
        flavour = launches.passed(state, copy.kind, 4)
        kind = flavour.constant if flavour.is_constant else None
    letters[copy.destination] = "v" if kind in (HOST_TO_DEVICE, DEVICE_TO_DEVICE) else "h"
    letters[copy.source] = "s" if kind in (HOST_TO_DEVICE, HOST_TO_HOST) else "v"
    return kind


def _structured_copy(state: State, name: str, site: int, copy: StructuredCopy) -> CudaCall:
    """A copy that a structure describes: its fields are the arguments, but for addresses of host memory."""
    values = state.memory.values
    given = state.registers[ARGUMENTS[0]]

    def field(offset: int, size: int) -> Value:
        return state.read(values.add(given, offset), size)

    kinds = [field(offset, 4) for offset in copy.kinds]
    known = all(kind.is_constant and kind.constant != UNIFIED_MEMORY for kind in kinds)
    source, destination = (kind.is_constant and kind.constant == HOST_MEMORY for kind in kinds)
    recorded = [(f"field + {offset}", field(offset, size)) for offset, size in copy.fields]
    recorded += [(f"field + {offset}", kind) for offset, kind in zip(copy.kinds, kinds, strict=True)]
    if copy.stream:
        recorded.append(("argument 1", state.registers[ARGUMENTS[1]]))
    direction = BY_ADDRESS
    if known:
        direction = (
            (HOST_TO_HOST if destination else HOST_TO_DEVICE)
            if source
            else (DEVICE_TO_HOST if destination else DEVICE_TO_DEVICE)
        )
    if destination or not known:
        state.write_range(field(copy.hosts[1], 8), None, site, values.atom(OUT, site, name, 0, 0))
    lose_registers(state, site, values.atom(CALL, site, name))
    return CudaCall(site, (), name, None, tuple(recorded), direction)


def library_call(state: State, name: str, site: int) -> None:
    """Applies a call of another imported function."""
    values = state.memory.values
    known = library.effect(name)
    if known is None:
        unknown_call(state, site)
        return
    inputs = [state.registers[number] for number in ARGUMENTS]
    if known.stream and inputs[0].stack and not state.memory.separate:
        state.write_range(inputs[0], values.constant(library.STREAM), site)
    for argument, size in known.writes:
        target = inputs[argument]
        if target is values.zero:
            continue
        length = inputs[-2 - size] if size <= -2 else None if size == library.ANY else values.constant(size)
        state.write_range(target, length, site)
    if known.returns == 0 and len(known.writes) == 1 and known.writes[0][1] < 0:
        state.escape_range(inputs[1])
    if known.points:
        state.escape(inputs[0])
    result = values.atom(CALL, site, name)
    if known.allocates:
        state.fresh(result)
    floating = library.PURE.get(name)
    if floating is None:
        lose_registers(state, site, result if known.returns is None else inputs[known.returns])
        return
    # A function of its arguments alone: of the numbers, and of the integer that ldexp and scalbn have.
    of = [state.registers[lane(XMM0 + index)] for index in range(floating)]
    if name.startswith(("ldexp", "scalbn")):
        of.append(values.zero_extended(inputs[0], 4))
    result = values.atom(OPERATION, name, *of)
    lose_registers(state, site, result)
    state.registers[lane(XMM0)] = result


def unknown_call(state: State, site: int, quiet: bool = False) -> None:
    """A function of which nothing is known was called: it may keep what it is given and change what it can reach.

    `quiet`: all the same it is known to make no CUDA calls.
    """
    unknown_memory(state, site, quiet)
    lose_registers(state, site, state.memory.values.atom(CALL, site, ""))


def unknown_memory(state: State, site: int, quiet: bool = False) -> None:
    """What an unknown function may do to memory."""
    if state.memory.log is not None:
        state.memory.log.append(Store(None, None, None, quiet))
    given_away(state)
    state.clobber(site)


def given_away(state: State) -> None:
    """A called function may keep what it is given."""
    for number in ARGUMENTS:
        state.escape(state.registers[number])
    stack_pointer, lowest = state.memory.values.base(state.registers[RSP])
    # Arguments on the stack may be addresses too.
    for (offset, _), value in list(state.cells.get(stack_pointer, {}).items()):
        if lowest <= offset < lowest + 64 and value.stack:
            state.escape(value)


def lose_registers(state: State, site: int, result: Value) -> None:
    """A call's effect on registers by the calling convention."""
    lost, registers = state.memory.lost, state.registers
    for number in CALLER_SAVED:
        registers[number] = lost[number]
    registers[XMM0:CONFIGURATION] = lost[XMM0:CONFIGURATION]
    registers[RAX] = result
