"""Decoding x86-64.

Two speeds. `sweep` goes through whole functions with `disasm_lite` and keeps only what leaves the straight line;
`decode` makes full instructions, for the functions that matter. An undecodable byte ends the decoding: what follows is
not code, or not code we understand.

Operands are taken from the bytes of the disassembler's records: objects in between took longer than all else that is
done to an instruction. Equal bytes are the same instruction wherever they stand, but for a place that counts from the
instruction's end: most instructions of a large program are known from another place.
"""

from __future__ import annotations

import ctypes
import re
from typing import NamedTuple

from farlane.analyzer.machine.disassembler import (
    COUNT,
    DETAIL_BYTES,
    DETAILED,
    IMMEDIATE,
    OPERAND,
    OPERAND_BYTES,
    OPERANDS,
    PLAIN,
    REGISTER,
    WRITE,
    WRITTEN,
    WRITTEN_COUNT,
    Disassembler,
    text,
)
from farlane.analyzer.machine.effects import MODELLED
from farlane.analyzer.machine.instruction import NONE, XMM0, Flow, Immediate, Instruction, Memory, Operand, Register

_SLOT = re.compile(r"(?:qword ptr )?\[rip ([+-]) (0x[0-9a-f]+|\d+)\]")
_DIRECT = re.compile(r"0x[0-9a-f]+$|\d+$")
_STOPS = {"hlt", "ud2"}
# The first byte of a direct call; of a long conditional jump, and half of its second one.
_CALL, _LONG, _CONDITIONAL = 0xE8, 0x0F, 8
_GOING = ("j", "call", "loop", "xbegin")  # what may have a target that counts from its end
MAXIMUM_KNOWN = 100_000  # instructions by their bytes
_FIRST_LETTERS = frozenset(b"cjrihubn")  # of what leaves the straight line, with and without a prefix


def _registers(numbers: dict[str, int]) -> dict[int, Register]:
    """The disassembler's register numbers -> ours."""
    found: dict[int, Register] = {}
    wide = ("rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi")
    for number, name in enumerate(wide):
        stem = name[1:]
        low = f"{stem[0]}l" if stem[1] == "x" else f"{stem}l"
        parts = [(name, 8, 0), (f"e{stem}", 4, 0), (stem, 2, 0), (low, 1, 0)]
        if stem[1] == "x":
            parts.append((f"{stem[0]}h", 1, 1))
        for part, size, offset in parts:
            found[numbers[part]] = Register(number, size, offset)
    for number in range(8, 16):
        for suffix, size in (("", 8), ("d", 4), ("w", 2), ("b", 1)):
            found[numbers[f"r{number}{suffix}"]] = Register(number, size)
    for number in range(16):
        for prefix, size in (("xmm", 16), ("ymm", 32), ("zmm", 64)):
            found[numbers[f"{prefix}{number}"]] = Register(XMM0 + number, size)
    return found


_NUMBERS = Disassembler(details=False).registers()
_REGISTERS = _registers(_NUMBERS)
_RIP, _THREAD = _NUMBERS["rip"], (_NUMBERS["fs"], _NUMBERS["gs"])
_OTHER = Register(NONE, 8)


class Decoder:
    """Decodes machine code; not for several threads at once."""

    def __init__(self) -> None:
        self._lite, self._full = Disassembler(details=False), Disassembler(details=True)
        self._known: dict[bytes, _Form] = {}

    def sweep(self, code: bytes, address: int) -> list[Flow]:
        """The calls, jumps, returns and stops of a range of code, in order."""
        found: list[Flow] = []
        for at, size, name, operands in self._lite.records(code, address, PLAIN):
            if name[0] not in _FIRST_LETTERS:
                continue
            mnemonic = text(name)
            if mnemonic.startswith(("bnd ", "notrack ")):
                mnemonic = mnemonic.split()[1]
            if mnemonic == "call":
                kind = "call"
            elif mnemonic == "jmp":
                kind = "jump"
            elif mnemonic.startswith("j"):
                kind = "branch"
            elif mnemonic in ("ret", "retf", "iretq"):
                found.append(Flow(at, size, "return", None, None))
                continue
            elif mnemonic in _STOPS:
                found.append(Flow(at, size, "stop", None, None))
                continue
            else:
                continue
            operand = text(operands)
            target = int(operand, 0) if _DIRECT.match(operand) else None
            slot = None
            if target is None and (match := _SLOT.match(operand)):
                distance = int(match[2], 0)
                slot = at + size + (distance if match[1] == "+" else -distance)
            found.append(Flow(at, size, kind, target, slot))
        return found

    def text(self, code: bytes, address: int) -> list[tuple[int, str]]:
        """Address and text of each instruction, for people."""
        return [
            (at, f"{text(name)} {text(operands)}".rstrip())
            for at, _, name, operands in self._lite.records(code, address, PLAIN)
        ]

    def decode(self, code: bytes, address: int) -> list[Instruction]:
        """The instructions of a range of code."""
        found: list[Instruction] = []
        known, new = self._known, tuple.__new__  # without the call of the class, which takes longer than all else here
        for at, size, content, name, details in self._full.records(code, address, DETAILED):
            content = content[:size]
            if (first := content[0]) == _CALL or (first == _LONG and content[1] >> 4 == _CONDITIONAL):
                # A fifth of all instructions, of which hardly two have the same bytes.
                distance = int.from_bytes(content[1 if first == _CALL else 2 :], "little", signed=True)
                target = new(Immediate, (at + size + distance, 8))
                found.append(new(Instruction, (at, size, text(name), (target,), ())))
                continue
            form = known.get(content)
            if form is None:
                form = _form(text(name), ctypes.string_at(details, DETAIL_BYTES), content, at + size)
                if len(known) >= MAXIMUM_KNOWN:
                    known.clear()
                if form.anywhere:
                    known[content] = form
            mnemonic, operands, writes, anchored, _ = form
            if anchored >= 0:
                operands = _placed(operands, anchored, at + size)
            found.append(new(Instruction, (at, size, mnemonic, operands, writes)))
        return found


