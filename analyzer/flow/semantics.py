"""What instructions do to a state. Calls and jumps are the engine's business.

Mnemonics in `_HANDLERS` are executed; of all others it is only known what they change, which becomes OPAQUE. Scalar
floating point is kept as operations by name: enough to see that two values are equal, or depend on nothing that varies.
"""

from __future__ import annotations

from collections.abc import Callable

from farlane.analyzer.flow.condition import condition
from farlane.analyzer.flow.expression import OPAQUE, OPERATION, Value
from farlane.analyzer.flow.state import FLAGS, State
from farlane.analyzer.machine.instruction import (
    NONE,
    RAX,
    RBP,
    RDI,
    RDX,
    RSP,
    SCALAR_FLOATING,
    XMM0,
    Immediate,
    Instruction,
    Memory,
    Operand,
    Register,
)

_EXCHANGES = {"xchg", "xadd", "cmpxchg"}
_READ_ONLY = {"cmp", "test", "comiss", "comisd", "ucomiss", "ucomisd", "bt", "ptest", "prefetcht0", "prefetchw", "nop"}


def execute(state: State, instruction: Instruction) -> None:
    """Changes the state as the instruction does."""
    handler = _HANDLERS.get(instruction.mnemonic)
    if handler is not None:
        handler(state, instruction)
    elif instruction.mnemonic.startswith("j"):
        pass
    elif instruction.mnemonic.startswith("cmov"):
        _conditional_move(state, instruction)
    elif instruction.mnemonic.startswith("set"):
        _set_byte(state, instruction)
    else:
        _unknown(state, instruction)


def address_of(state: State, memory: Memory) -> Value:
    """The address of a memory operand."""
    values = state.memory.values
    total = values.constant(memory.displacement)
    if memory.thread:
        total = values.add(values.atom(OPERATION, "thread"), memory.displacement)
    if memory.base != NONE:
        total = (
            values.combine(total, state.registers[memory.base])
            if 0 <= memory.base < XMM0
            else values.atom(OPAQUE, -1, "address")
        )
    if memory.indexed != NONE:
        total = values.combine(total, state.registers[memory.indexed], memory.scale)
    return total


def _lane(register: int, half: int = 0) -> int:
    return XMM0 + 2 * (register - XMM0) + half


def _get(state: State, operand: Operand) -> Value:
    """An operand of up to 8 bytes, zero-extended."""
    values = state.memory.values
    if isinstance(operand, Immediate):
        return values.constant(operand.value & ((1 << 8 * operand.size) - 1) if operand.size < 8 else operand.value)
    if isinstance(operand, Register):
        if operand.number == NONE:
            return values.atom(OPAQUE, -1, "register")
        if operand.number >= XMM0:
            return state.registers[_lane(operand.number)]
        value = state.registers[operand.number]
        if operand.offset:
            value = values.operation("shr", value, values.constant(8))
        return values.zero_extended(value, operand.size)
    return state.read(address_of(state, operand), min(operand.size, 8))


def _put(state: State, operand: Operand, value: Value, instruction: Instruction) -> None:
    """Stores into an operand of up to 8 bytes."""
    values = state.memory.values
    if isinstance(operand, Memory):
        state.write(address_of(state, operand), min(operand.size, 8), value, instruction.address)
    elif isinstance(operand, Register) and operand.number >= XMM0:
        state.registers[_lane(operand.number)] = value
    elif isinstance(operand, Register) and operand.number != NONE:
        if operand.size >= 4:
            value = values.zero_extended(value, operand.size)
        else:
            value = values.atom(
                OPERATION, "insert", state.registers[operand.number], value, operand.size, operand.offset
            )
        state.registers[operand.number] = value


def _opaque(state: State, instruction: Instruction, what: object) -> Value:
    return state.memory.values.atom(OPAQUE, instruction.address, what)


def _unknown(state: State, instruction: Instruction) -> None:
    for number in instruction.writes:
        if number >= XMM0:
            state.registers[_lane(number)] = _opaque(state, instruction, _lane(number))
            state.registers[_lane(number, 1)] = _opaque(state, instruction, _lane(number, 1))
        elif number != NONE:
            state.registers[number] = _opaque(state, instruction, number)
    written = instruction.operands if instruction.mnemonic in _EXCHANGES else instruction.operands[:1]
    for operand in written:
        if not isinstance(operand, Memory) or instruction.mnemonic in _READ_ONLY:
            continue
        if operand.size <= 8:
            _put(state, operand, _opaque(state, instruction, "memory"), instruction)
        else:
            size = state.memory.values.constant(operand.size)
            state.write_range(address_of(state, operand), size, instruction.address)
    state.registers[FLAGS] = _opaque(state, instruction, "flags")


