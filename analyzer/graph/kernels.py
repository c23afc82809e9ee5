"""Which kernel a launch's first argument names, and so what that kernel is passed.

A program registers each kernel before its `main`: __cudaRegisterFunction is given the address of the host's function,
or what else stands for it (the first argument of a launch), and the kernel's name on the device. Both are constants
that are put into registers just before the call, in the same block; they are read there, instruction by instruction,
and what is not read so makes all registrations doubtful, as one address may then stand for another kernel.

Facts, not predictions: proofs rest on them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TypeAlias

from farlane.analyzer.graph import control_flow
from farlane.analyzer.graph.control_flow import Block
from farlane.analyzer.graph.program import Program
from farlane.analyzer.limits import AnalysisError
from farlane.analyzer.loader import parameters
from farlane.analyzer.loader.image import Image
from farlane.analyzer.machine.instruction import NONE, RCX, RDX, RSI, Immediate, Instruction, Memory, Register

# A launch's first argument -> the bytes of each parameter of the kernel that it stands for; None: they are not known.
Passed: TypeAlias = Callable[[int], tuple[int, ...] | None]
REGISTER = "__cudaRegisterFunction"
_HOST, _NAMES = RSI, (RDX, RCX)  # arguments: the handle, the host's address, the device function's name, twice
# They change no general register but the one that they name first. What others change is listed with them, or not
# known.
_PLAIN = frozenset(
    [
        "lea",
        "mov",
        "movabs",
        "movzx",
        "movsx",
        "movsxd",
        "xor",
        "and",
        "or",
        "add",
        "sub",
        "push",
        "pop",
        "test",
        "cmp",
        "nop",
        "endbr64",
        "pxor",
        "xorps",
        "movups",
        "movaps",
    ]
)


class _DoubtfulError(Exception):
    """A registration is not known."""


def of(program: Program) -> Kernels:
    """A program's kernels."""
    if program.kernels is None:
        program.kernels = Kernels(program)
    assert isinstance(program.kernels, Kernels)
    return program.kernels


class Kernels:
    """Of one program; the first question takes the time."""

    def __init__(self, program: Program) -> None:
        self._program = program

    def sizes(self, host: int) -> tuple[int, ...] | None:
        """The bytes of each parameter of the kernel that an address of the host's stands for; None: they are not
        known."""
        name = self._names.get(host)
        return None if name is None else self._sizes.get(name)

    def hosts(self) -> list[int]:
        """The host's addresses of all kernels."""
        return sorted(self._names)

    @cached_property
    def _sizes(self) -> parameters.Sizes:
        return parameters.sizes(self._program.image)

    @cached_property
    def _names(self) -> dict[int, str]:
        """The host's address of a kernel -> its name on the device."""
        found: dict[int, str] = {}
        try:
            for start, callees in self._program.callees.items():
                if any(callee.name == REGISTER for callee in callees):
                    for host, name in self._registered(start):
                        if found.setdefault(host, name) != name:
                            raise _DoubtfulError
        except (_DoubtfulError, AnalysisError):
            return {}
        return found

    def _registered(self, start: int) -> list[tuple[int, str]]:
        flow = control_flow.build(self._program, start)
        sites = {site for site, callee in flow.calls.items() if callee.name == REGISTER}
        return [each for block in flow.blocks.values() for each in self._in_block(block, sites)]

    def _in_block(self, block: Block, sites: set[int]) -> list[tuple[int, str]]:
        found: list[tuple[int, str]] = []
        held: dict[int, int] = {}
        for instruction in block.instructions:
            if instruction.address in sites:
                names = {held.get(number) for number in _NAMES}
                name = None if None in names or len(names) > 1 else self._program.image.string(names.pop() or 0)
                if _HOST not in held or name is None:
                    raise _DoubtfulError
                found.append((held[_HOST], name))
            if instruction.mnemonic == "call":
                held.clear()
                continue
            target, value = _put(instruction, held, self._program.image)
            _forget(instruction, held)
            if target is not None and value is not None:
                held[target] = value
        return found


def _forget(instruction: Instruction, held: dict[int, int]) -> None:
    """What an instruction may change is not known any more."""
    for number in instruction.writes:
        held.pop(number, None)
    if instruction.mnemonic in _PLAIN:
        for operand in instruction.operands[:1]:
            if isinstance(operand, Register):
                held.pop(operand.number, None)
    elif not instruction.writes:
        held.clear()


def _put(instruction: Instruction, held: dict[int, int], image: Image) -> tuple[int | None, int | None]:
    """The register into which an instruction puts an address, and the address if it is known."""
    if len(instruction.operands) != 2:
        return None, None
    target, source = instruction.operands
    if not isinstance(target, Register) or target.offset:
        return None, None
    if instruction.mnemonic == "lea" and isinstance(source, Memory) and target.size == 8:
        fixed = source.base == NONE and source.indexed == NONE and not source.thread
        return target.number, source.displacement if fixed else None
    if instruction.mnemonic not in ("mov", "movabs") or target.size < 4:
        return target.number, None
    if isinstance(source, Immediate):
        value = source.value & ((1 << 8 * target.size) - 1)
        return target.number, None if image.moves else value
    if isinstance(source, Register):
        return target.number, held.get(source.number) if source.size == target.size == 8 and not source.offset else None
    fixed = source.base == NONE and source.indexed == NONE and not source.thread and source.size == 8
    return target.number, image.pointers.get(source.displacement) if fixed else None