class _Form(NamedTuple):
    """An instruction apart from its place.

    Attributes:
        anchored: the operand that counts from the instruction's end, a branch's target or a place beside the code;
            NONE: there is none.
        anywhere: whether the same bytes are the same instruction at any place.
    """

    mnemonic: str
    operands: tuple[Operand, ...]
    writes: tuple[int, ...]
    anchored: int
    anywhere: bool


def _placed(operands: tuple[Operand, ...], anchored: int, end: int) -> tuple[Operand, ...]:
    operand = operands[anchored]
    if isinstance(operand, Immediate):
        value = (operand.value + end) & (2**64 - 1)
        return (Immediate(value - 2**64 if value >> 63 else value, operand.size),)
    assert isinstance(operand, Memory)
    _, indexed, scale, displacement, size, thread = operand
    moved = tuple.__new__(Memory, (NONE, indexed, scale, displacement + end, size, thread))
    return (*operands[:anchored], moved, *operands[anchored + 1 :])


def _branches(content: bytes) -> bool:
    """Whether an instruction is a jump or call to a place that counts from its end, in one of the forms that compilers
    write."""
    first = content[1] if content[0] == 0xF2 else content[0]
    second = content[2:3] if content[0] == 0xF2 else content[1:2]
    return (
        first in (0xE8, 0xE9, 0xEB)
        or first >> 4 == 7
        or (first == 0x0F and second[:1] >= b"\x80" and second[:1] < b"\x90")
    )


def _form(mnemonic: str, details: bytes, content: bytes, end: int) -> _Form:
    if " " in mnemonic:
        prefix, rest = mnemonic.split(" ", 1)
        mnemonic = rest if prefix in ("bnd", "notrack", "lock") else mnemonic
    operands: list[Operand] = []
    anchored, anywhere = NONE, True
    modelled = mnemonic in MODELLED
    written: set[int] = set()
    for index in range(details[COUNT]):
        kind, first, second, third, scale, displacement, width, access = OPERAND.unpack_from(
            details, OPERANDS + index * OPERAND_BYTES
        )
        operand: Operand
        if kind == REGISTER:
            operand = _REGISTERS.get(first, _OTHER)
            if not modelled and access & WRITE and operand.number != NONE:
                written.add(operand.number)
        elif kind == IMMEDIATE:
            value = first | second << 32
            if mnemonic.startswith(_GOING):
                anywhere = _branches(content)
                anchored, value = index, value - end
                operand = Immediate(value, width)
            else:
                operand = Immediate(value - (1 << 64) if value >> 63 else value, width)
        else:
            base = _number(second)
            if second == _RIP:
                base, anchored = NONE, index
            thread = first in _THREAD
            operand = Memory(base, _number(third), scale, displacement, width, thread)
        operands.append(operand)
    if not modelled:
        for index in range(details[WRITTEN_COUNT]):
            register = _REGISTERS.get(int.from_bytes(details[WRITTEN + 2 * index : WRITTEN + 2 * index + 2], "little"))
            if register is not None:
                written.add(register.number)
    return _Form(mnemonic, tuple(operands), tuple(sorted(written)), anchored, anywhere)


def _number(register: int) -> int:
    return _REGISTERS[register].number if register in _REGISTERS else NONE
