"""Loads and stores: ld, ldu, st in all state spaces, vectors, volatile and ordered accesses, prefetch.

Per-lane addresses go through helper functions that test at run time whether the lanes' addresses are contiguous or equal row by row
(a row: the lanes that share threadIdx.y and z) and then use plain vector or scalar accesses; else gather and scatter. Ordered accesses of
several elements are one access per lane, so that a reader never sees half of another thread's store.
Source: PTX ISA, "ld", "st", "Memory Consistency Model" (mapped to LLVM fences; x86 and LLVM orderings are at least as strong).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from farlane.backend.jit import support
from farlane.backend.jit.families import addresses
from farlane.backend.jit.families.addresses import Place
from farlane.backend.jit.families.base import check, handles, type_of
from farlane.backend.jit.ir import BITS, LANES, Val
from farlane.backend.jit.model import Address, Instruction, Symbol, Vector
from farlane.backend.jit.types import PTX_LLVM, SIGNED, integer_of, widen

if TYPE_CHECKING:
    from farlane.backend.jit.codegen import FunctionEmitter

_CACHE = {
    "ca", "cg", "cs", "lu", "cv", "wb", "wt", "nc", "L1::evict_normal", "L1::evict_unchanged", "L1::evict_first",
    "L1::evict_last", "L1::no_allocate", "L2::64B", "L2::128B", "L2::256B", "L2::cache_hint", "L2::evict_first",
    "L2::evict_last", "L2::evict_normal", "unified",
}  # fmt: skip
_ORDER = {"weak", "volatile", "relaxed", "acquire", "release", "cta", "gpu", "sys", "cluster", "mmio"}
_TYPES = {"b8", "u8", "s8", "b16", "u16", "s16", "b32", "u32", "s32", "b64", "u64", "s64", "f32", "f64", "f16", "b128"}
_ALLOWED = addresses.SPACES | _CACHE | _ORDER | _TYPES | {"v2", "v4", "v8"}
_ORDERED = {"volatile", "relaxed", "acquire", "release", "mmio"}


def _count(i: Instruction) -> int:
    return next((int(item[1]) for item in i.modifiers if item in ("v2", "v4", "v8")), 1)


def _compiler_fence(e: FunctionEmitter) -> None:
    e.body.line('fence syncscope("singlethread") seq_cst')


@handles("ld", "ldu")
def load(e: FunctionEmitter, i: Instruction) -> None:
    check(e, i, _ALLOWED)
    if "L2::cache_hint" in i.modifiers:
        i = Instruction(i.base, i.modifiers, i.destinations, i.sources[:1], i.line)
    if len(i.sources) != 1:
        raise e.fail(f"malformed {i.text}")
    name, kind = type_of(e, i)
    element = integer_of(kind)
    count = _count(i)
    if count != len(i.destinations):
        raise e.fail(f"malformed {i.text}")
    space = addresses.space_of(i)
    results = parameter_load(e, i, element, count) if space == "param" else None
    if results is None:
        ordered = bool(_ORDERED & set(i.modifiers))
        place = addresses.place(e, i.sources[0], space, count * BITS[element] // 8, False)
        if ordered:
            _compiler_fence(e)
        results = read_memory(e, place, element, count, ordered)
        if "acquire" in i.modifiers:
            e.body.line("fence acquire")
        elif ordered:
            _compiler_fence(e)
    for destination, result in zip(i.destinations, results, strict=True):
        if destination is not None:
            e.define(destination, widen(e.body, result, destination.type, name in SIGNED))


@handles("st")
def store(e: FunctionEmitter, i: Instruction) -> None:
    check(e, i, _ALLOWED)
    sources = i.sources[:2] if "L2::cache_hint" in i.modifiers else i.sources
    if len(sources) != 2:
        raise e.fail(f"malformed {i.text}")
    _, kind = type_of(e, i)
    element = integer_of(kind)
    count = _count(i)
    items = list(sources[1].items) if isinstance(sources[1], Vector) else [sources[1]]
    if len(items) != count or None in items:
        raise e.fail(f"malformed {i.text}")
    # Immediates are read by the PTX type (a float literal), registers by width.
    values = [e.body.bitcast(e.read(item, kind), element) for item in items]
    space = addresses.space_of(i)
    if space == "param" and parameter_store(e, sources[0], values):
        return
    ordered = bool(_ORDERED & set(i.modifiers))
    place = addresses.place(e, sources[0], space, count * BITS[element] // 8, True)
    if "release" in i.modifiers:
        e.body.line("fence release")
    elif ordered:
        _compiler_fence(e)
    write_memory(e, place, element, values, ordered)
    if ordered:
        _compiler_fence(e)


# Parameters ----------------------------------------------------------------------------------------------------------
def parameter_load(e: FunctionEmitter, i: Instruction, element: str, count: int) -> list[Val] | None:
    """ld.param at an offset known now: from the parameter buffer, an argument, or a call's result. None for other forms."""
    operand = i.sources[0]
    if not isinstance(operand, Address) or not isinstance(operand.base, Symbol):
        return None
    b = e.body
    name, offset = operand.base.name, operand.offset
    size = BITS[element] // 8
    if e.entry and name in e.kernel.parameter_offsets:
        start = e.kernel.parameter_offsets[name] + offset
        if start % (size * count) or not 0 <= start <= e.kernel.parameter_bytes - size * count:
            raise e.fail(f"{i.text} outside of the parameters")
        pointer = support.parameters(e)
        return [
            b.load(element, False, b.gep(pointer, start + size * index), f", align {size}, !invariant.load !1")
            for index in range(count)
        ]
    slot = scalar_slot(e, name)
    if slot is None:
        return None
    kind = slot[1]
    if offset or count != 1 or BITS[kind] < BITS[element]:
        raise e.fail(f"{i.text} of part of a scalar parameter")
    value = b.load(kind, True, slot[0])
    return [value if kind == element else b.cast("trunc", value, element)]


