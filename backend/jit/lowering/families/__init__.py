"""Instruction families: what each PTX instruction computes. One file per family of the PTX manual. A new one
is a handler here, and a name in a row of ptx/instructions.py.

codegen.py calls `emit` for every instruction of a block; unknown ones raise UnsupportedError with kernel, line and instruction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from farlane.backend.jit.lowering import affine
from farlane.backend.jit.lowering.families.accesses import atomics, memory
from farlane.backend.jit.lowering.families.accesses.addresses import symbol_address
from farlane.backend.jit.lowering.families.arithmetic import bitwise, compare, convert, floating, integer, moves, video
from farlane.backend.jit.lowering.families.base import HANDLERS
from farlane.backend.jit.lowering.families.flow import calls, control, warp
from farlane.backend.jit.lowering.families.flow.calls import enter, layout_frame, leave_kernel, signature
from farlane.backend.jit.lowering.families.flow.control import resume
from farlane.backend.jit.lowering.families.images import queries, surfaces, textures
from farlane.backend.jit.lowering.families.tensors import (
    asynchronous,
    matrix,
    matrix_moves,
    mbarriers,
    tensor_maps,
    wgmma,
)
from farlane.backend.jit.lowering.ir import REGISTER_LLVM, lanes
from farlane.backend.jit.lowering.support import fault, fault_if, poll, warp_field
from farlane.backend.jit.ptx.model import Instruction

if TYPE_CHECKING:
    from farlane.backend.jit.lowering.emitter import Emitter

FAMILIES = (
    asynchronous,
    atomics,
    bitwise,
    calls,
    compare,
    control,
    convert,
    floating,
    integer,
    matrix,
    matrix_moves,
    mbarriers,
    memory,
    moves,
    queries,
    surfaces,
    tensor_maps,
    textures,
    video,
    warp,
    wgmma,
)


def emit(e: Emitter, instruction: Instruction) -> None:
    """Appends one instruction's IR."""
    if len(instruction.destinations) == 1 and e.mask is None:
        value = instruction.destinations[0]
        if value is not None and e.is_affine(value):
            e.define_affine(value, affine.compute(e, instruction))
            return
        if value is not None and value.varying and (pattern := e.pattern(value)) is not None and pattern.known:
            e.define(value, lanes(list(pattern.offsets), REGISTER_LLVM[value.type]))
            return
    handler = HANDLERS.get(instruction.base)
    if "async" in instruction.modifiers:  # of some instructions another one
        handler = HANDLERS.get(f"{instruction.base}.async", handler)
    if handler is None:
        raise e.fail(f"unsupported instruction {instruction.text}")
    try:
        handler(e, instruction)
    except IndexError:
        raise e.fail(f"too few operands or modifiers in {instruction.text}") from None


__all__ = [
    "HANDLERS", "emit", "enter", "fault", "fault_if", "layout_frame", "leave_kernel", "poll", "resume", "signature", "symbol_address", "warp_field",
]  # fmt: skip
