"""Atomic operations: atom, red.

One helper function per operation and type loops over the active lanes in increasing order. Shared memory belongs to one CPU thread at a
time, so its atomics are plain read-modify-writes, written out lane by lane where all are active. A uniform address whose old value nothing reads needs one atomic per warp.
Float additions are applied lane by lane in order: with one worker the result is the same on every run (KernelInfo.order_sensitive).
Source: PTX ISA, "atom", "red".
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from farlane.backend.jit.lowering import checks
from farlane.backend.jit.lowering.checks import Access
from farlane.backend.jit.lowering.families.accesses import addresses, small_atomics
from farlane.backend.jit.lowering.families.base import check, handles, write
from farlane.backend.jit.lowering.ir import BITS, SIGNED, Val, integer, integer_of
from farlane.backend.jit.ptx.model import LANES, Instruction, Vector

if TYPE_CHECKING:
    from farlane.backend.jit.lowering.emitter import Emitter

_ORDER = {"relaxed": "monotonic", "acquire": "acquire", "release": "release", "acq_rel": "acq_rel", "sc": "seq_cst"}
_SCOPES = {"cta", "gpu", "sys", "cluster"}
_OPERATIONS = {"add", "min", "max", "inc", "dec", "and", "or", "xor", "exch", "cas"}
TYPES = {
    "u32": "i32", "s32": "i32", "b32": "i32", "u64": "i64", "s64": "i64", "b64": "i64", "f32": "float", "f64": "double",
    "b16": "i16", "f16": "half", "f16x2": "<2 x half>", "bf16": "bfloat", "bf16x2": "<2 x bfloat>", "b128": "i128",
}  # fmt: skip
_RMW = {"add": "add", "inc": "uinc_wrap", "dec": "udec_wrap", "and": "and", "or": "or", "xor": "xor", "exch": "xchg"}
_REDUCE = {
    "add": "add",
    "and": "and",
    "or": "or",
    "xor": "xor",
    "smin": "smin",
    "smax": "smax",
    "umin": "umin",
    "umax": "umax",
}


@handles("atom", "red")
def atomic(e: Emitter, i: Instruction) -> None:
    check(
        e, i,
        addresses.SPACES | set(_ORDER) | _SCOPES | _OPERATIONS | set(TYPES) | {"noftz", "L2::cache_hint", "v2", "v4", "v8"},
    )  # fmt: skip
    operation = next((item for item in i.modifiers if item in _OPERATIONS), "")
    name = i.modifiers[-1]
    sources = i.sources[:-1] if "L2::cache_hint" in i.modifiers else i.sources
    if not operation or name not in TYPES or len(sources) != (3 if operation == "cas" else 2):
        raise e.fail(f"unsupported {i.text}")
    kind = TYPES[name]
    carrier = "i32" if kind.startswith("<") else integer_of(kind)
    count = next((int(item[1]) for item in i.modifiers if item in ("v2", "v4", "v8")), 1)
    if count > 1 and (operation not in ("add", "min", "max") or not name.startswith(("f", "bf")) or name == "f64"):
        raise e.fail(f"unsupported {i.text}")
    size = BITS[carrier] // 8
    if {"release", "acq_rel", "sc"} & set(i.modifiers):
        checks.fence(e)
    access = Access(strong=True, reads=True)
    place = addresses.as_offsets(e, addresses.place(e, sources[0], addresses.space_of(i), size * count, True, access))
    rmw = operation_of(e, i, operation, name)
    used = any(value is not None and value.used for value in i.destinations)
    shared = place.base != "null"
    if rmw == "fadd" and not shared:
        e.kernel.order_sensitive = True
    if used and not shared:
        e.kernel.order_visible = True
    order = next((_ORDER[item] for item in i.modifiers if item in _ORDER), "monotonic")
    if count == 1:
        values = [e.read(source, carrier) for source in sources[1:]]
        if not used and not place.index.vec and rmw in _REDUCE and carrier == kind:
            _one_atomic(e, place, rmw, values[0], order, shared)
            return
        result = by_lane(e, place, rmw, kind, carrier, order, values, used)
        if i.destinations:
            write(e, i, result, name)
        return
    # A vector is not updated as a whole: each element is.
    items = sources[1].items if isinstance(sources[1], Vector) else ()
    if len(items) != count or len(i.destinations) not in (0, count):
        raise e.fail(f"malformed {i.text}")
    for number, item in enumerate(items):
        at = addresses.Place(place.base, e.body.bin("add", place.index, integer(size * number, "i64")))
        result = by_lane(e, at, rmw, kind, carrier, order, [e.read(item, carrier)], used)
        if i.destinations:
            write(e, i, result, name, number)


def by_lane(
    e: Emitter,
    place: addresses.Place,
    rmw: str,
    kind: str,
    carrier: str,
    order: str,
    values: list[Val],
    used: bool,
) -> Val:
    """One update for each active lane, in order; the values before, or zeros where they are not used."""
    b = e.body
    index = b.splat(place.narrow or place.index)
    uniform = tuple(not value.vec for value in values)
    shared = place.base != "null"
    name = _name(rmw, kind, order, shared, used, index.type, uniform)
    operands = ", ".join(str(value) for value in values)
    helper = _helper(e, name, rmw, kind, carrier, order, shared, used, index.type, uniform)
    arguments = f"ptr {place.base}, {index}, {e.mask_bits}, {operands}"
    return b.op(f"call <{LANES} x {carrier}> @{helper}({arguments})", carrier, True)


def operation_of(e: Emitter, i: Instruction, operation: str, name: str) -> str:
    """The name, as the helpers have it, of an operation on a type."""
    if operation in ("min", "max") and name in ("f16", "bf16", "f16x2", "bf16x2"):
        return "f" + operation
    if operation in ("min", "max"):
        if name.startswith(("f", "b")):
            raise e.fail(f"unsupported {i.text}")
        return ("s" if name in SIGNED else "u") + operation
    if operation == "cas":
        return "cas"
    if name.startswith(("f", "bf")):
        if operation != "add":
            raise e.fail(f"unsupported {i.text}")
        return "fadd"
    return _RMW[operation]


def _one_atomic(e: Emitter, place: addresses.Place, rmw: str, value: Val, order: str, shared: bool) -> None:
    """All lanes' operands folded into one update."""
    b = e.body
    kind = value.type
    if not value.vec:
        if rmw == "add":
            lanes = b.call("ctpop", "i32", [e.mask_bits])
            value = b.bin("mul", value, b.resize(lanes, kind))
        elif rmw == "xor":
            odd = b.bin("and", b.call("ctpop", "i32", [e.mask_bits]), integer(1, "i32"))
            value = b.bin("mul", value, b.resize(odd, kind))
    else:
        if e.mask is not None:
            bits = BITS[kind]
            identity = {
                "add": 0, "or": 0, "xor": 0, "and": -1, "umin": -1, "umax": 0, "smin": (1 << bits - 1) - 1, "smax": 1 << bits - 1,
            }[rmw]  # fmt: skip
            value = b.select(e.mask, value, integer(identity, kind))
        full = f"@llvm.vector.reduce.{rmw}.v{LANES}{kind}"
        e.kernel.declare(f"declare {kind} {full}(<{LANES} x {kind}>)")
        value = b.op(f"call {kind} {full}({value})", kind, False)
    pointer = b.cast("inttoptr", place.index, "ptr").name if place.base == "null" else b.gep(place.base, place.index)
    del shared  # an uncontended atomic on private memory is right, and rare enough
    b.line(f"atomicrmw {_spelled(rmw)} ptr {pointer}, {value} {order}")


