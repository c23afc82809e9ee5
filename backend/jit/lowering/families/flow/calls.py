"""Device functions: signatures, arguments, frames, direct and indirect calls, the functions of CUDA's device library.

A function is compiled once, for varying arguments: (warp, mask, local stack pointer, arguments) -> result. Scalars are lane vectors; an
array passed by value lies in the caller's local memory and its offset is passed. Frames hold .local variables and such arrays; a
recursive function checks both its stacks at entry.
Source: PTX ISA, "call", "ABI: Function Declarations and Definitions".
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from farlane.backend.jit.lowering import support
from farlane.backend.jit.lowering.families.accesses import addresses
from farlane.backend.jit.lowering.families.accesses.memory import scalar_slot
from farlane.backend.jit.lowering.families.base import handles
from farlane.backend.jit.lowering.families.flow import runtime_calls
from farlane.backend.jit.lowering.ir import PTX_LLVM, Builder, Val, integer, integer_of
from farlane.backend.jit.ptx.model import LANES, Instruction, Storage, Symbol, Vector
from farlane.backend.jit.runtime.structures import FaultKind, WorkerState

if TYPE_CHECKING:
    from farlane.backend.jit.lowering.emitter import Emitter
    from farlane.backend.jit.ptx.declarations import Function, Module
    from farlane.backend.jit.ptx.model import Body

STACK_MARGIN = 64 << 10


def layout_frame(e: Emitter) -> None:
    """Places what the function keeps in local memory; binds arguments."""
    function = e.kernel.module.functions[e.name]
    own = {item.name for item in (*function.parameters, *function.returns)}
    offset = 0
    for item in e.storage.values():
        if item.space == "local" or (item.space == "param" and item.array and item.name not in own):
            offset = (offset + max(item.align, 1) - 1) & -max(item.align, 1)
            e.frame[item.name] = offset
            offset += item.size
    e.frame_bytes = (offset + 15) & -16
    e.kernel.frames[e.name] = e.frame_bytes
    if e.entry:
        return
    for position, item in enumerate((*function.parameters, *function.returns)):
        if item.array:
            e.pointers[item.name] = f"%arg{position}"
        else:
            scalar_slot(e, item.name)


def signature(e: Emitter) -> tuple[str, list[str]]:
    """The head of the definition and the lines of its exit."""
    if e.entry:
        return "void @farlane_kernel(ptr %warp)", ["  ret void"]
    function = e.kernel.module.functions[e.name]
    arguments = ["ptr %warp", "i32 %mask", "i64 %lsp"]
    for position, item in enumerate((*function.parameters, *function.returns)):
        if item.array:
            arguments.append(f"i64 %arg{position}")
        elif position < len(function.parameters):
            arguments.append(f"<{LANES} x {_kind(item)}> %arg{position}")
    result = result_type(function)
    if result == "void":
        tail = ["  ret void"]
    else:
        name = scalar_slot(e, function.returns[0].name)
        assert name is not None
        tail = [f"  %result = load {result}, ptr {name[0]}", f"  ret {result} %result"]
    return f'{result} @"f.{e.name}"({", ".join(arguments)})', tail


def _kind(item: Storage) -> str:
    return integer_of(PTX_LLVM[item.element])


def result_type(function: Function) -> str:
    if not function.returns or function.returns[0].array:
        return "void"
    return f"<{LANES} x {_kind(function.returns[0])}>"


def enter(e: Emitter, b: Builder) -> None:
    """The end of the entry block: arguments to their slots, stack checks."""
    if e.entry:
        # Appended to the allocas: the frame's offsets are computed before anything else.
        e.allocas.append("  %lsp = add i64 0, 0")
        return
    function = e.kernel.module.functions[e.name]
    for position, item in enumerate(function.parameters):
        slot = None if item.array else scalar_slot(e, item.name)
        if slot is not None:
            b.line(f"store <{LANES} x {slot[1]}> %arg{position}, ptr {slot[0]}")
    if not e.kernel.recursive:
        return
    e.kernel.declare("declare ptr @llvm.frameaddress.p0(i32 immarg)")
    frame = b.cast("ptrtoint", b.op("call ptr @llvm.frameaddress.p0(i32 0)", "ptr", False), "i64")
    limit = b.bin(
        "add",
        b.load("i64", False, support.warp_field(b, "limit")),
        integer(STACK_MARGIN + e.kernel.stack_estimate, "i64"),
    )
    end = b.bin("add", Val("%lsp", "i64"), integer(e.frame_bytes, "i64"))
    size = b.load("i64", False, b.gep(b.load("ptr", False, "%warp").name, WorkerState.local_size.offset))
    bad = b.bin("or", b.icmp("ult", frame, limit), b.icmp("ugt", end, size))
    overflow, fine = b.new_label("overflow"), b.new_label("fits")
    b.branch_if(bad, overflow, fine, unlikely=True)
    b.block(overflow)
    lane = b.call("cttz", "i32", [Val("%mask", "i32")], "i1 false")
    b.line(
        f"call void @farlane_fault(ptr %warp, i32 {int(FaultKind.STACK_OVERFLOW)}, i64 0, i32 0, i32 0, {lane}, i32 0)"
    )
    b.line("unreachable")
    b.block(fine)


def undefined(module: Module, body: Body) -> Iterator[str]:
    """The functions that a body calls and that neither the module nor CUDA itself defines; the device runtime's count as CUDA's."""
    for item in body.instructions:
        if item.base == "call" and isinstance(item.sources[0], Symbol):
            name = item.sources[0].name
            function = module.functions.get(name)
            if (function is None or function.body is None) and not runtime_calls.is_cudas(name):
                yield name


@handles("call")
def call(e: Emitter, i: Instruction) -> None:
    callee, arguments, returns = i.sources
    for modifier in i.modifiers:
        if modifier != "uni":
            raise e.fail(f"unsupported modifier .{modifier} in {i.text}")
    assert isinstance(arguments, Vector)
    assert isinstance(returns, Vector)
    if isinstance(callee, Symbol):
        function = e.kernel.module.functions.get(callee.name)
        undefined = function is None or function.body is None
        if undefined and runtime_calls.emit(e, callee.name, arguments, returns):
            return
        if undefined and (name := runtime_calls.plain(callee.name)).startswith("cuda"):
            raise e.fail(f"'{name}' of the device runtime is not supported")
        if function is None or function.entry or function.body is None:
            raise e.fail(f"call of '{callee.name}', which this module does not define")
        e.kernel.require(function.name)
        _call(e, function, arguments, returns, e.mask_bits)
        if function.name in e.kernel.exits:
            _keep_living(e)
        return
    _indirect(e, i, callee, arguments, returns)
    if e.name in e.kernel.exits:
        _keep_living(e)


def leave_kernel(e: Emitter) -> None:
    """`exit` in a device function: the warp's own mask tells the callers which lanes are left."""
    b = e.body
    field = support.warp_field(b, "mask")
    b.store(b.bin("and", b.load("i32", False, field), b.invert(e.mask_bits)), field)
    if e.kernel.fibers:
        b.line(f"call void @farlane_leave(ptr %warp, {e.mask_bits})")


