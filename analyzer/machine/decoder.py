"""Decoding x86-64 with Capstone; the only module that imports it.

Two speeds. `sweep` goes through whole functions with `disasm_lite` and keeps only what leaves the straight line; `decode`
makes full instructions, which costs ten times as much and is for the functions that matter. An undecodable byte ends the
decoding: what follows is not code, or not code we understand.
"""

from __future__ import annotations

import re
from typing import Any

import capstone
from capstone import x86
from farlane.analyzer.machine.instruction import (
    NONE,
    RIP,
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
_NOT_BRANCHES = {"jmp"}

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
        for at, size, mnemonic, operand in self._lite.disasm_lite(code, address):
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
        return [_convert(instruction) for instruction in self._full.disasm(code, address)]


def _convert(instruction: Any) -> Instruction:
    end = instruction.address + instruction.size
    mnemonic = instruction.mnemonic
    if " " in mnemonic:
        prefix, rest = mnemonic.split(" ", 1)
        mnemonic = rest if prefix in ("bnd", "notrack", "lock") else mnemonic
    operands = tuple(_operand(operand, end) for operand in instruction.operands)
    writes: tuple[int, ...] = ()
    if mnemonic not in _MODELLED:
        _, written = instruction.regs_access()
        writes = tuple(sorted({_REGISTERS[register].number for register in written if register in _REGISTERS}))
    return Instruction(instruction.address, instruction.size, mnemonic, operands, writes)


def _operand(operand: Any, end: int) -> Operand:
    if operand.type == x86.X86_OP_REG:
        return _REGISTERS.get(operand.reg, _OTHER)
    if operand.type == x86.X86_OP_IMM:
        return Immediate(operand.imm, operand.size)
    memory = operand.mem
    base = RIP if memory.base == x86.X86_REG_RIP else _number(memory.base)
    displacement = memory.disp
    if base == RIP:
        base, displacement = NONE, displacement + end
    thread = memory.segment in (x86.X86_REG_FS, x86.X86_REG_GS)
    return Memory(base, _number(memory.index), memory.scale, displacement, operand.size, thread)


def _number(register: int) -> int:
    return _REGISTERS[register].number if register in _REGISTERS else NONE