def _spelled(rmw: str) -> str:
    return {"smin": "min", "smax": "max"}.get(rmw, rmw)


def _name(rmw: str, kind: str, order: str, shared: bool, used: bool, offset: str, uniform: tuple[bool, ...]) -> str:
    safe = kind.strip("<>").replace(" ", "")
    name = f"farlane_atomic_{rmw}_{safe}_{order}{'_shared' if shared else ''}{'' if used else '_quiet'}_{offset}"
    return name + ("".join("_one" if one else "_each" for one in uniform) if any(uniform) else "")


def _helper(
    e: Emitter,
    name: str,
    rmw: str,
    kind: str,
    carrier: str,
    order: str,
    shared: bool,
    used: bool,
    offset: str,
    uniform: tuple[bool, ...],
) -> str:
    """`offset`: the type of an index; `uniform`: which operands are the same for all lanes.

    Lanes read their parts of vectors from memory (volatile, or LLVM takes vectors apart in registers, at more than twice the cost).
    """
    if name in e.kernel.helpers:
        return name
    vec = f"<{LANES} x {carrier}>"
    update = _update(rmw, kind, carrier, order, shared)
    # Without locks the loop costs more than what it does.
    whole = shared and kind not in small_atomics.KINDS
    lines = [
        f"define internal {vec} @{name}(ptr %base, <{LANES} x {offset}> %index, i32 %bits, {_parameters(carrier, uniform)}) noinline {{",
        "entry:",
        *_in_memory(carrier, offset, uniform),
    ]
    if used:
        lines += [f"  %out = alloca {vec}, align 64", f"  store {vec} zeroinitializer, ptr %out, align 64"]
    if whole:
        lines += ["  %whole = icmp eq i32 %bits, -1", "  br i1 %whole, label %all, label %some", "all:"]
        lines += _of_all_lanes(uniform, carrier, update, used, offset)
        lines += ["  br label %done", "some:"]
    before = "some" if whole else "entry"
    lines += [
        "  %empty = icmp eq i32 %bits, 0",
        "  br i1 %empty, label %done, label %loop",
        "loop:",
        f"  %left = phi i32 [ %bits, %{before} ], [ %next, %again ]",
        "  %lane = call i32 @llvm.cttz.i32(i32 %left, i1 false)",
        *_of_lane("%lane", uniform, carrier, update, used, offset),
        "  br label %again",
        "again:",
        "  %minus = sub i32 %left, 1",
        "  %next = and i32 %left, %minus",
        "  %more = icmp ne i32 %next, 0",
        "  br i1 %more, label %loop, label %done",
        "done:",
        *(
            [f"  %result = load {vec}, ptr %out, align 64", f"  ret {vec} %result"]
            if used
            else [f"  ret {vec} zeroinitializer"]
        ),
        "}",
    ]
    e.kernel.helpers[name] = "\n".join(lines)
    return name


