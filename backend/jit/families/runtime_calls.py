"""Calls of CUDA's device runtime functions, which no module defines: vprintf, __assertfail, malloc, free.

Owns the table of these functions and the request that a call becomes (services.py). A kernel that calls one whose effects are
seen in order is marked order-sensitive: it runs on one thread, blocks in order, so that its output is the same on every run.
Source: PTX Interoperability, "System Calls"; CUDA programming guide, "Formatted Output", "Assertion", "Dynamic Global Memory Allocation".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from farlane.backend.jit.families.memory import scalar_slot
from farlane.backend.jit.ir import LANES, Val, integer
from farlane.backend.jit.model import Vector
from farlane.backend.jit.services import Request, ServiceKind

if TYPE_CHECKING:
    from farlane.backend.jit.codegen import FunctionEmitter

_ARGUMENTS, _RESULTS = Request.arguments.offset, Request.results.offset
_LANE_BYTES = 8 * LANES


class RuntimeFunction(NamedTuple):
    """A function that the device provides. `ordered`: what it does is seen in the order of the calls."""

    kind: ServiceKind
    parameters: tuple[str, ...]
    result: str
    ordered: bool


FUNCTIONS = {
    "vprintf": RuntimeFunction(ServiceKind.PRINT, ("i64", "i64"), "i32", True),
    "__assertfail": RuntimeFunction(ServiceKind.ASSERT, ("i64", "i64", "i32", "i64", "i64"), "", False),
    "malloc": RuntimeFunction(ServiceKind.ALLOCATE, ("i64",), "i64", True),
    "__nv_aligned_device_malloc": RuntimeFunction(ServiceKind.ALLOCATE_ALIGNED, ("i64", "i64"), "i64", True),
    "free": RuntimeFunction(ServiceKind.FREE, ("i64",), "", True),
}


def emit(e: FunctionEmitter, name: str, arguments: Vector, returns: Vector) -> bool:
    """Emits the call when `name` is one of the device's functions; False when it is not."""
    function = FUNCTIONS.get(name)
    if function is None:
        return False
    if len(arguments.items) != len(function.parameters) or len(returns.items) > 1:
        raise e.fail(f"call of '{name}' with the wrong number of arguments")
    b = e.body
    if function.ordered:
        e.kernel.order_sensitive = True
    request = _request(e)
    for offset, value in ((0, int(function.kind)), (8, e.line)):
        b.store(integer(value, "i32"), b.gep(request, offset))
    b.store(e.mask_bits, b.gep(request, 4))
    for number, (item, kind) in enumerate(zip(arguments.items, function.parameters, strict=True)):
        slot = scalar_slot(e, item.name)
        if slot is None or slot[1] != kind:
            raise e.fail(f"argument '{item.name}' does not match '{name}'")
        value64 = b.resize(b.load(kind, True, slot[0]), "i64")
        b.store(value64, b.gep(request, _ARGUMENTS + number * _LANE_BYTES), ", align 64")
    b.line(f"call void @farlane_request(ptr %warp, ptr {request})")
    if returns.items and function.result:
        slot = scalar_slot(e, returns.items[0].name)
        if slot is None or slot[1] != function.result:
            raise e.fail(f"result '{returns.items[0].name}' does not match '{name}'")
        result: Val = b.load("i64", True, b.gep(request, _RESULTS), ", align 64")
        result = b.resize(result, slot[1])
        if e.mask is not None:
            result = b.select(e.mask, result, b.load(slot[1], True, slot[0]))
        b.store(result, slot[0])
    return True


def _request(e: FunctionEmitter) -> str:
    """The function's one place for requests."""
    name = "%request"
    if name not in e.slots:
        e.slots.add(name)
        e.allocas.append(f"  {name} = alloca [{_RESULTS + _LANE_BYTES} x i8], align 64")
    return name
