"""The form of a slice: registers, typed operations, blocks, and the calls between them.

A slice is the part of a loop's host code that decides the loop's CUDA calls: whether there is another iteration, what
each call is passed, which bytes a copy to the device carries. It begins at a call instruction of the loop, the *entry*,
and everything that the loop does from there on, iteration after iteration, is in its graph.

A slice has registers of 64 bits and a memory of a few bytes, the loop's own variables. An operation takes the low
`width` bytes of its operands and leaves its result zero-extended to 64 bits. Its operations are those of x86-64: integers wrap,
shifts count modulo 32 (64 for 8 bytes), floating-point numbers are rounded to nearest even, and NaNs are made and
passed on as SSE does it. There are no flags: a comparison leaves 1 or 0.

A block ends by a jump, a branch, a call, or the loop's end. Block 0 begins at the entry, and every cycle with a call in it
leads through it. Other cycles are loops of the host code, over an array perhaps: so an evaluation counts the operations
from one call to the next, and is stuck behind SLICE_STEPS.

Data, no logic, but for what follows from the tables. The bytes are `encode`'s, the rules `check`'s.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

VERSION = 1


class Code(enum.IntEnum):
    """What an operation computes of its operands a, b, c."""

    CONSTANT = 0x00  # the immediate
    COPY = 0x01  # a
    LOAD = 0x02  # memory at the immediate
    STORE = 0x03  # memory at the immediate becomes a; no target
    SELECT = 0x04  # a when c is not 0, else b
    INSERT = 0x05  # all of a, but the low bytes are b's
    SIGN = 0x06  # a, sign-extended to 64 bits
    NEGATE = 0x07
    NOT = 0x08
    LOAD_AT = 0x09  # of the array that the immediate names, at a bytes from its start; outside of it: stuck
    STORE_AT = 0x0A  # of the array, at b bytes from its start, becomes a; no target

    ADD = 0x10
    SUBTRACT = 0x11
    MULTIPLY = 0x12
    AND = 0x13
    OR = 0x14
    XOR = 0x15
    SHIFT_LEFT = 0x16
    SHIFT_RIGHT = 0x17
    SHIFT_ARITHMETIC = 0x18
    DIVIDE = 0x19  # by 0, or where the quotient does not fit: the slice is stuck; so with the next three
    REMAINDER = 0x1A
    DIVIDE_SIGNED = 0x1B
    REMAINDER_SIGNED = 0x1C
    HIGH = 0x1D  # of the unsigned product, the high half
    HIGH_SIGNED = 0x1E

    EQUAL = 0x20
    BELOW = 0x21
    BELOW_EQUAL = 0x22
    LESS = 0x23
    LESS_EQUAL = 0x24

    F_ADD = 0x30
    F_SUBTRACT = 0x31
    F_MULTIPLY = 0x32
    F_DIVIDE = 0x33
    F_MINIMUM = 0x34  # a when it is less than b, else b
    F_MAXIMUM = 0x35  # a when it is greater than b, else b
    F_SQUARE_ROOT = 0x36
    F_EQUAL = 0x38  # these three: 0 where one is a NaN
    F_LESS = 0x39
    F_LESS_EQUAL = 0x3A
    F_UNORDERED = 0x3B  # whether one is a NaN

    FROM_4 = 0x40  # a floating-point number of `width` bytes from a signed integer of 4 bytes
    FROM_8 = 0x41
    TO_4 = 0x42  # a signed integer of 4 bytes from a floating-point number of `width` bytes, cut
    TO_8 = 0x43
    NEAREST_4 = 0x44  # the same, rounded to nearest even
    NEAREST_8 = 0x45
    WIDEN = 0x46  # 8 bytes from 4; the width is 4
    NARROW = 0x47  # 4 bytes from 8; the width is 8
    ROUND_EVEN = 0x48  # to a whole number: the nearest, the even one of two
    ROUND_DOWN = 0x49
    ROUND_UP = 0x4A
    ROUND_CUT = 0x4B  # towards 0


_F = frozenset({4, 8})
_ALL = frozenset({1, 2, 4, 8})
# Code -> operands, widths.
SHAPES: dict[Code, tuple[int, frozenset[int]]] = {
    Code.CONSTANT: (0, frozenset({8})),
    Code.COPY: (1, _ALL),
    Code.LOAD: (0, _ALL),
    Code.STORE: (1, _ALL),
    Code.LOAD_AT: (1, _ALL),
    Code.STORE_AT: (2, _ALL),
    Code.SELECT: (3, _ALL),
    Code.INSERT: (2, frozenset({1, 2, 4})),
    Code.SIGN: (1, frozenset({1, 2, 4})),
    **dict.fromkeys((Code.NEGATE, Code.NOT), (1, _ALL)),
    **{code: (2, _ALL) for code in Code if Code.ADD <= code <= Code.LESS_EQUAL},
    **{code: (2, _F) for code in Code if Code.F_ADD <= code <= Code.F_UNORDERED},
    Code.F_SQUARE_ROOT: (1, _F),
    **{code: (1, _F) for code in Code if Code.FROM_4 <= code <= Code.NEAREST_8},
    Code.WIDEN: (1, frozenset({4})),
    Code.NARROW: (1, frozenset({8})),
    **{code: (1, _F) for code in Code if code >= Code.ROUND_EVEN},
}
HAS_IMMEDIATE = frozenset({Code.CONSTANT, Code.LOAD, Code.STORE, Code.LOAD_AT, Code.STORE_AT})
STORES = frozenset({Code.STORE, Code.STORE_AT})
FLOATING = frozenset(code for code in Code if code >= Code.F_ADD)


def taken(operation: Operation, index: int) -> int:
    """How many low bytes of an operand an operation looks at."""
    code = operation.code
    if code == Code.SELECT and index == 2:
        return 8
    if code == Code.INSERT and index == 0:
        return 8
    if (code == Code.LOAD_AT and index == 0) or (code == Code.STORE_AT and index == 1):
        return 8
    if code in (Code.FROM_4, Code.FROM_8):
        return 4 if code == Code.FROM_4 else 8
    if code in (Code.SHIFT_LEFT, Code.SHIFT_RIGHT, Code.SHIFT_ARITHMETIC) and index == 1:
        return 1
    return operation.width


class Operation(NamedTuple):
    """One operation; `target` -1 where it has none."""

    code: Code
    width: int
    target: int
    operands: tuple[int, ...] = ()
    immediate: int = 0


class Jump(NamedTuple):
    block: int


class Branch(NamedTuple):
    """To `then` when the register is not 0, else to `other`."""

    register: int
    then: int
    other: int


class Called(NamedTuple):
    """The call of a number is made; then `block`."""

    call: int
    block: int


class Leave(NamedTuple):
    """The loop is left towards an address; 0: the function returns, or the program ends."""

    address: int


End: TypeAlias = Jump | Branch | Called | Leave


class Block(NamedTuple):
    operations: tuple[Operation, ...]
    end: End


class Place(NamedTuple):
    """Bytes of the slice's memory."""

    offset: int
    size: int