def _keep_living(e: Emitter) -> None:
    """After a call: goes on with the lanes that did not exit in it, or with the next block when there is none."""
    b = e.body
    e.mask_bits = b.bin("and", e.mask_bits, b.load("i32", False, support.warp_field(b, "mask")))
    alive = b.new_label("alive")
    b.branch_if(b.icmp("ne", e.mask_bits, integer(0, "i32")), alive, f"m{e.block + 1}.test")
    b.block(alive)
    e.mask = b.mask(e.mask_bits)


def _call(e: Emitter, function: Function, arguments: Vector, returns: Vector, lanes: Val) -> None:
    b = e.body
    # A caller that was compiled with another declaration may expect a result where there is none: it stays undefined.
    if len(arguments.items) != len(function.parameters) or len(returns.items) not in (len(function.returns), 1):
        raise e.fail(f"call of '{function.name}' with the wrong number of arguments")
    if not function.returns:
        returns = Vector(())
    stack = b.bin("add", Val("%lsp", "i64"), integer(e.frame_bytes, "i64"))
    parts = ["ptr %warp", str(lanes), str(stack)]
    for item, parameter in zip(
        (*arguments.items, *returns.items), (*function.parameters, *function.returns), strict=True
    ):
        slot = scalar_slot(e, item.name)
        if parameter.array:
            offset = addresses.frame_offset(e, item.name)
            if slot is not None or offset is None or e.storage[item.name].size < parameter.size:
                raise e.fail(f"argument '{item.name}' does not match '{function.name}'")
            parts.append(str(offset))
            continue
        if slot is None or slot[1] != _kind(parameter):
            raise e.fail(f"argument '{item.name}' does not match '{function.name}'")
        if parameter in function.parameters:
            parts.append(str(b.load(slot[1], True, slot[0])))
    result = result_type(function)
    # notail: an endless recursion must run out of stack, not become a loop that no abort can leave.
    text = f'notail call {result} @"f.{function.name}"({", ".join(parts)})'
    if result == "void":
        with _on_path(e):
            b.line(text)
        return
    slot = scalar_slot(e, returns.items[0].name)
    assert slot is not None
    with _on_path(e):
        value = b.op(text, slot[1], True)
    b.store(b.select(b.mask(lanes), value, b.load(slot[1], True, slot[0])), slot[0])


@contextlib.contextmanager
def _on_path(e: Emitter) -> Iterator[None]:
    """Round a call: threads on fibers of their own that come to a place by different calls are not there together (lane_fibers.ll)."""
    if not e.kernel.lane_fibers:
        yield
        return
    b = e.body
    field = support.warp_field(b, "path")
    path = b.load("i32", False, field)
    b.store(b.bin("add", b.bin("mul", path, integer(31, "i32")), integer(2 * e.kernel.place(), "i32")), field)
    yield
    b.store(path, field)


def _indirect(e: Emitter, i: Instruction, callee: object, arguments: Vector, returns: Vector) -> None:
    """Tries every function of the module with the prototype's shape; a wild pointer is an illegal instruction."""
    b = e.body
    shapes = e.kernel.prototype_shape(e.name, i)
    candidates = e.kernel.address_taken(shapes)
    target = e.read(callee, "i64")
    left = e.mask_bits
    for function in candidates:
        e.kernel.require(function.name)
        hit = b.bits(b.icmp("eq", target, integer(e.kernel.function_number(function.name), "i64")))
        lanes = b.bin("and", e.mask_bits, hit)
        left = b.bin("and", left, b.invert(hit))
        here, after = b.new_label("target"), b.new_label("after")
        b.branch_if(b.icmp("ne", lanes, integer(0, "i32")), here, after)
        b.block(here)
        _call(e, function, arguments, returns, lanes)
        b.branch(after)
        b.block(after)
    support.fault_if(e, b.icmp("ne", left, integer(0, "i32")), FaultKind.ILLEGAL_INSTRUCTION)
