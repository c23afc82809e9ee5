"""What each x86 instruction reads and writes: one table for all engines, the proofs included.

Operands tell most of it. Here stands what they do not: registers that an instruction reads or writes without naming
them, what it does to the flags, which operands it only reads, and which instructions have no effect on registers and
memory.

An instruction of which nothing stands here may read rax, rcx and rdx besides its operands; what it writes the decoder
tells (`Instruction.writes`), as it does for all but the `MODELLED` ones.

Source: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2.
"""

from __future__ import annotations

from enum import Enum
from functools import cache

from farlane.analyzer.machine.instruction import (
    CALLER_SAVED,
    RAX,
    RBP,
    RBX,
    RCX,
    RDI,
    RDX,
    RSI,
    RSP,
    SCALAR_FLOATING,
    Instruction,
    Memory,
    Operand,
    Register,
)


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# What `semantics` executes operand by operand, knowing its implicit writes: the costly question which registers an
# instruction changes is asked only of the others.
MODELLED = _words(
    """
    mov movabs movzx movsx movsxd lea add sub inc dec neg not imul shl sal sar shr and or xor cmp test push pop
    leave call ret jmp nop endbr64 cdqe cwde cqo cdq movaps movups movdqa movdqu movapd movupd movq movd movss movsd
    movhps movlps movhpd movlpd punpcklqdq pxor xorps xorpd unpcklpd comiss comisd ucomiss ucomisd bt
    """
) | frozenset(SCALAR_FLOATING)

# Without effect on registers and memory, as far as any engine here sees them.
NOTHING = _words("nop endbr64 ret pause lfence mfence sfence vzeroupper vzeroall emms ud2 hlt")
# Only read their operands.
COMPARES = _words("cmp test bt ptest comiss comisd ucomiss ucomisd vcomiss vcomisd vucomiss vucomisd")
READ_ONLY = COMPARES | _words("nop prefetcht0 prefetcht1 prefetcht2 prefetchnta prefetchw")
# Clear a register when both operands are it.
CLEARS = _words("xor sub pxor xorps xorpd vpxor vxorps vxorpd")
# Copy a general register or memory as it is, zero-extended.
COPIES = _words("mov movzx")
# Write both of their operands.
EXCHANGES = _words("xchg xadd")
CONDITIONS = ("o", "no", "b", "ae", "e", "ne", "be", "a", "s", "ns", "p", "np", "l", "ge", "le", "g")
SETS = frozenset(f"set{condition}" for condition in CONDITIONS)
STRINGS = ("movs", "stos", "lods", "scas", "cmps")
UNITS = {"b": 1, "w": 2, "d": 4, "q": 8}  # of string instructions, by their last letter

_WRITES: dict[str, frozenset[int]] = {
    **dict.fromkeys(("cdq", "cqo", "cwd"), frozenset({RDX})),
    **dict.fromkeys(("cdqe", "cwde", "cbw", "cmpxchg"), frozenset({RAX})),
    **dict.fromkeys(("mul", "div", "idiv", "rdtsc"), frozenset({RAX, RDX})),
    "rdtscp": frozenset({RAX, RCX, RDX}),
    "cpuid": frozenset({RAX, RBX, RCX, RDX}),
    "call": frozenset(CALLER_SAVED),
    **dict.fromkeys(("push", "pop", "ret"), frozenset({RSP})),
    **dict.fromkeys(("leave", "enter"), frozenset({RSP, RBP})),
}
_READS = {**dict.fromkeys(("cdqe", "cwde", "cdq", "cqo", "cmpxchg"), RAX), "leave": RBP}
# Multiply or divide the accumulator: their operand is only read, where it is the only one.
_OF_ACCUMULATOR = _words("mul imul div idiv")
# Show all that they read among their operands: these, and those that begin or end so.
_SHOWN = (
    *(
        "mov",
        "lea",
        "add",
        "sub",
        "and",
        "or",
        "xor",
        "cmp",
        "test",
        "inc",
        "dec",
        "push",
        "pop",
        "shl",
        "sar",
        "shr",
        "sal",
    ),
    *("cmov", "set", "j", "cvt", "p", "unpck", "ucomi", "comi", "neg", "not", "nop", "bt"),
)
_VECTOR = ("ss", "sd", "ps", "pd")
_LANEWISE = _words("add sub mul div sqrt min max and andn or xor round")