def _string_store(state: State, instruction: Instruction) -> None:
    """rep stos/movs: from rdi on, in units the count register names."""
    target = state.registers[RDI]
    state.write_range(target, None, instruction.address)
    for number in instruction.writes:
        if 0 <= number < XMM0:
            state.registers[number] = _opaque(state, instruction, number)


def _move(state: State, instruction: Instruction) -> None:
    target, source = instruction.operands
    if any(
        isinstance(operand, Register) and operand.number > NONE and operand.size > 8 for operand in instruction.operands
    ):
        _unknown(state, instruction)
        return
    _put(state, target, _get(state, source), instruction)


def _move_signed(state: State, instruction: Instruction) -> None:
    target, source = instruction.operands
    values = state.memory.values
    _put(state, target, values.sign_extended(_get(state, source), _size(source)), instruction)


def _size(operand: Operand) -> int:
    return min(operand.size, 8)


def _load_address(state: State, instruction: Instruction) -> None:
    target, source = instruction.operands
    assert isinstance(source, Memory)
    _put(state, target, address_of(state, source), instruction)


def _arithmetic(name: str) -> Callable[[State, Instruction], None]:
    def run(state: State, instruction: Instruction) -> None:
        values = state.memory.values
        target, source = instruction.operands[0], instruction.operands[-1]
        size = _size(target)
        first, second = _get(state, target), _get(state, source)
        if isinstance(source, Immediate):
            second = (
                values.sign_extended(values.constant(source.value), size) if size < 8 else values.constant(source.value)
            )
        if name in ("xor", "sub") and target == source:
            result = values.zero
        elif name in ("add", "sub"):
            result = values.combine(first, second, 1 if name == "add" else -1)
        elif name == "and" and second.is_constant and second.constant & 0xFFFFFFFF == 0xFFFFFFFF and size == 4:
            result = first
        elif name == "and" and second.is_constant and second.constant == 0xFFFFFFFF:
            result = values.zero_extended(first, 4)
        elif name == "and" and isinstance(target, Register) and target.number == RSP:
            result = values.atom(OPERATION, "align", first, second)
        elif name == "or" and second.is_constant and second.constant & ((1 << 8 * size) - 1) == (1 << 8 * size) - 1:
            result = values.constant(-1)
        else:
            result = values.operation(name, first, second, size=size)
        _put(state, target, result, instruction)
        if name == "sub":
            state.registers[FLAGS] = values.atom(OPERATION, f"cmp{size}", first, second)
        else:
            state.registers[FLAGS] = values.atom(OPERATION, f"res{size}", values.zero_extended(result, size))

    return run


def _step(amount: int) -> Callable[[State, Instruction], None]:
    def run(state: State, instruction: Instruction) -> None:
        (target,) = instruction.operands
        values = state.memory.values
        result = values.add(_get(state, target), amount)
        _put(state, target, result, instruction)
        state.registers[FLAGS] = values.atom(
            OPERATION, f"res{_size(target)}", values.zero_extended(result, _size(target))
        )

    return run


def _negate(state: State, instruction: Instruction) -> None:
    (target,) = instruction.operands
    values = state.memory.values
    result = values.scale(_get(state, target), -1)
    if instruction.mnemonic == "not":
        result = values.add(result, -1)
    _put(state, target, result, instruction)
    state.registers[FLAGS] = _opaque(state, instruction, "flags")


def _multiply(state: State, instruction: Instruction) -> None:
    if len(instruction.operands) == 1:
        state.registers[RAX] = _opaque(state, instruction, RAX)
        state.registers[RDX] = _opaque(state, instruction, RDX)
        state.registers[FLAGS] = _opaque(state, instruction, "flags")
        return
    values = state.memory.values
    target = instruction.operands[0]
    first, second = _get(state, instruction.operands[-2]), _get(state, instruction.operands[-1])
    if isinstance(instruction.operands[-1], Immediate):
        second = values.constant(instruction.operands[-1].value)
    if first.is_constant:
        first, second = second, first
    if second.is_constant:
        result = values.scale(first, second.constant)
    else:
        result = values.operation("imul", first, second, size=_size(target))
    _put(state, target, result, instruction)
    state.registers[FLAGS] = _opaque(state, instruction, "flags")