def parameter_store(e: FunctionEmitter, operand: object, values: list[Val]) -> bool:
    """st.param to a scalar argument or result."""
    if not isinstance(operand, Address) or not isinstance(operand.base, Symbol):
        return False
    slot = scalar_slot(e, operand.base.name)
    if slot is None:
        return False
    b = e.body
    name, kind = slot
    if operand.offset or len(values) != 1 or BITS[values[0].type] > BITS[kind]:
        raise e.fail("st.param to part of a scalar parameter")
    value = b.splat(b.resize(values[0], kind))
    if e.mask is not None:
        value = b.select(e.mask, value, b.load(kind, True, name))
    b.store(value, name)
    return True


def scalar_slot(e: FunctionEmitter, name: str) -> tuple[str, str] | None:
    """(stack slot, type) of a scalar .param variable: an argument, a result, or of a call sequence."""
    item = e.storage.get(name)
    if item is None or item.space != "param" or item.array:
        return None
    kind = integer_of(PTX_LLVM[item.element])
    return e.slot(f'%"param.{name}"', kind, True), kind


# Memory --------------------------------------------------------------------------------------------------------------
def read_memory(e: FunctionEmitter, place: Place, element: str, count: int, ordered: bool = False) -> list[Val]:
    """`count` elements from a checked place."""
    b = e.body
    size = BITS[element] // 8
    if not place.index.vec:
        pointer = _pointer(e, place)
        extra = f", align {size}"
        if ordered and count > 1:
            whole = f"<{count} x {element}>"
            pack = b.op(f"load volatile {whole}, ptr {pointer}, align {size * count}", element, False)
            return [b.op(f"extractelement {whole} {pack.name}, i32 {index}", element, False) for index in range(count)]
        keyword = "volatile " if ordered else ""
        return [
            b.op(f"load {keyword}{element}, ptr {b.gep(pointer, size * index)}{extra}", element, False)
            for index in range(count)
        ]
    helper = _read_helper(e, element, count, ordered)
    mask = e.mask or Val("splat (i1 true)", "i1", True, True)
    shown = f"{{ {', '.join([f'<{LANES} x {element}>'] * count)} }}"
    result = b.op(f"call {shown} @{helper}(ptr {place.base}, {place.index}, {mask})", element, True)
    return [b.op(f"extractvalue {shown} {result.name}, {index}", element, True) for index in range(count)]