class Flags(Enum):
    """What an instruction does to the flags."""

    KEEPS = "keeps"  # neither reads nor changes them
    READS = "reads"  # reads them, and leaves them as they are
    CHANGES = "changes"  # changes them, and reads none
    UNKNOWN = "unknown"


_CHANGES = _words(
    """
    add sub cmp test and or xor inc dec neg shl sal sar shr imul mul div idiv xadd cmpxchg bt bts btr btc popcnt
    lzcnt tzcnt bsf bsr comiss comisd ucomiss ucomisd vcomiss vcomisd vucomiss vucomisd ptest
    """
)
_KEEPS = _words(
    """
    mov movabs movzx movsx movsxd lea nop endbr64 jmp push pop leave not cdq cqo cwd cbw cwde cdqe bswap xchg movaps
    movups movdqa movdqu movapd movupd movq movd movss movsd movhps movlps movhpd movlpd movhlps movlhps
    """
)


@cache
def flags(mnemonic: str) -> Flags:
    """What an instruction does to the flags."""
    if mnemonic in _CHANGES:
        return Flags.CHANGES
    if mnemonic.startswith(("set", "cmov")) or (mnemonic.startswith("j") and mnemonic != "jmp"):
        return Flags.READS
    packed = mnemonic.startswith(("p", "unpck", "shuf", "cvt", "prefetch")) and not mnemonic.startswith(
        ("push", "pop", "pause", "pcmpes", "pcmpis", "pdep", "pext")
    )
    if mnemonic in _KEEPS or mnemonic in SCALAR_FLOATING or packed or _vector(mnemonic):
        return Flags.KEEPS
    return Flags.UNKNOWN


def _vector(mnemonic: str) -> bool:
    """Whether a name is one of arithmetic or logic on vector registers, none of which touches the flags."""
    stem = mnemonic[:-2]
    compares = stem.startswith("cmp") and stem != "cmp"  # cmpsd may be a string instruction
    return mnemonic.endswith(_VECTOR) and (compares or stem in _LANEWISE)


def reads(instruction: Instruction) -> set[int]:
    """The registers that an instruction may read."""
    name, operands = instruction.mnemonic, instruction.operands
    cleared = clears(instruction)
    used: set[int] = set()
    for index, operand in enumerate(operands):
        if isinstance(operand, Memory):
            used |= {operand.base, operand.indexed}
        elif isinstance(operand, Register) and not cleared:
            only_written = index == 0 and operand.size >= 4 and name.startswith(("mov", "lea", "pop", "cvt"))
            if not only_written:
                used.add(operand.number)
    shown = name.startswith(_SHOWN) or name.endswith(_VECTOR) or (name == "imul" and len(operands) > 1)
    if not shown:
        used |= {RAX, RCX, RDX}
    if name in _READS:
        used.add(_READS[name])
    return used


def clears(instruction: Instruction) -> bool:
    """Whether it sets a register to zero, whatever that held."""
    operands = instruction.operands
    return instruction.mnemonic in CLEARS and len(operands) == 2 and operands[0] == operands[1]


def targets(instruction: Instruction) -> tuple[Operand, ...]:
    """The operands that an instruction writes."""
    name, operands = instruction.mnemonic, instruction.operands
    if name in READ_ONLY or name == "push" or (name in _OF_ACCUMULATOR and len(operands) == 1):
        return ()
    return operands if name in EXCHANGES else operands[:1]


def writes(instruction: Instruction) -> set[int]:
    """The registers that an instruction may change, a call those that the calling convention lets it change."""
    found = {operand.number for operand in targets(instruction) if isinstance(operand, Register)}
    return found | implicit(instruction) | set(instruction.writes)


def implicit(instruction: Instruction) -> frozenset[int]:
    """The registers that an instruction changes without naming them."""
    name = instruction.mnemonic
    if name == "imul" and len(instruction.operands) == 1:
        return _WRITES["mul"]
    if string(instruction) is not None:
        return frozenset({RCX, RSI, RDI, RAX} if "lods" in name else {RCX, RSI, RDI})
    return _WRITES.get(name, frozenset())


def string(instruction: Instruction) -> str | None:
    """The name of a string instruction without its prefix: `movsd` between two places in memory among them; None for
    others."""
    name = instruction.mnemonic.removeprefix("repne ").removeprefix("repe ").removeprefix("rep ")
    if name[:4] not in STRINGS or name[4:] not in UNITS or name == "cmpsd":
        return None
    if name == "movsd" and any(
        isinstance(operand, Register) and operand.number >= 0 for operand in instruction.operands
    ):
        return None
    return name
