"""Instructions that move values: loads, stores, the stack, extensions, conditional moves, string stores."""

from __future__ import annotations

from collections.abc import Callable

from farlane.analyzer.machine.effects import UNITS
from farlane.analyzer.machine.instruction import (
    NONE,
    RAX,
    RBP,
    RCX,
    RDI,
    RDX,
    RSI,
    RSP,
    XMM0,
    Immediate,
    Instruction,
    Memory,
    Operand,
    Register,
    lane,
)
from farlane.analyzer.semantics.operands import address_of, get, held, opaque, put, unknown, width
from farlane.analyzer.values.cells import FLAGS
from farlane.analyzer.values.condition import condition
from farlane.analyzer.values.expression import OPERATION
from farlane.analyzer.values.state import State


def _move(state: State, instruction: Instruction) -> None:
    target, source = instruction.operands
    if target.size == 8 and source.size == 8:
        _move_whole(state, target, source, instruction.address)
        return
    if target.size > 8 or source.size > 8:
        for operand in (target, source):
            if isinstance(operand, Register) and operand.number > NONE and operand.size > 8:
                unknown(state, instruction)
                return
    put(state, target, get(state, source), instruction)


def _move_whole(state: State, target: Operand, source: Operand, at: int) -> None:
    """Eight bytes, as most moves are of: what `put(get())` does, with fewer calls."""
    if isinstance(source, Memory):
        value = state.read(address_of(state, source), 8)
    elif isinstance(source, Register) and 0 <= source.number < XMM0:
        value = state.registers[source.number]
        if value.lost:
            value = held(state, source.number)
    else:
        value = get(state, source)
    if isinstance(target, Memory):
        state.write(address_of(state, target), 8, value, at)
    elif isinstance(target, Register) and target.number != NONE:
        state.registers[target.number if target.number < XMM0 else lane(target.number)] = value


def _move_signed(state: State, instruction: Instruction) -> None:
    target, source = instruction.operands
    values = state.memory.values
    put(state, target, values.sign_extended(get(state, source), width(source)), instruction)


def _load_address(state: State, instruction: Instruction) -> None:
    target, source = instruction.operands
    assert isinstance(source, Memory)
    put(state, target, address_of(state, source), instruction)


def _push(state: State, instruction: Instruction) -> None:
    values = state.memory.values
    value = get(state, instruction.operands[0])
    if isinstance(instruction.operands[0], Immediate):
        value = values.constant(instruction.operands[0].value)
    state.registers[RSP] = values.add(state.registers[RSP], -8)
    state.write(state.registers[RSP], 8, value, instruction.address)


def _pop(state: State, instruction: Instruction) -> None:
    value = state.read(state.registers[RSP], 8)
    state.registers[RSP] = state.memory.values.add(state.registers[RSP], 8)
    put(state, instruction.operands[0], value, instruction)


def _leave(state: State, _: Instruction) -> None:
    state.registers[RSP] = state.registers[RBP]
    state.registers[RBP] = state.read(state.registers[RSP], 8)
    state.registers[RSP] = state.memory.values.add(state.registers[RSP], 8)


def _extend_accumulator(state: State, instruction: Instruction) -> None:
    values = state.memory.values
    accumulator = state.registers[RAX]
    if instruction.mnemonic == "cdqe":
        state.registers[RAX] = values.sign_extended(accumulator, 4)
    elif instruction.mnemonic == "cwde":
        state.registers[RAX] = values.zero_extended(values.sign_extended(accumulator, 2), 4)
    else:
        size = 8 if instruction.mnemonic == "cqo" else 4
        sign = values.operation(
            "sar", values.zero_extended(accumulator, size), values.constant(8 * size - 1), size=size
        )
        state.registers[RDX] = values.zero_extended(sign, size)


def conditional_move(state: State, instruction: Instruction) -> None:
    values = state.memory.values
    target, source = instruction.operands
    old, new = get(state, target), get(state, source)
    flags = state.registers[FLAGS]
    put(
        state,
        target,
        old if old is new else values.atom(OPERATION, "choose", instruction.mnemonic, flags, old, new),
        instruction,
    )


def set_byte(state: State, instruction: Instruction) -> None:
    values = state.memory.values
    flags = state.registers[FLAGS]
    test = condition(values, f"j{instruction.mnemonic[3:]}", flags)
    known = test.constant() if test is not None else None
    if known is None:
        result = values.atom(OPERATION, "set", instruction.mnemonic, flags)
    else:
        result = values.constant(int(known))
    put(state, instruction.operands[0], result, instruction)


def _string_store(state: State, instruction: Instruction) -> None:
    """rep stos/movs: from rdi on, in units the count register names."""
    target, count = state.registers[RDI], state.registers[RCX]
    _, name = instruction.mnemonic.split()
    unit = UNITS[name[-1]]
    if name.startswith("movs"):
        state.escape_range(state.registers[RSI])
    length = state.memory.values.scale(count, unit) if count.is_constant else None
    state.write_range(target, length, instruction.address)
    for number in instruction.writes:
        if 0 <= number < XMM0:
            state.registers[number] = opaque(state, instruction, number)


HANDLERS: dict[str, Callable[[State, Instruction], None]] = {
    **dict.fromkeys(("mov", "movabs", "movzx"), _move),
    **dict.fromkeys(("movsx", "movsxd"), _move_signed),
    "lea": _load_address,
    "push": _push,
    "pop": _pop,
    "leave": _leave,
    **dict.fromkeys(("cdqe", "cwde", "cdq", "cqo"), _extend_accumulator),
    **dict.fromkeys(
        (f"{prefix} {unit}{size}" for prefix in ("rep", "repne") for unit in ("stos", "movs") for size in "bwdq"),
        _string_store,
    ),
}
