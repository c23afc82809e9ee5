"""Decoding x86-64.

Two speeds. `sweep` goes through whole functions with `disasm_lite` and keeps only what leaves the straight line; `decode`
makes full instructions, for the functions that matter. An undecodable byte ends the decoding: what follows is not code, or
not code we understand.

Operands are taken from the bytes of the disassembler's records: objects in between took longer than all else that is done to an
instruction.
"""

from __future__ import annotations

import ctypes
import re

from farlane.analyzer.machine.disassembler import (
    COUNT,
    DETAIL_BYTES,
    IMMEDIATE,
    OPERAND,
    OPERAND_BYTES,
    OPERANDS,
    REGISTER,
    WRITE,
    WRITTEN,
    WRITTEN_COUNT,
    Disassembler,
)
from farlane.analyzer.machine.instruction import (
    NONE,
    SCALAR_FLOATING,
    XMM0,
    Flow,
    Immediate,
    Instruction,
    Memory,
    Operand,
    Register,
)

_SLOT = re.compile(r"(?:qword ptr )?\[rip ([+-]) (0x[0-9a-f]+|\d+)\]")
_DIRECT = re.compile(r"0x[0-9a-f]+$|\d+$")
_STOPS = {"hlt", "ud2"}
_FIRST_LETTERS = frozenset(b"cjrihubn")  # of what leaves the straight line, with and without a prefix

# What `flow.semantics` executes operand by operand: their implicit writes are its business, so the costly question which
# registers an instruction changes is asked only of the others.
_MODELLED = frozenset(
    [
        "mov",
        "movabs",
        "movzx",
        "movsx",
        "movsxd",
        "lea",
        "add",
        "sub",
        "inc",
        "dec",
        "neg",
        "not",
        "imul",
        "shl",
        "sal",
        "sar",
        "shr",
        "and",
        "or",
        "xor",
        "cmp",
        "test",
        "push",
        "pop",
        "leave",
        "call",
        "ret",
        "jmp",
        "nop",
        "endbr64",
        "cdqe",
        "cwde",
        "cqo",
        "cdq",
        "movaps",
        "movups",
        "movdqa",
        "movdqu",
        "movapd",
        "movupd",
        "movq",
        "movd",
        "movss",
        "movsd",
        "movhps",
        "movlps",
        "movhpd",
        "movlpd",
        "punpcklqdq",
        "pxor",
        "xorps",
        "xorpd",
        "unpcklpd",
        *SCALAR_FLOATING,
        "comiss",
        "comisd",
        "ucomiss",
        "ucomisd",
        "bt",
    ]
)


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

    def sweep(self, code: bytes, address: int) -> list[Flow]:
        """The calls, jumps, returns and stops of a range of code, in order."""
        found: list[Flow] = []
        for raw in self._lite.records(code, address):
            name = raw.mnemonic
            if name[0] not in _FIRST_LETTERS:
                continue
            mnemonic = name.decode("ascii")
            if mnemonic.startswith(("bnd ", "notrack ")):
                mnemonic = mnemonic.split()[1]
            at, size = raw.address, raw.size
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
            operand = raw.op_str.decode("ascii")
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
            (raw.address, f"{raw.mnemonic.decode('ascii')} {raw.op_str.decode('ascii')}".rstrip())
            for raw in self._lite.records(code, address)
        ]

    def decode(self, code: bytes, address: int) -> list[Instruction]:
        """The instructions of a range of code."""
        return [
            _convert(raw.address, raw.size, raw.mnemonic.decode("ascii"), ctypes.string_at(raw.detail, DETAIL_BYTES))
            for raw in self._full.records(code, address)
        ]


def _convert(address: int, size: int, mnemonic: str, details: bytes) -> Instruction:
    end = address + size
    if " " in mnemonic:
        prefix, rest = mnemonic.split(" ", 1)
        mnemonic = rest if prefix in ("bnd", "notrack", "lock") else mnemonic
    operands = []
    modelled = mnemonic in _MODELLED
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
            operand = Immediate(value - (1 << 64) if value >> 63 else value, width)
        else:
            base = NONE
            if second == _RIP:
                displacement += end
            else:
                base = _number(second)
            thread = first in _THREAD
            operand = Memory(base, _number(third), scale, displacement, width, thread)
        operands.append(operand)
    if not modelled:
        for index in range(details[WRITTEN_COUNT]):
            register = _REGISTERS.get(int.from_bytes(details[WRITTEN + 2 * index : WRITTEN + 2 * index + 2], "little"))
            if register is not None:
                written.add(register.number)
    return Instruction(address, size, mnemonic, tuple(operands), tuple(sorted(written)))


def _number(register: int) -> int:
    return _REGISTERS[register].number if register in _REGISTERS else NONE