class Argument(NamedTuple):
    """What a call is passed: the low `width` bytes of a register, or a place of the memory.

    `number` is that of the manifest's arguments: the C parameter; of a launch 0-2 grid, 3-5 block, 6 shared bytes, 7
    stream, 8 + n the kernel's parameter n.
    """

    number: int
    width: int
    value: int | Place


class Call(NamedTuple):
    """A CUDA call of the loop.

    Attributes:
        site: as the manifest's sites: the return address; of a launch that of the pushed configuration; 0 where a jump
            makes the call, and the return address is a caller's.
        name: the function; `launch`.
        arguments: all that the device's host must know.
        source: the bytes that a copy to the device carries.
        fills: where the bytes go that a copy to the host brings; None: to memory that the slice does not look at.
    """

    site: int
    name: str
    arguments: tuple[Argument, ...] = ()
    source: Place | None = None
    fills: Place | None = None


class Origin(enum.IntEnum):
    """Where a value stands when the program is at the entry's call instruction."""

    REGISTER = 0  # number: of the general register (rdi, rsi, rdx, rcx, r8, r9, rbx, rsp, rbp, r12-r15)
    FRAME = 1  # number: bytes above the stack pointer
    GLOBAL = 2  # number: the address in the file
    # Memory behind an address, which stands in a register or in the frame; number: the low half is that place, as above,
    # the high half how many bytes behind the address.
    BEHIND_REGISTER = 3
    BEHIND_FRAME = 4
    BIAS = 5  # how far the file is from where it is linked; number: 0


FOLLOWED = (Origin.BEHIND_REGISTER, Origin.BEHIND_FRAME)
REACHED = frozenset({1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 13, 14, 15})  # registers that an input may be in


class Input(NamedTuple):
    """A register (`to` its number) or a place of the memory takes its first value from the program."""

    origin: Origin
    number: int
    to: int | Place


def array(immediate: int) -> Place:
    """The array that an operation's immediate names: its offset in the low 16 bits, its size in the next 16."""
    return Place(immediate & 0xFFFF, immediate >> 16)


@dataclass(frozen=True)
class Slice:
    """A slice.

    Attributes:
        entry: the return address of the call at which it begins; block 0 begins there.
        registers, memory: how many.
        floating: whether it holds only where the program has SSE's standard control word (rounding to nearest, no
            flushing, exceptions masked): its starter checks that.
    """

    entry: int
    registers: int
    memory: int
    inputs: tuple[Input, ...]
    blocks: tuple[Block, ...]
    calls: tuple[Call, ...]
    floating: bool = False


@dataclass(frozen=True)
class Sliced:
    """What was found of one loop: its slice, or the reason (a word of `reasons`) and what stood in the way."""

    entry: int
    header: int
    slice: Slice | None
    reason: str = ""
    detail: str = ""
