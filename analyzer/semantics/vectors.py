"""Vector registers: moves of whole registers, halves and scalars, floating-point arithmetic.

A vector register is two values of 8 bytes. Floating point is kept as operations by name: enough to see that two values
are equal, or depend on nothing that varies.
"""

from __future__ import annotations

from collections.abc import Callable

from farlane.analyzer.machine.instruction import SCALAR_FLOATING, XMM0, Immediate, Instruction, Memory, Register, lane
from farlane.analyzer.semantics.operands import address_of, get, opaque, put, unknown, wide, width
from farlane.analyzer.values.cells import FLAGS
from farlane.analyzer.values.expression import OPERATION
from farlane.analyzer.values.state import State

LANEWISE = (
    *(
        f"p{name}{size}"
        for name in ("add", "sub", "and", "or", "mull", "muludq", "srl", "sll", "sra", "cmpeq", "cmpgt", "unpckh")
        for size in ("", "b", "w", "d", "q")
    ),
    *(
        "shufps",
        "shufpd",
        "punpckhdq",
        "punpckhqdq",
        "pmuludq",
        "pinsrd",
        "pinsrq",
        "pandn",
        "movhlps",
        "movlhps",
        "psrldq",
        "pslldq",
    ),
    *(
        f"{name}{width}"
        for name in ("add", "sub", "mul", "div", "sqrt", "and", "andn", "or", "min", "max", "unpckh")
        for width in ("ps", "pd")
    ),
    *(
        f"{name}{width}"
        for name in ("min", "max", "cmpeq", "cmplt", "cmple", "cmpnle", "cmpnlt", "round")
        for width in ("ss", "sd")
    ),
    *("cvtdq2pd", "cvtdq2ps", "cvtps2pd", "cvtpd2ps", "cvttps2dq", "cvttpd2dq", "unpcklps"),
)


def _move_vector(state: State, instruction: Instruction) -> None:
    target, source = instruction.operands
    if wide(target) or wide(source):
        unknown(state, instruction)
        return
    values = state.memory.values
    if isinstance(source, Memory):
        address = address_of(state, source)
        low, high = state.read(address, 8), state.read(values.add(address, 8), 8)
    elif isinstance(source, Register) and source.number >= XMM0:
        low, high = state.registers[lane(source.number)], state.registers[lane(source.number, 1)]
    else:
        unknown(state, instruction)
        return
    if isinstance(target, Memory):
        address = address_of(state, target)
        state.write(address, 8, low, instruction.address)
        state.write(values.add(address, 8), 8, high, instruction.address)
    elif isinstance(target, Register) and target.number >= XMM0:
        state.registers[lane(target.number)] = low
        state.registers[lane(target.number, 1)] = high


def _move_scalar(state: State, instruction: Instruction) -> None:
    """movq, movd, movss, movsd: a load clears the rest, movss and movsd between registers keep it."""
    target, source = instruction.operands
    size = 8 if instruction.mnemonic in ("movq", "movsd") else 4
    values = state.memory.values
    if isinstance(source, Memory):
        value = state.read(address_of(state, source), size)
    else:
        value = values.zero_extended(get(state, source), size)
    if isinstance(target, Memory):
        state.write(address_of(state, target), size, value, instruction.address)
    elif isinstance(target, Register) and target.number >= XMM0:
        keeps = instruction.mnemonic in ("movss", "movsd") and isinstance(source, Register)
        if keeps and size == 4:
            value = opaque(state, instruction, "lane")
        state.registers[lane(target.number)] = value
        if not keeps:
            state.registers[lane(target.number, 1)] = values.zero
    else:
        put(state, target, value, instruction)


def _move_half(state: State, instruction: Instruction) -> None:
    target, source = instruction.operands
    half = 1 if "h" in instruction.mnemonic else 0
    if isinstance(target, Memory) and isinstance(source, Register) and source.number >= XMM0:
        state.write(address_of(state, target), 8, state.registers[lane(source.number, half)], instruction.address)
    elif isinstance(target, Register) and target.number >= XMM0 and isinstance(source, Memory):
        state.registers[lane(target.number, half)] = state.read(address_of(state, source), 8)
    else:
        unknown(state, instruction)


def _unpack_low(state: State, instruction: Instruction) -> None:
    target, source = instruction.operands
    if not isinstance(target, Register) or target.number < XMM0 or len(instruction.operands) != 2:
        unknown(state, instruction)
    else:
        state.registers[lane(target.number, 1)] = get(state, source)


def _exclusive_or(state: State, instruction: Instruction) -> None:
    """With itself it clears a register; with a constant it is how compilers negate."""
    target, source = instruction.operands
    if target == source and isinstance(target, Register):
        zero = state.memory.values.zero
        state.registers[lane(target.number)] = state.registers[lane(target.number, 1)] = zero
    else:
        lanewise(state, instruction)


