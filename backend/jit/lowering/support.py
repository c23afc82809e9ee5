"""Fields of the runtime structures, faults, polls, counted loops and code for some lanes, as the emitters write them.

Fields are named; runtime/assembly.py knows where they lie.
"""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Iterator
from typing import TYPE_CHECKING

from farlane.backend.jit.lowering.ir import Builder, Val, integer
from farlane.backend.jit.runtime.structures import Latch, Launch, WarpState, WorkerState

if TYPE_CHECKING:
    from farlane.backend.jit.lowering.emitter import Emitter


def _at(structure: type[ctypes.Structure], field: str) -> int:
    """Where a field lies, in bytes."""
    return int(getattr(structure, field).offset)


def warp_field(b: Builder, name: str, index: int = 0) -> str:
    """Pointer to a field of the warp's state, or to a word of one."""
    return b.gep("%warp", _at(WarpState, name) + 4 * index)


def launch_field(e: Emitter, b: Builder, name: str, index: int = 0) -> str:
    """Pointer to a field of the launch, or to a word of one."""
    return b.gep(launch(e), _at(Launch, name) + 4 * index)


def worker_field(e: Emitter, b: Builder, name: str) -> str:
    """Pointer to a field of the worker's state."""
    return b.gep(worker(e), _at(WorkerState, name))


def worker(e: Emitter) -> str:
    return e.once("worker", lambda p: p.load("ptr", False, "%warp")).name


def launch(e: Emitter) -> str:
    return e.once("launch", lambda p: p.load("ptr", False, warp_field(p, "launch"))).name


def _field(e: Emitter, key: str, base: str, offset: int, kind: str) -> Val:
    return e.once(key, lambda p: p.load(kind, False, p.gep(base, offset)))


def shared_base(e: Emitter) -> str:
    return _field(e, "shared", worker(e), WorkerState.shared.offset, "ptr").name


def shared_size(e: Emitter) -> Val:
    """What accesses are checked against: a constant where the kernel names no dynamic memory, so that checks may be decided now."""
    if e.kernel.static_shared and not e.kernel.extern_shared:
        return integer(e.kernel.static_shared, "i64")
    return _field(e, "shared_size", worker(e), WorkerState.shared_size.offset, "i64")


def local_size(e: Emitter) -> Val:
    return _field(e, "local_size", worker(e), WorkerState.local_size.offset, "i64")


def parameters(e: Emitter) -> str:
    return _field(e, "parameters", launch(e), Launch.parameters.offset, "ptr").name


def latch(e: Emitter, site: int) -> str:
    base = _field(e, "latches", worker(e), WorkerState.latches.offset, "ptr").name
    return e.once(f"latch{site}", lambda p: Val(p.gep(base, ctypes.sizeof(Latch) * site), "ptr")).name


def variable(e: Emitter, index: int) -> Val:
    """The device address of a module variable."""
    table = _field(e, "variables", launch(e), Launch.variables.offset, "ptr").name
    return _field(e, f"variable{index}", table, 8 * index, "i64")


def streamed(e: Emitter, size: int) -> Val:
    """Whether a launch whose threads write `size` bytes each writes more than caches hold (Launch.streamed)."""

    def compare(p: Builder) -> Val:
        least = p.load("i32", False, launch_field(e, p, "streamed"))
        return p.icmp("ult", p.bin("sub", least, integer(1, "i32")), integer(size, "i32"))  # 0: never

    return e.once("streamed", compare)


def first_lane(e: Emitter) -> Val:
    """An active lane, for reports and for uniform stores."""
    if e.mask is None:
        return integer(0, "i32")
    return e.body.call("cttz", "i32", [e.mask_bits], "i1 false")


def last_lane(e: Emitter) -> Val:
    if e.mask is None:
        return integer(31, "i32")
    return e.body.bin("sub", integer(31, "i32"), e.body.call("ctlz", "i32", [e.mask_bits], "i1 false"))


def branch_to_some(e: Emitter, lanes: Val) -> str:
    """Branches to a new block where there are such lanes (bits); returns the label of the block for both ways."""
    b = e.body
    some, past = b.new_label("some"), b.new_label("past")
    b.branch_if(b.icmp("ne", lanes, integer(0, "i32")), some, past)
    b.block(some)
    return past


@contextlib.contextmanager
def among(e: Emitter, lanes: Val) -> Iterator[None]:
    """Code for these lanes (bits) alone, where there are any."""
    mask, bits = e.mask, e.mask_bits
    past = branch_to_some(e, lanes)
    e.mask, e.mask_bits = e.body.mask(lanes), lanes
    yield
    e.mask, e.mask_bits = mask, bits
    e.body.branch(past)
    e.body.block(past)


@contextlib.contextmanager
def counted(e: Emitter, name: str, limit: Val, step: int = 1) -> Iterator[Val]:
    """A loop that counts from 0 to a limit, which is not 0; gives the number of its turn, which lies in the stack slot `name`."""
    b = e.body
    slot = e.slot(name, limit.type, False)
    b.store(integer(0, limit.type), slot)
    loop, done = b.new_label("loop"), b.new_label("done")
    b.branch(loop)
    b.block(loop)
    turn = b.load(limit.type, False, slot)
    yield turn
    following = b.bin("add", turn, integer(step, limit.type))
    b.store(following, slot)
    b.branch_if(b.icmp("ult", following, limit), loop, done)
    b.block(done)


def fault(e: Emitter, kind: int) -> None:
    """Ends the launch; ends the current IR block."""
    b = e.body
    lane = first_lane(e)
    b.line(f"call void @farlane_fault(ptr %warp, i32 {kind}, i64 0, i32 0, i32 0, {lane}, i32 {e.line})")
    b.line("unreachable")


def fault_if(e: Emitter, condition: Val, kind: int) -> None:
    b = e.body
    bad, good = b.new_label("bad"), b.new_label("good")
    b.branch_if(condition, bad, good, unlikely=True)
    b.block(bad)
    fault(e, kind)
    b.block(good)


def poll(e: Emitter) -> None:
    """Leaves when the launch is aborted: on every back edge, so that no loop outlives its launch."""
    b = e.body
    pointer = e.once("abort", lambda p: Val(launch_field(e, p, "abort"), "ptr")).name
    b_abort = b.op(f"load atomic i32, ptr {pointer} monotonic, align 4", "i32", False)
    stop = b.icmp("ne", b_abort, integer(0, "i32"))
    leave, stay = b.new_label("leave"), b.new_label("stay")
    b.branch_if(stop, leave, stay, unlikely=True)
    b.block(leave)
    b.line("call void @farlane_aborted(ptr %warp)")
    b.line("unreachable")
    b.block(stay)
