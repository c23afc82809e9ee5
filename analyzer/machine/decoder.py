"""Decoding x86-64 with Capstone; the only module that imports it.

Two speeds. `sweep` goes through whole functions with `disasm_lite` and keeps only what leaves the straight line; `decode`
makes full instructions, for the functions that matter. An undecodable byte ends the decoding: what follows is not code, or
not code we understand.

Capstone's Python objects copy every operand several times, which took longer than all else that is done to an instruction,
so `decode` calls the library itself and takes the operands from the bytes of its records, whose layout Capstone's own
declarations give.
"""

from __future__ import annotations

import ctypes
import re
import struct
from collections.abc import Iterator
from typing import Any

import capstone
from capstone import x86
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

CHUNK = 4096  # instructions decoded at once: Capstone's record of one takes nearly 2 KiB

_ARCH, _X86 = capstone._cs_detail.arch.offset, x86.CsX86
_OPERANDS, _COUNT = _ARCH + _X86.operands.offset, _ARCH + _X86.op_count.offset
_OPERAND_BYTES = ctypes.sizeof(x86.X86Op)
_DETAIL_BYTES = _OPERANDS + 8 * _OPERAND_BYTES
_WRITTEN, _WRITTEN_COUNT = capstone._cs_detail.regs_write.offset, capstone._cs_detail.regs_write_count.offset
# Kind; segment (or a register, or the low half of a number), base (the high half), index, scale, displacement; size, access.
_GAP = x86.X86Op.size.offset - x86.X86Op.value.offset - 24
_OPERAND = struct.Struct(f"<I{x86.X86Op.value.offset - 4}xIIIiq{_GAP}xBB")

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


def _registers() -> dict[int, Register]:
    """Capstone's register numbers -> ours."""
    found: dict[int, Register] = {}
    wide = ("rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi")
    for number, name in enumerate(wide):
        stem = name[1:]
        low = f"{stem[0]}l" if stem[1] == "x" else f"{stem}l"
        parts = [(name, 8, 0), (f"e{stem}", 4, 0), (stem, 2, 0), (low, 1, 0)]
        if stem[1] == "x":
            parts.append((f"{stem[0]}h", 1, 1))
        for part, size, offset in parts:
            found[getattr(x86, f"X86_REG_{part.upper()}")] = Register(number, size, offset)
    for number in range(8, 16):
        for suffix, size in (("", 8), ("D", 4), ("W", 2), ("B", 1)):
            found[getattr(x86, f"X86_REG_R{number}{suffix}")] = Register(number, size)
    for number in range(16):
        for prefix, size in (("XMM", 16), ("YMM", 32), ("ZMM", 64)):
            found[getattr(x86, f"X86_REG_{prefix}{number}")] = Register(XMM0 + number, size)
    return found


_REGISTERS = _registers()
_OTHER = Register(NONE, 8)


class Decoder:
    """Decodes machine code; not for several threads at once."""

    def __init__(self) -> None:
        self._lite = capstone.Cs(capstone.CS_ARCH_X86, capstone.CS_MODE_64)
        self._full = capstone.Cs(capstone.CS_ARCH_X86, capstone.CS_MODE_64)
        self._full.detail = True

    def sweep(self, code: bytes, address: int) -> list[Flow]:
        """The calls, jumps, returns and stops of a range of code, in order."""
        found: list[Flow] = []
        for raw in _records(self._lite.csh, code, address):
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
        lines = self._lite.disasm_lite(code, address)
        return [(at, f"{mnemonic} {operands}".rstrip()) for at, _, mnemonic, operands in lines]

    def decode(self, code: bytes, address: int) -> list[Instruction]:
        """The instructions of a range of code."""
        return [
            _convert(raw.address, raw.size, raw.mnemonic.decode("ascii"), ctypes.string_at(raw.detail, _DETAIL_BYTES))
            for raw in _records(self._full.csh, code, address)
        ]


def _records(handle: Any, code: bytes, address: int) -> Iterator[Any]:
    """Capstone's records of a range of code, each valid until the next is asked for."""
    offset = 0
    while offset < len(code):
        records = ctypes.POINTER(capstone._cs_insn)()
        rest = code[offset:] if offset else code
        count = capstone._cs.cs_disasm(handle, rest, len(rest), address + offset, CHUNK, ctypes.byref(records))
        if not count:
            break
        try:
            for index in range(count):
                yield records[index]
            last = records[count - 1]
            offset = last.address + last.size - address
        finally:
            capstone._cs.cs_free(records, count)
        if count < CHUNK:
            break


def _convert(address: int, size: int, mnemonic: str, details: bytes) -> Instruction:
    end = address + size
    if " " in mnemonic:
        prefix, rest = mnemonic.split(" ", 1)
        mnemonic = rest if prefix in ("bnd", "notrack", "lock") else mnemonic
    operands = []
    modelled = mnemonic in _MODELLED
    written: set[int] = set()
    for index in range(details[_COUNT]):
        kind, first, second, third, scale, displacement, width, access = _OPERAND.unpack_from(
            details, _OPERANDS + index * _OPERAND_BYTES
        )
        operand: Operand
        if kind == x86.X86_OP_REG:
            operand = _REGISTERS.get(first, _OTHER)
            if not modelled and access & capstone.CS_AC_WRITE and operand.number != NONE:
                written.add(operand.number)
        elif kind == x86.X86_OP_IMM:
            value = first | second << 32
            operand = Immediate(value - (1 << 64) if value >> 63 else value, width)
        else:
            base = NONE
            if second == x86.X86_REG_RIP:
                displacement += end
            else:
                base = _number(second)
            thread = first in (x86.X86_REG_FS, x86.X86_REG_GS)
            operand = Memory(base, _number(third), scale, displacement, width, thread)
        operands.append(operand)
    if not modelled:
        for index in range(details[_WRITTEN_COUNT]):
            register = _REGISTERS.get(
                int.from_bytes(details[_WRITTEN + 2 * index : _WRITTEN + 2 * index + 2], "little")
            )
            if register is not None:
                written.add(register.number)
    return Instruction(address, size, mnemonic, tuple(operands), tuple(sorted(written)))


def _number(register: int) -> int:
    return _REGISTERS[register].number if register in _REGISTERS else NONE
