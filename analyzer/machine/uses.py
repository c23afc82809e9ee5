"""Which registers an instruction may read: of one that is not known, those that it does not show among its operands too."""

from __future__ import annotations

from farlane.analyzer.machine.instruction import RAX, RCX, RDX, Instruction, Memory, Register


def reads(instruction: Instruction) -> set[int]:
    """The registers that an instruction may read."""
    name, operands = instruction.mnemonic, instruction.operands
    clears = name in ("xor", "sub", "pxor") and len(operands) == 2 and operands[0] == operands[1]
    used: set[int] = set()
    for index, operand in enumerate(operands):
        if isinstance(operand, Memory):
            used |= {operand.base, operand.indexed}
        elif isinstance(operand, Register) and not clears:
            only_written = index == 0 and operand.size >= 4 and _only_writes(instruction)
            if not only_written:
                used.add(operand.number)
    if not _known(instruction):
        used |= {RAX, RCX, RDX}  # operands that are not shown
    if name in ("cdqe", "cwde", "cdq", "cqo"):
        used.add(RAX)
    return used


def _known(instruction: Instruction) -> bool:
    """Whether all that an instruction reads stands among its operands."""
    name = instruction.mnemonic
    known = (
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
    )
    plain = name.startswith(
        (*known, "cmov", "set", "j", "cvt", "p", "unpck", "ucomi", "comi", "neg", "not", "nop", "bt", "sal")
    )
    vector = name.endswith(("ss", "sd", "ps", "pd"))
    return plain or vector or (name == "imul" and len(instruction.operands) > 1)


def _only_writes(instruction: Instruction) -> bool:
    """Whether the first operand is written without being read."""
    return instruction.mnemonic.startswith(("mov", "lea", "pop", "cvt")) and instruction.mnemonic not in ("movs",)
