"""The table of what x86 instructions read and write, against the disassembler's own knowledge of each."""

from __future__ import annotations

import subprocess
from pathlib import Path

import capstone
import pytest
from capstone import x86_const
from farlane.analyzer.machine.decoder import Decoder
from farlane.analyzer.machine.effects import MODELLED, Flags, clears, flags, reads, writes
from farlane.analyzer.machine.instruction import NAMES, RAX, RCX, RDX, Instruction

INSTRUCTIONS = """
mov rbx, rcx; mov ebx, [rsp+8]; movzx ebx, cl; movsx rbx, ecx; movsxd rbx, ecx; lea rbx, [rcx+8*rdx]; xchg rbx, rcx; xadd rbx, rcx
add rbx, rcx; sub rbx, rcx; and rbx, rcx; or rbx, rcx; xor rbx, rcx; cmp rbx, rcx; test rbx, rcx; inc rbx; dec rbx; neg rbx; not rbx
shl rbx, 3; sar rbx, 3; shr rbx, 3; imul rbx, rcx; imul rbx, rcx, 7; imul rcx; mul rcx; div rcx; idiv rcx; bt rbx, 3
cdq; cqo; cdqe; cwde; push rbx; pop rbx; leave; sete bl; cmove rbx, rcx; cmpxchg [rsp], rcx; rdtsc; cpuid; bswap rbx
popcnt rbx, rcx; bsf rbx, rcx; rep stosq; rep movsb; lodsb; nop; endbr64
movaps xmm0, xmm1; movss xmm0, xmm1; movsd xmm0, [rsp]; movq xmm0, rbx; movd ebx, xmm0; pxor xmm0, xmm0; xorps xmm0, xmm0
andps xmm0, xmm1; orps xmm0, xmm1; addsd xmm0, xmm1; subss xmm0, xmm1; mulps xmm0, xmm1; cmpeqsd xmm0, xmm1; cmpltps xmm0, xmm1
ucomisd xmm0, xmm1; comiss xmm0, xmm1; cvtsi2sd xmm0, rbx; cvttsd2si rbx, xmm0; unpcklpd xmm0, xmm1; punpcklqdq xmm0, xmm1
shufps xmm0, xmm1, 3; pshufd xmm0, xmm1, 3; paddd xmm0, xmm1; sqrtsd xmm0, xmm1; ptest xmm0, xmm1; prefetcht0 [rsp]
"""
# The disassembler says more than the manual: cdq and cqo leave rax as it is, comparisons of vectors the flags.
UNTRUE = {"cdq": {"rax"}, "cqo": {"rax"}}
CHANGES = x86_const.X86_EFLAGS_MODIFY_ZF | x86_const.X86_EFLAGS_RESET_ZF | x86_const.X86_EFLAGS_UNDEFINED_ZF


@pytest.fixture(scope="module")
def code(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    folder: Path = tmp_path_factory.mktemp("effects")
    text = ".intel_syntax noprefix\n" + INSTRUCTIONS.replace(";", "\n")
    subprocess.run(["as", "-o", folder / "code.o", "-"], input=text, text=True, check=True)
    subprocess.run(["objcopy", "-O", "binary", "-j", ".text", folder / "code.o", folder / "code"], check=True)
    return (folder / "code").read_bytes()


def _wide(name: str) -> str:
    """The 64-bit register that a register is part of; other names as they are."""
    for full in NAMES[:8]:
        stem = full[1:]
        if name in (full, f"e{stem}", stem, f"{stem[0]}l", f"{stem[0]}h", f"{stem}l"):
            return full
    return name


def test_registers_and_flags(code: bytes) -> None:
    oracle = capstone.Cs(capstone.CS_ARCH_X86, capstone.CS_MODE_64)
    oracle.detail = True
    ours = Decoder().decode(code, 0x1000)
    theirs = list(oracle.disasm(code, 0x1000))
    assert len(ours) == len(theirs) > 70
    for mine, other in zip(ours, theirs, strict=True):
        text = f"{other.mnemonic} {other.op_str}"
        read, written = ({_wide(other.reg_name(each)) for each in group} for group in other.regs_access())
        general = dict(enumerate(NAMES))
        changed = {general[number] for number in writes(mine) if number in general}
        assert written & set(NAMES) <= changed | UNTRUE.get(mine.mnemonic, set()), text
        if mine.mnemonic in MODELLED:
            assert changed <= written, text
        if not clears(mine):
            assert read & set(NAMES) <= {general[number] for number in reads(mine) if number in general} | {"rsp"}, text
        kind = flags(mine.mnemonic)
        if mine.mnemonic in ("cmpeqsd", "cmpltps"):
            assert kind == Flags.KEEPS
            continue
        assert (kind == Flags.CHANGES) == bool(
            other.eflags & CHANGES or "rflags" in written
        ) or kind == Flags.UNKNOWN, text
        if kind == Flags.CHANGES:
            continue
        if kind != Flags.UNKNOWN:
            assert ("rflags" in read) == (kind == Flags.READS), text


@pytest.mark.parametrize("name", ["xorps", "andps", "orps", "addsd", "subss", "cmpeqsd", "pxor"])
def test_vector_instructions_with_names_like_those_of_numbers_keep_the_flags(name: str) -> None:
    assert flags(name) != Flags.CHANGES


def test_implicit_registers() -> None:
    (wide, narrow, two) = Decoder().decode(bytes.fromhex("48f7e9" + "99" + "480fafd9"), 0)
    assert (wide.mnemonic, narrow.mnemonic, two.mnemonic) == ("imul", "cdq", "imul")
    assert {RAX, RDX} <= writes(wide)
    assert writes(narrow) == {RDX}
    assert RAX not in writes(two)
    assert RCX not in writes(two)


def test_an_unknown_instruction_may_read_the_accumulators() -> None:
    assert {RAX, RCX, RDX} <= reads(Instruction(0, 3, "xsave", ()))