def _shift(name: str) -> Callable[[State, Instruction], None]:
    def run(state: State, instruction: Instruction) -> None:
        values = state.memory.values
        target = instruction.operands[0]
        size = _size(target)
        first = _get(state, target)
        count = _get(state, instruction.operands[1]) if len(instruction.operands) == 2 else values.constant(1)
        if name == "shl" and count.is_constant:
            result = values.scale(first, 1 << (count.constant & (63 if size == 8 else 31)))
        else:
            result = values.operation(name, first, count, size=size)
        _put(state, target, result, instruction)
        state.registers[FLAGS] = values.atom(OPERATION, f"res{size}", values.zero_extended(result, size))

    return run


def _compare(state: State, instruction: Instruction) -> None:
    values = state.memory.values
    first, second = instruction.operands
    size = _size(first)
    left, right = _get(state, first), _get(state, second)
    if isinstance(second, Immediate):
        right = values.zero_extended(values.constant(second.value), size)
    if instruction.mnemonic == "test":
        if left is right:
            state.registers[FLAGS] = values.atom(OPERATION, f"res{size}", left)
            return
        state.registers[FLAGS] = values.atom(OPERATION, f"res{size}", values.operation("and", left, right, size=size))
        return
    state.registers[FLAGS] = values.atom(OPERATION, f"cmp{size}", left, right)


def _compare_floating(state: State, instruction: Instruction) -> None:
    first, second = instruction.operands
    values = state.memory.values
    state.registers[FLAGS] = values.atom(OPERATION, instruction.mnemonic, _get(state, first), _get(state, second))


def _push(state: State, instruction: Instruction) -> None:
    values = state.memory.values
    value = _get(state, instruction.operands[0])
    if isinstance(instruction.operands[0], Immediate):
        value = values.constant(instruction.operands[0].value)
    state.registers[RSP] = values.add(state.registers[RSP], -8)
    state.write(state.registers[RSP], 8, value, instruction.address)


def _pop(state: State, instruction: Instruction) -> None:
    value = state.read(state.registers[RSP], 8)
    state.registers[RSP] = state.memory.values.add(state.registers[RSP], 8)
    _put(state, instruction.operands[0], value, instruction)


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


def _conditional_move(state: State, instruction: Instruction) -> None:
    values = state.memory.values
    target, source = instruction.operands
    old, new = _get(state, target), _get(state, source)
    flags = state.registers[FLAGS]
    _put(
        state,
        target,
        old if old is new else values.atom(OPERATION, "choose", instruction.mnemonic, flags, old, new),
        instruction,
    )


def _set_byte(state: State, instruction: Instruction) -> None:
    values = state.memory.values
    flags = state.registers[FLAGS]
    test = condition(values, f"j{instruction.mnemonic[3:]}", flags)
    known = test.constant() if test is not None else None
    if known is None:
        result = values.atom(OPERATION, "set", instruction.mnemonic, flags)
    else:
        result = values.constant(int(known))
    _put(state, instruction.operands[0], result, instruction)


def _move_vector(state: State, instruction: Instruction) -> None:
    target, source = instruction.operands
    if _wide(target) or _wide(source):
        _unknown(state, instruction)
        return
    values = state.memory.values
    if isinstance(source, Memory):
        address = address_of(state, source)
        low, high = state.read(address, 8), state.read(values.add(address, 8), 8)
    elif isinstance(source, Register) and source.number >= XMM0:
        low, high = state.registers[_lane(source.number)], state.registers[_lane(source.number, 1)]
    else:
        _unknown(state, instruction)
        return
    if isinstance(target, Memory):
        address = address_of(state, target)
        state.write(address, 8, low, instruction.address)
        state.write(values.add(address, 8), 8, high, instruction.address)
    elif isinstance(target, Register) and target.number >= XMM0:
        state.registers[_lane(target.number)] = low
        state.registers[_lane(target.number, 1)] = high


def _wide(operand: Operand) -> bool:
    return isinstance(operand, (Register, Memory)) and operand.size > 16


def _move_scalar(state: State, instruction: Instruction) -> None:
    """movq, movd, movss, movsd: a load clears the rest, movss and movsd between registers keep it."""
    target, source = instruction.operands
    size = 8 if instruction.mnemonic in ("movq", "movsd") else 4
    values = state.memory.values
    if isinstance(source, Memory):
        value = state.read(address_of(state, source), size)
    else:
        value = values.zero_extended(_get(state, source), size)
    if isinstance(target, Memory):
        state.write(address_of(state, target), size, value, instruction.address)
    elif isinstance(target, Register) and target.number >= XMM0:
        keeps = instruction.mnemonic in ("movss", "movsd") and isinstance(source, Register)
        if keeps and size == 4:
            value = _opaque(state, instruction, "lane")
        state.registers[_lane(target.number)] = value
        if not keeps:
            state.registers[_lane(target.number, 1)] = values.zero
    else:
        _put(state, target, value, instruction)