def _parameters(carrier: str, uniform: tuple[bool, ...]) -> str:
    """Text of the operands as a helper takes them."""
    vec = f"<{LANES} x {carrier}>"
    return ", ".join(f"{carrier if one else vec} %v{index}" for index, one in enumerate(uniform))


def _in_memory(carrier: str, offset: str, uniform: tuple[bool, ...]) -> list[str]:
    """Text that writes what differs between lanes to where _of_lane reads it."""
    vec = f"<{LANES} x {carrier}>"
    lines = [
        f"  %indices = alloca [{LANES} x {offset}], align 64",
        f"  store volatile <{LANES} x {offset}> %index, ptr %indices, align 64",
    ]
    for index, one in enumerate(uniform):
        if not one:
            lines.append(f"  %in{index} = alloca {vec}, align 64")
            lines.append(f"  store volatile {vec} %v{index}, ptr %in{index}, align 64")
    return lines


# What a lane's text names anew: all but the function's own names.
_LOCAL = re.compile(r"%(?!base\b|indices\b|out\b|in\d|v\d)([a-z]\w*)")


def _of_lane(
    lane: str, uniform: tuple[bool, ...], carrier: str, update: list[str], used: bool, offset: str
) -> list[str]:
    """Text of one lane's update; `lane` is a number or a name."""
    lines = [
        f"  %at = getelementptr [{LANES} x {offset}], ptr %indices, i32 0, i32 {lane}",
        f"  %offset = load volatile {offset}, ptr %at",
        f"  %pointer = getelementptr i8, ptr %base, {offset} %offset",
    ]
    for index, one in enumerate(uniform):
        if one:
            lines.append(f"  %x{index} = freeze {carrier} %v{index}")
            continue
        lines += [
            f"  %from{index} = getelementptr {carrier}, ptr %in{index}, i32 {lane}",
            f"  %x{index} = load volatile {carrier}, ptr %from{index}",
        ]
    lines += update
    if used:
        lines += [f"  %to = getelementptr {carrier}, ptr %out, i32 {lane}", f"  store {carrier} %old, ptr %to"]
    return lines


