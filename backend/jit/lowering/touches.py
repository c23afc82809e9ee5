"""The IR that records which pages a kernel touches (runtime/touches.py says what is recorded)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from farlane.backend.jit.lowering import support
from farlane.backend.jit.lowering.ir import integer

if TYPE_CHECKING:
    from farlane.backend.jit.lowering.emitter import Emitter
    from farlane.backend.jit.lowering.ir import Val
    from farlane.backend.jit.ptx.model import Instruction

_WRITE, _MORE = 1, 2


class Counting:
    """What an emitter knows while it writes a block: instructions since the warp's counter was last raised, and whether the instruction at hand has touched memory."""

    def __init__(self) -> None:
        self.pending = 0
        self.continued = False


def instruction(e: Emitter, item: Instruction) -> None:
    """In front of each instruction of a block."""
    e.touching.pending += 1
    e.touching.continued = False
    if item.base == "call":
        count(e)


def count(e: Emitter) -> None:
    """Raises the warp's counter of issued instructions by those written since."""
    number, e.touching.pending = e.touching.pending, 0
    if number and e.kernel.options.touches:
        pointer = support.warp_field(e.body, "issued")
        e.body.store(e.body.bin("add", e.body.load("i32", False, pointer), integer(number, "i32")), pointer)


def begin(e: Emitter) -> None:
    """In front of an instruction whose accesses are in a loop, or under conditions: they count as one."""
    if e.kernel.options.touches:
        count(e)
        e.body.line("call void @farlane_touch_begin(ptr %warp)")
        e.touching.continued = True


def record(e: Emitter, addresses: Val, write: bool) -> None:
    """The active lanes access these (host) addresses."""
    if not e.kernel.options.touches:
        return
    count(e)
    shape = (_WRITE if write else 0) | (_MORE if e.touching.continued else 0)
    e.touching.continued = True
    e.body.line(f"call void @farlane_touch(ptr %warp, {e.body.splat(addresses)}, {e.mask_bits}, i32 {shape})")