def _floating(state: State, instruction: Instruction) -> None:
    """Scalar arithmetic and conversions; the low lane's upper half is taken along unchanged in kind."""
    target, source = instruction.operands
    values = state.memory.values
    inputs = [get(state, source)]
    if not instruction.mnemonic.startswith(("cvt", "sqrt")):
        inputs.insert(0, get(state, target))
    result = values.atom(OPERATION, instruction.mnemonic, *inputs)
    if instruction.mnemonic.startswith("cvtt"):
        result = values.zero_extended(result, width(target))
    put(state, target, result, instruction)


def _compare_floating(state: State, instruction: Instruction) -> None:
    first, second = instruction.operands
    values = state.memory.values
    state.registers[FLAGS] = values.atom(OPERATION, instruction.mnemonic, get(state, first), get(state, second))


def _unpack_words(state: State, instruction: Instruction) -> None:
    """punpckldq, unpcklps: the low halves' four-byte parts, alternating."""
    target, source = instruction.operands
    if not isinstance(target, Register) or target.number < XMM0:
        unknown(state, instruction)
        return
    values = state.memory.values
    first, second = state.registers[lane(target.number)], get(state, source)
    state.registers[lane(target.number)] = values.pair(values.zero_extended(first, 4), values.zero_extended(second, 4))
    state.registers[lane(target.number, 1)] = values.pair(values.high_half(first), values.high_half(second))


def _shuffle_words(state: State, instruction: Instruction) -> None:
    """pshufd: each four bytes of the result are four bytes of the source, as the third operand says."""
    target, source, order = instruction.operands
    if not isinstance(target, Register) or target.size > 16 or not isinstance(order, Immediate):
        unknown(state, instruction)
        return
    values = state.memory.values
    if isinstance(source, Memory):
        address = address_of(state, source)
        halves = [state.read(address, 8), state.read(values.add(address, 8), 8)]
    elif isinstance(source, Register) and source.number >= XMM0:
        halves = [state.registers[lane(source.number, half)] for half in (0, 1)]
    else:
        unknown(state, instruction)
        return
    chosen = [order.value >> 2 * index & 3 for index in range(4)]
    words = [
        values.high_half(halves[each >> 1]) if each & 1 else values.zero_extended(halves[each >> 1], 4)
        for each in chosen
    ]
    state.registers[lane(target.number)] = values.pair(words[0], words[1])
    state.registers[lane(target.number, 1)] = values.pair(words[2], words[3])


def lanewise(state: State, instruction: Instruction) -> None:
    """An instruction whose result is a function of its operands alone: kept by name, for each half."""
    target = instruction.operands[0]
    if not isinstance(target, Register) or target.number < XMM0 or target.size > 16 or wide(instruction.operands[-1]):
        unknown(state, instruction)
        return
    values = state.memory.values
    inputs = []
    # The target is an input too, but not of conversions.
    for operand in instruction.operands[1 if instruction.mnemonic.startswith(("cvt", "sqrt")) else 0 :]:
        if isinstance(operand, Register) and operand.number >= XMM0:
            inputs += [state.registers[lane(operand.number)], state.registers[lane(operand.number, 1)]]
        elif isinstance(operand, Memory) and operand.size > 8:
            address = address_of(state, operand)
            inputs += [state.read(address, 8), state.read(values.add(address, 8), 8)]
        else:
            inputs.append(get(state, operand))
    for half in (0, 1):
        name = f"{instruction.mnemonic}.{half}"
        state.registers[lane(target.number, half)] = values.atom(OPERATION, name, *inputs)


HANDLERS: dict[str, Callable[[State, Instruction], None]] = {
    **dict.fromkeys(("comiss", "comisd", "ucomiss", "ucomisd"), _compare_floating),
    **dict.fromkeys(("movaps", "movups", "movdqa", "movdqu", "movapd", "movupd"), _move_vector),
    **dict.fromkeys(("movq", "movd", "movss", "movsd"), _move_scalar),
    **dict.fromkeys(("movhps", "movlps", "movhpd", "movlpd"), _move_half),
    "punpcklqdq": _unpack_low,
    "unpcklpd": _unpack_low,
    "punpckldq": _unpack_words,
    "unpcklps": _unpack_words,
    **dict.fromkeys(("pxor", "xorps", "xorpd"), _exclusive_or),
    **dict.fromkeys(SCALAR_FLOATING, _floating),
    **dict.fromkeys(LANEWISE, lanewise),
    "pshufd": _shuffle_words,
}