def _of_all_lanes(uniform: tuple[bool, ...], carrier: str, update: list[str], used: bool, offset: str) -> list[str]:
    """Text of one update after another, each with names of its own."""
    texts = ["\n".join(_of_lane(str(lane), uniform, carrier, update, used, offset)) for lane in range(LANES)]
    return [_LOCAL.sub(rf"%\1.{lane}", text) for lane, text in enumerate(texts)]


def _update(rmw: str, kind: str, carrier: str, order: str, shared: bool) -> list[str]:
    """Text that sets %old and updates *%pointer with %x0 (and %x1)."""
    size = BITS[carrier] // 8
    if kind in small_atomics.KINDS:
        return small_atomics.update(rmw, kind, carrier, order, shared)
    if rmw == "cas":
        if shared:
            return [
                f"  %old = load {carrier}, ptr %pointer, align {size}",
                f"  %same = icmp eq {carrier} %old, %x0",
                f"  %new = select i1 %same, {carrier} %x1, {carrier} %old",
                f"  store {carrier} %new, ptr %pointer, align {size}",
            ]
        failure = {"monotonic": "monotonic", "acquire": "acquire", "release": "monotonic", "acq_rel": "acquire"}.get(
            order, "seq_cst"
        )
        return [
            f"  %pair = cmpxchg ptr %pointer, {carrier} %x0, {carrier} %x1 {order} {failure}, align {size}",
            f"  %old = extractvalue {{ {carrier}, i1 }} %pair, 0",
        ]
    if shared:
        return [
            f"  %old = load {carrier}, ptr %pointer, align {size}",
            *_plain(rmw, kind, carrier),
            f"  store {carrier} %new, ptr %pointer, align {size}",
        ]
    if kind == carrier:
        return [f"  %old = atomicrmw {_spelled(rmw)} ptr %pointer, {carrier} %x0 {order}, align {size}"]
    return [
        f"  %x = bitcast {carrier} %x0 to {kind}",
        f"  %before = atomicrmw {_spelled(rmw)} ptr %pointer, {kind} %x {order}, align {size}",
        f"  %old = bitcast {kind} %before to {carrier}",
    ]


def _plain(rmw: str, kind: str, carrier: str) -> list[str]:
    """%new from %old and %x0 without atomicity."""
    if rmw == "fadd":
        return [
            f"  %a = bitcast {carrier} %old to {kind}",
            f"  %c = bitcast {carrier} %x0 to {kind}",
            f"  %s = fadd {kind} %a, %c",
            f"  %new = bitcast {kind} %s to {carrier}",
        ]
    if rmw == "xchg":
        return [f"  %new = add {carrier} %x0, 0"]
    if rmw == "uinc_wrap":
        return [
            f"  %wraps = icmp uge {carrier} %old, %x0",
            f"  %plus = add {carrier} %old, 1",
            f"  %new = select i1 %wraps, {carrier} 0, {carrier} %plus",
        ]
    if rmw == "udec_wrap":
        return [
            f"  %zero = icmp eq {carrier} %old, 0",
            f"  %above = icmp ugt {carrier} %old, %x0",
            "  %wraps = or i1 %zero, %above",
            f"  %less = sub {carrier} %old, 1",
            f"  %new = select i1 %wraps, {carrier} %x0, {carrier} %less",
        ]
    if rmw in ("smin", "smax", "umin", "umax"):
        predicate = {"smin": "slt", "smax": "sgt", "umin": "ult", "umax": "ugt"}[rmw]
        return [
            f"  %better = icmp {predicate} {carrier} %old, %x0",
            f"  %new = select i1 %better, {carrier} %old, {carrier} %x0",
        ]
    return [f"  %new = {rmw} {carrier} %old, %x0"]