def write_memory(e: FunctionEmitter, place: Place, element: str, values: list[Val], ordered: bool = False) -> None:
    b = e.body
    size = BITS[element] // 8
    if not place.index.vec:
        pointer = _pointer(e, place)
        lane = support.last_lane(e) if any(value.vec for value in values) else 0
        scalars = [b.lane(value, lane) for value in values]
        if ordered and len(values) > 1:
            whole = f"<{len(values)} x {element}>"
            pack = "poison"
            for index, value in enumerate(scalars):
                pack = b.op(f"insertelement {whole} {pack}, {value}, i32 {index}", element, False).name
            b.line(f"store volatile {whole} {pack}, ptr {pointer}, align {size * len(values)}")
            return
        for index, value in enumerate(scalars):
            b.line(f"store {'volatile ' if ordered else ''}{value}, ptr {b.gep(pointer, size * index)}, align {size}")
        return
    helper = _write_helper(e, element, len(values), ordered)
    mask = e.mask or Val("splat (i1 true)", "i1", True, True)
    shown = ", ".join(str(b.splat(value)) for value in values)
    b.line(f"call void @{helper}(ptr {place.base}, {place.index}, {mask}, {shown})")


def _pointer(e: FunctionEmitter, place: Place) -> str:
    if place.base == "null":
        return e.body.cast("inttoptr", place.index, "ptr").name
    return e.body.gep(place.base, place.index)


def _rows(e: FunctionEmitter) -> int:
    """Lanes per row: the block's x extent when it divides a warp, else the whole warp."""
    x = e.kernel.block[0]
    return x if x in (8, 16) else LANES


_TRUE = f"<{LANES} x i1> splat (i1 true)"


def _elements(values: list[int], kind: str = "i64") -> str:
    return "<" + ", ".join(f"{kind} {value}" for value in values) + ">"


def _vector(values: list[int], kind: str = "i64") -> str:
    return f"<{len(values)} x {kind}> {_elements(values, kind)}"


def _analyse(e: FunctionEmitter, stride: int) -> tuple[int, list[str]]:
    """Text that defines %delta: each lane's distance from the first lane of its row."""
    row = _rows(e)
    firsts = _vector([lane - lane % row for lane in range(LANES)], "i32")
    lines = [
        f"  %firsts = shufflevector <{LANES} x i64> %index, <{LANES} x i64> poison, {firsts}",
        f"  %delta = sub <{LANES} x i64> %index, %firsts",
        f"  %steps = icmp eq <{LANES} x i64> %delta, {_elements([lane % row * stride for lane in range(LANES)])}",
        f"  %steps.bits = bitcast <{LANES} x i1> %steps to i32",
        "  %contiguous = icmp eq i32 %steps.bits, -1",
    ]
    return row, lines


def _read_helper(e: FunctionEmitter, element: str, count: int, ordered: bool) -> str:
    row = _rows(e)
    name = f"farlane_read_{element}_{count}{'_ordered' if ordered else ''}"
    if name in e.kernel.helpers:
        return name
    vec = f"<{LANES} x {element}>"
    shown = f"{{ {', '.join([vec] * count)} }}"
    size = BITS[element] // 8
    head = f"define internal {shown} @{name}(ptr %base, <{LANES} x i64> %index, <{LANES} x i1> %mask)"
    if ordered:
        e.kernel.helpers[name] = _ordered_read(head, shown, vec, element, count)
        return name
    suffix = {"i8": "i8", "i16": "i16", "i32": "i32", "i64": "i64", "i128": "i128"}[element]
    if element != "i128":
        e.kernel.declare(
            f"declare {vec} @llvm.masked.gather.v{LANES}{suffix}.v{LANES}p0(<{LANES} x ptr>, i32 immarg, <{LANES} x i1>, {vec})"
        )
    lines = [head + " alwaysinline {", "entry:"]
    row, analysis = _analyse(e, size * count)
    lines += analysis
    lines += ["  br i1 %contiguous, label %wide, label %other"]
    lines += ["wide:", *_contiguous_read(e, row, element, count, shown)]
    lines += [
        "other:",
        f"  %same = icmp eq <{LANES} x i64> %delta, zeroinitializer",
        f"  %active = and <{LANES} x i1> %same, %mask",
        f"  %same.bits = bitcast <{LANES} x i1> %active to i32",
        "  %equal = icmp eq i32 %same.bits, -1",
        "  br i1 %equal, label %broadcast, label %scattered",
        "broadcast:",
        *_broadcast_read(row, element, count, shown),
        "scattered:",
        f"  %pointers = getelementptr i8, ptr %base, <{LANES} x i64> %index",
    ]
    result = "poison"
    for index in range(count):
        lines.append(f"  %p{index} = getelementptr i8, <{LANES} x ptr> %pointers, i64 {size * index}")
        lines.append(
            f"  %g{index} = call {vec} @llvm.masked.gather.v{LANES}{suffix}.v{LANES}p0(<{LANES} x ptr> %p{index}, i32 {size}, "
            f"<{LANES} x i1> %mask, {vec} zeroinitializer)"
        )
        lines.append(f"  %r{index} = insertvalue {shown} {result}, {vec} %g{index}, {index}")
        result = f"%r{index}"
    lines += [f"  ret {shown} {result}", "}"]
    e.kernel.helpers[name] = "\n".join(lines)
    return name