def _move_half(state: State, instruction: Instruction) -> None:
    target, source = instruction.operands
    half = 1 if "h" in instruction.mnemonic else 0
    if isinstance(target, Memory) and isinstance(source, Register) and source.number >= XMM0:
        state.write(address_of(state, target), 8, state.registers[_lane(source.number, half)], instruction.address)
    elif isinstance(target, Register) and target.number >= XMM0 and isinstance(source, Memory):
        state.registers[_lane(target.number, half)] = state.read(address_of(state, source), 8)
    else:
        _unknown(state, instruction)


def _unpack_low(state: State, instruction: Instruction) -> None:
    target, source = instruction.operands
    if not isinstance(target, Register) or target.number < XMM0 or len(instruction.operands) != 2:
        _unknown(state, instruction)
    else:
        state.registers[_lane(target.number, 1)] = _get(state, source)


def _clear_vector(state: State, instruction: Instruction) -> None:
    target, source = instruction.operands
    if target == source and isinstance(target, Register):
        zero = state.memory.values.zero
        state.registers[_lane(target.number)] = state.registers[_lane(target.number, 1)] = zero
    else:
        _lose_vector(state, instruction)


def _lose_vector(state: State, instruction: Instruction) -> None:
    target = instruction.operands[0]
    if isinstance(target, Register) and target.number >= XMM0:
        for half in (0, 1):
            state.registers[_lane(target.number, half)] = _opaque(state, instruction, half)


def _floating(state: State, instruction: Instruction) -> None:
    """Scalar arithmetic and conversions; the low lane's upper half is taken along unchanged in kind."""
    target, source = instruction.operands
    values = state.memory.values
    inputs = [_get(state, source)]
    if not instruction.mnemonic.startswith(("cvt", "sqrt")):
        inputs.insert(0, _get(state, target))
    result = values.atom(OPERATION, instruction.mnemonic, *inputs)
    if instruction.mnemonic.startswith("cvtt"):
        result = values.zero_extended(result, _size(target))
    _put(state, target, result, instruction)


def _bit_test(state: State, instruction: Instruction) -> None:
    state.registers[FLAGS] = _opaque(state, instruction, "flags")


def _nothing(state: State, instruction: Instruction) -> None:
    pass


_HANDLERS: dict[str, Callable[[State, Instruction], None]] = {
    **dict.fromkeys(("mov", "movabs", "movzx"), _move),
    **dict.fromkeys(("movsx", "movsxd"), _move_signed),
    "lea": _load_address,
    **{name: _arithmetic(name) for name in ("add", "sub", "and", "or", "xor")},
    "inc": _step(1),
    "dec": _step(-1),
    "neg": _negate,
    "not": _negate,
    "imul": _multiply,
    "shl": _shift("shl"),
    "sal": _shift("shl"),
    "shr": _shift("shr"),
    "sar": _shift("sar"),
    "cmp": _compare,
    "test": _compare,
    **dict.fromkeys(("comiss", "comisd", "ucomiss", "ucomisd"), _compare_floating),
    "bt": _bit_test,
    "push": _push,
    "pop": _pop,
    "leave": _leave,
    **dict.fromkeys(("cdqe", "cwde", "cdq", "cqo"), _extend_accumulator),
    **dict.fromkeys(("movaps", "movups", "movdqa", "movdqu", "movapd", "movupd"), _move_vector),
    **dict.fromkeys(("movq", "movd", "movss", "movsd"), _move_scalar),
    **dict.fromkeys(("movhps", "movlps", "movhpd", "movlpd"), _move_half),
    "punpcklqdq": _unpack_low,
    "unpcklpd": _unpack_low,
    **dict.fromkeys(("pxor", "xorps", "xorpd"), _clear_vector),
    **dict.fromkeys(SCALAR_FLOATING, _floating),
    **dict.fromkeys(("nop", "endbr64", "ret"), _nothing),
    **dict.fromkeys(
        (f"{prefix} {unit}{width}" for prefix in ("rep", "repne") for unit in ("stos", "movs") for width in "bwdq"),
        _string_store,
    ),
}