def _contiguous_read(e: FunctionEmitter, row: int, element: str, count: int, shown: str) -> list[str]:
    """Row by row: one masked load of row * count elements, then the elements are picked apart."""
    wide, size = row * count, BITS[element] // 8
    intrinsic = f"@llvm.masked.load.v{wide}{element}.p0"
    e.kernel.declare(f"declare <{wide} x {element}> {intrinsic}(ptr, i32 immarg, <{wide} x i1>, <{wide} x {element}>)")
    lines = []
    parts: list[str] = []
    for number in range(LANES // row):
        spread = _vector([number * row + position // count for position in range(wide)], "i32")
        lines += [
            f"  %first{number} = extractelement <{LANES} x i64> %index, i32 {number * row}",
            f"  %start{number} = getelementptr i8, ptr %base, i64 %first{number}",
            f"  %part{number} = shufflevector <{LANES} x i1> %mask, <{LANES} x i1> poison, {spread}",
            f"  %load{number} = call <{wide} x {element}> {intrinsic}(ptr %start{number}, i32 {size}, <{wide} x i1> %part{number}, "
            f"<{wide} x {element}> zeroinitializer)",
        ]
        parts.append(f"%load{number}")
    result = "poison"
    for index in range(count):
        picked = []
        for number, part in enumerate(parts):
            chosen = _vector([position * count + index for position in range(row)], "i32")
            lines.append(
                f"  %pick{index}.{number} = shufflevector <{wide} x {element}> {part}, <{wide} x {element}> poison, {chosen}"
            )
            picked.append(f"%pick{index}.{number}")
        joined = _join(lines, picked, row, element, f"join{index}")
        lines.append(f"  %w{index} = insertvalue {shown} {result}, <{LANES} x {element}> {joined}, {index}")
        result = f"%w{index}"
    lines.append(f"  ret {shown} {result}")
    return lines


def _join(lines: list[str], parts: list[str], width: int, element: str, hint: str) -> str:
    """Concatenates equally long vectors, pairwise."""
    level = 0
    while len(parts) > 1:
        joined = []
        for number in range(0, len(parts), 2):
            indices = _vector(list(range(2 * width)), "i32")
            name = f"%{hint}.{level}.{number}"
            lines.append(
                f"  {name} = shufflevector <{width} x {element}> {parts[number]}, <{width} x {element}> {parts[number + 1]}, {indices}"
            )
            joined.append(name)
        parts, width, level = joined, width * 2, level + 1
    return parts[0]


def _broadcast_read(row: int, element: str, count: int, shown: str) -> list[str]:
    size = BITS[element] // 8
    lines = []
    for number in range(LANES // row):
        lines.append(f"  %b.index{number} = extractelement <{LANES} x i64> %index, i32 {number * row}")
        lines.append(f"  %b.start{number} = getelementptr i8, ptr %base, i64 %b.index{number}")
    result = "poison"
    for index in range(count):
        current = "poison"
        for number in range(LANES // row):
            lines.append(f"  %b.p{index}.{number} = getelementptr i8, ptr %b.start{number}, i64 {size * index}")
            lines.append(f"  %b.v{index}.{number} = load {element}, ptr %b.p{index}.{number}, align {size}")
            lines.append(
                f"  %b.i{index}.{number} = insertelement <{LANES} x {element}> {current}, {element} %b.v{index}.{number}, i32 {number}"
            )
            current = f"%b.i{index}.{number}"
        chosen = _vector([lane // row for lane in range(LANES)], "i32")
        lines.append(
            f"  %b.s{index} = shufflevector <{LANES} x {element}> {current}, <{LANES} x {element}> poison, {chosen}"
        )
        lines.append(f"  %b.r{index} = insertvalue {shown} {result}, <{LANES} x {element}> %b.s{index}, {index}")
        result = f"%b.r{index}"
    lines.append(f"  ret {shown} {result}")
    return lines


def _lane_loop(body: list[str], tail: list[str]) -> list[str]:
    """A loop over the set bits of %mask; the body sees %lane."""
    return [
        "entry:",
        f"  %indices = alloca [{LANES} x i64], align 64",
        f"  store <{LANES} x i64> %index, ptr %indices, align 64",
        f"  %bits = bitcast <{LANES} x i1> %mask to i32",
        "ENTRY",
        "  %empty = icmp eq i32 %bits, 0",
        "  br i1 %empty, label %done, label %loop",
        "loop:",
        "  %left = phi i32 [ %bits, %entry ], [ %next, %loop ]",
        "  %lane = call i32 @llvm.cttz.i32(i32 %left, i1 false)",
        f"  %at = getelementptr [{LANES} x i64], ptr %indices, i32 0, i32 %lane",
        "  %offset = load i64, ptr %at",
        "  %pointer = getelementptr i8, ptr %base, i64 %offset",
        *body,
        "  %minus = sub i32 %left, 1",
        "  %next = and i32 %left, %minus",
        "  %more = icmp ne i32 %next, 0",
        "  br i1 %more, label %loop, label %done",
        "done:",
        *tail,
        "}",
    ]


def _ordered_read(head: str, shown: str, vec: str, element: str, count: int) -> str:
    size = BITS[element] // 8
    whole = f"<{count} x {element}>"
    setup, body, tail = [], [f"  %value = load volatile {whole}, ptr %pointer, align {size * count}"], []
    result = "poison"
    for index in range(count):
        setup += [
            f"  %out{index} = alloca {vec}, align 64",
            f"  store {vec} zeroinitializer, ptr %out{index}, align 64",
        ]
        body += [
            f"  %e{index} = extractelement {whole} %value, i32 {index}",
            f"  %to{index} = getelementptr {element}, ptr %out{index}, i32 %lane",
            f"  store {element} %e{index}, ptr %to{index}",
        ]
        tail += [
            f"  %l{index} = load {vec}, ptr %out{index}, align 64",
            f"  %r{index} = insertvalue {shown} {result}, {vec} %l{index}, {index}",
        ]
        result = f"%r{index}"
    lines = _lane_loop(body, [*tail, f"  ret {shown} {result}"])
    at = lines.index("ENTRY")
    return "\n".join([head + " noinline {", *lines[:at], *setup, *lines[at + 1 :]])


def _write_helper(e: FunctionEmitter, element: str, count: int, ordered: bool) -> str:
    name = f"farlane_write_{element}_{count}{'_ordered' if ordered else ''}"
    if name in e.kernel.helpers:
        return name
    vec, size = f"<{LANES} x {element}>", BITS[element] // 8
    values = ", ".join(f"{vec} %v{index}" for index in range(count))
    head = f"define internal void @{name}(ptr %base, <{LANES} x i64> %index, <{LANES} x i1> %mask, {values})"
    if ordered or element == "i128":
        e.kernel.helpers[name] = _ordered_write(head, vec, element, count)
        return name
    scatter = f"@llvm.masked.scatter.v{LANES}{element}.v{LANES}p0"
    e.kernel.declare(f"declare void {scatter}({vec}, <{LANES} x ptr>, i32 immarg, <{LANES} x i1>)")
    row, analysis = _analyse(e, size * count)
    wide = row * count
    intrinsic = f"@llvm.masked.store.v{wide}{element}.p0"
    e.kernel.declare(f"declare void {intrinsic}(<{wide} x {element}>, ptr, i32 immarg, <{wide} x i1>)")
    lines = [
        head + " alwaysinline {",
        "entry:",
        *analysis,
        "  br i1 %contiguous, label %wide, label %scattered",
        "wide:",
    ]
    for number in range(LANES // row):
        lines += _interleave(number, row, count, element)
        spread = _vector([number * row + position // count for position in range(wide)], "i32")
        lines += [
            f"  %first{number} = extractelement <{LANES} x i64> %index, i32 {number * row}",
            f"  %start{number} = getelementptr i8, ptr %base, i64 %first{number}",
            f"  %part{number} = shufflevector <{LANES} x i1> %mask, <{LANES} x i1> poison, {spread}",
            f"  call void {intrinsic}(<{wide} x {element}> %row{number}, ptr %start{number}, i32 {size}, <{wide} x i1> %part{number})",
        ]
    lines += ["  ret void", "scattered:", f"  %pointers = getelementptr i8, ptr %base, <{LANES} x i64> %index"]
    for index in range(count):
        lines.append(f"  %p{index} = getelementptr i8, <{LANES} x ptr> %pointers, i64 {size * index}")
        lines.append(
            f"  call void {scatter}({vec} %v{index}, <{LANES} x ptr> %p{index}, i32 {size}, <{LANES} x i1> %mask)"
        )
    lines += ["  ret void", "}"]
    e.kernel.helpers[name] = "\n".join(lines)
    return name


def _interleave(number: int, row: int, count: int, element: str) -> list[str]:
    """%row<number>: the elements of one row in memory order."""
    lines = []
    for index in range(count):
        chosen = _vector([number * row + lane for lane in range(row)], "i32")
        lines.append(
            f"  %c{number}.{index} = shufflevector <{LANES} x {element}> %v{index}, <{LANES} x {element}> poison, {chosen}"
        )
    parts = [f"%c{number}.{index}" for index in range(count)]
    width = row
    level = 0
    while len(parts) > 1:
        joined = []
        for at in range(0, len(parts), 2):
            name = f"%j{number}.{level}.{at}"
            lines.append(
                f"  {name} = shufflevector <{width} x {element}> {parts[at]}, <{width} x {element}> {parts[at + 1]}, "
                + _vector(list(range(2 * width)), "i32")
            )
            joined.append(name)
        parts, width, level = joined, width * 2, level + 1
    # parts[0] holds all of element 0, then all of element 1, ...: transpose.
    order = _vector([position % count * row + position // count for position in range(row * count)], "i32")
    wide = f"<{row * count} x {element}>"
    lines.append(f"  %row{number} = shufflevector {wide} {parts[0]}, {wide} poison, {order}")
    return lines


def _ordered_write(head: str, vec: str, element: str, count: int) -> str:
    size = BITS[element] // 8
    whole = f"<{count} x {element}>"
    setup, body = [], []
    pack = "poison"
    for index in range(count):
        setup += [f"  %in{index} = alloca {vec}, align 64", f"  store {vec} %v{index}, ptr %in{index}, align 64"]
        body += [
            f"  %from{index} = getelementptr {element}, ptr %in{index}, i32 %lane",
            f"  %e{index} = load {element}, ptr %from{index}",
            f"  %w{index} = insertelement {whole} {pack}, {element} %e{index}, i32 {index}",
        ]
        pack = f"%w{index}"
    body.append(f"  store volatile {whole} {pack}, ptr %pointer, align {size * count}")
    lines = _lane_loop(body, ["  ret void"])
    at = lines.index("ENTRY")
    return "\n".join([head + " noinline {", *lines[:at], *setup, *lines[at + 1 :]])


# Hints ---------------------------------------------------------------------------------------------------------------
@handles("prefetch", "prefetchu", "discard", "applypriority")
def hint(e: FunctionEmitter, i: Instruction) -> None:
    """Performance hints: no effect, no fault."""
