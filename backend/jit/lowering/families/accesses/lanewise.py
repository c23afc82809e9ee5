"""Loads at addresses that are only known per lane: helper functions in IR, one per element type and count (stores: lanewise_stores.py).

They test at run time whether the lanes' addresses are contiguous or equal, row by row (a row: the lanes that share threadIdx.y and z), and
then use plain vector or scalar accesses; else gather and scatter. The ordered ones make one access per lane.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from farlane.backend.jit.analysis import serial
from farlane.backend.jit.analysis.strides import row_length
from farlane.backend.jit.lowering import processors
from farlane.backend.jit.lowering.ir import BITS
from farlane.backend.jit.ptx.model import LANES

if TYPE_CHECKING:
    from farlane.backend.jit.lowering.emitter import Emitter


def elements(values: list[int], kind: str = "i64") -> str:
    return "<" + ", ".join(f"{kind} {value}" for value in values) + ">"


def vector(values: list[int], kind: str = "i64") -> str:
    return f"<{len(values)} x {kind}> {elements(values, kind)}"


def counting(e: Emitter) -> str:
    """The last argument of a reader, if it has one: where it counts reads that turn out to be here and there."""
    return "" if e.scattered is None else f", ptr {e.scattered}"


def _count(e: Emitter, count: int) -> list[str]:
    """Text that adds to %credit what a read of so many elements costs more, whose lanes turn out not to be beside each other."""
    e.kernel.declare("declare i32 @llvm.sadd.sat.i32(i32, i32)")
    cost = (serial.SCATTERED_ZEN if processors.zen(e.kernel.options) else serial.SCATTERED) * (2 if count > 1 else 1)
    return [
        "  %credit.old = load i32, ptr %credit",
        f"  %credit.new = call i32 @llvm.sadd.sat.i32(i32 %credit.old, i32 {cost})",
        "  store i32 %credit.new, ptr %credit",
    ]


def analyse(e: Emitter, stride: int, kind: str) -> tuple[int, list[str]]:
    """Text that defines %delta, each lane's distance from the first lane of its row, and whether those of the active lanes are `stride` each."""
    row = row_length(e.kernel.block)
    firsts = vector([lane - lane % row for lane in range(LANES)], "i32")
    lines = [
        f"  %firsts = shufflevector <{LANES} x {kind}> %index, <{LANES} x {kind}> poison, {firsts}",
        f"  %delta = sub <{LANES} x {kind}> %index, %firsts",
        f"  %idle = xor <{LANES} x i1> %mask, splat (i1 true)",
        f"  %steps = icmp eq <{LANES} x {kind}> %delta, {elements([lane % row * stride for lane in range(LANES)], kind)}",
        f"  %steps.or = or <{LANES} x i1> %steps, %idle",
        f"  %steps.bits = bitcast <{LANES} x i1> %steps.or to i32",
        "  %contiguous = icmp eq i32 %steps.bits, -1",
    ]
    return row, lines


def reader(e: Emitter, element: str, count: int, ordered: bool, kind: str = "i64") -> str:
    """`kind`: the type of an index."""
    row = row_length(e.kernel.block)
    counted = e.scattered is not None
    name = f"farlane_read_{element}_{count}_{kind}{'_ordered' if ordered else ''}{'_counted' if counted else ''}"
    if name in e.kernel.helpers:
        return name
    vec = f"<{LANES} x {element}>"
    shown = f"{{ {', '.join([vec] * count)} }}"
    size = BITS[element] // 8
    credit = ", ptr %credit" if counted else ""
    head = f"define internal {shown} @{name}(ptr %base, <{LANES} x {kind}> %index, <{LANES} x i1> %mask{credit})"
    if ordered:
        e.kernel.helpers[name] = _ordered_read(head, shown, vec, element, count, kind)
        return name
    lines = [head + f" {inlining(e)} {{", "entry:"]
    row, analysis = analyse(e, size * count, kind)
    leaders = sum(1 << lane for lane in range(0, LANES, row))
    lines += analysis
    lines += ["  br i1 %contiguous, label %wide, label %other"]
    lines += ["wide:", *_contiguous_read(e, row, element, count, shown, kind)]
    lines += [
        "other:",
        f"  %same = icmp eq <{LANES} x {kind}> %delta, zeroinitializer",
        f"  %same.or = or <{LANES} x i1> %same, %idle",
        f"  %same.bits = bitcast <{LANES} x i1> %same.or to i32",
        "  %all.same = icmp eq i32 %same.bits, -1",
        # What is read is the first lanes': they must take part.
        f"  %mask.bits = bitcast <{LANES} x i1> %mask to i32",
        f"  %leading = and i32 %mask.bits, {leaders}",
        f"  %led = icmp eq i32 %leading, {leaders}",
        "  %equal = and i1 %all.same, %led",
        "  br i1 %equal, label %broadcast, label %scattered",
        "broadcast:",
        *_broadcast_read(row, element, count, shown, kind),
        "scattered:",
        *alone(e, kind, "%mask.bits"),
        "alone:",
        *_alone_read(element, count, shown),
        "many:",
    ]
    if counted:
        lines += _count(e, count)
    if (element, count, kind) == ("i32", 4, "i32"):
        lines += _rows_of_four(shown)
        e.kernel.helpers[name] = "\n".join([*lines, "}"])
        return name
    result = "poison"
    for index in range(count):
        lines += gather_at(e, element, "%base", f"%index, {kind}", size * index, "%mask", f"g{index}")
        lines.append(f"  %r{index} = insertvalue {shown} {result}, {vec} %g{index}, {index}")
        result = f"%r{index}"
    lines += [f"  ret {shown} {result}", "}"]
    e.kernel.helpers[name] = "\n".join(lines)
    return name


def alone(e: Emitter, kind: str, bits: str) -> list[str]:
    """Text that goes to %alone when a single lane is active, with its %lane and its address in %lane.p, else to %many."""
    e.kernel.declare("declare i32 @llvm.ctpop.i32(i32)")
    e.kernel.declare("declare i32 @llvm.cttz.i32(i32, i1)")
    return [
        f"  %active.count = call i32 @llvm.ctpop.i32(i32 {bits})",
        "  %is.alone = icmp eq i32 %active.count, 1",
        f"  %first.lane = call i32 @llvm.cttz.i32(i32 {bits}, i1 false)",
        "  %lane = and i32 %first.lane, 31",
        f"  %lane.index = extractelement <{LANES} x {kind}> %index, i32 %lane",
        f"  %lane.p = getelementptr i8, ptr %base, {kind} %lane.index",
        "  br i1 %is.alone, label %alone, label %many",
    ]


def _alone_read(element: str, count: int, shown: str) -> list[str]:
    vec, size = f"<{LANES} x {element}>", BITS[element] // 8
    lines, result = [], "poison"
    for index in range(count):
        lines += [
            f"  %a.p{index} = getelementptr i8, ptr %lane.p, i64 {size * index}",
            f"  %a.v{index} = load {element}, ptr %a.p{index}, align {size}",
            f"  %a.i{index} = insertelement {vec} poison, {element} %a.v{index}, i32 0",
            f"  %a.s{index} = shufflevector {vec} %a.i{index}, {vec} poison, <{LANES} x i32> zeroinitializer",
            f"  %a.r{index} = insertvalue {shown} {result}, {vec} %a.s{index}, {index}",
        ]
        result = f"%a.r{index}"
    return [*lines, f"  ret {shown} {result}"]


def _rows_of_four(shown: str) -> list[str]:
    """Four words of each lane by one load, and turned. Where lanes are not active the row at the base is read: an active lane's access has as many bytes there.

    Indices go through memory, so that they get into registers by one instruction each.
    """
    vec, quarter = f"<{LANES} x i32>", "<4 x i32>"
    lines = [
        f"  %taking = select <{LANES} x i1> %mask, {vec} %index, {vec} zeroinitializer",
        f"  %places = alloca {vec}, align 64",
        f"  store volatile {vec} %taking, ptr %places, align 64",
    ]
    for lane in range(LANES):
        lines += [
            f"  %q.a{lane} = getelementptr i32, ptr %places, i64 {lane}",
            f"  %q.i{lane} = load volatile i32, ptr %q.a{lane}, align 4",
            f"  %q.p{lane} = getelementptr i8, ptr %base, i32 %q.i{lane}",
            f"  %q.{lane} = load {quarter}, ptr %q.p{lane}, align 4",
        ]
    # Of 16 lanes: those whose number is the same modulo four lie in one vector, so that what is turned stays within its 16 bytes.
    halves: list[list[str]] = [[] for _ in range(4)]
    for first in (0, 16):
        columns = [
            join(lines, [f"%q.{first + lane + 4 * block}" for block in range(4)], 4, "i32", f"q.c{first + lane}")
            for lane in range(4)
        ]
        wide = "<16 x i32>"
        pairs = []
        for low, high in ((0, 1), (2, 3)):
            for part in (0, 2):
                order = [block * 4 + part + item // 2 + item % 2 * 16 for block in range(4) for item in range(4)]
                name = f"%q.t{first}.{low}.{part}"
                lines.append(
                    f"  {name} = shufflevector {wide} {columns[low]}, {wide} {columns[high]}, {vector(order, 'i32')}"
                )
                pairs.append(name)
        for index in range(4):
            start, left = index % 2 * 2, index // 2
            order = [block * 4 + start + item % 2 + item // 2 * 16 for block in range(4) for item in range(4)]
            name = f"%q.w{first}.{index}"
            lines.append(
                f"  {name} = shufflevector {wide} {pairs[left]}, {wide} {pairs[left + 2]}, {vector(order, 'i32')}"
            )
            halves[index].append(name)
    result = "poison"
    for index in range(4):
        whole = join(lines, halves[index], 16, "i32", f"q.h{index}")
        lines.append(f"  %q.r{index} = insertvalue {shown} {result}, {vec} {whole}, {index}")
        result = f"%q.r{index}"
    return [*lines, f"  ret {shown} {result}"]


def inlining(e: Emitter) -> str:
    """Helpers are inlined in small kernels; in large ones compile time matters more."""
    return "noinline" if e.kernel.large else "alwaysinline"


def gather(e: Emitter, element: str, pointers: str, mask: str, name: str) -> list[str]:
    """Text that sets %<name> to the elements at a vector of pointers.

    Bytes and half-words are cut out of the aligned words that hold them: hosts gather words only.
    """
    carrier = "i32" if element in ("i8", "i16") else element
    vec = f"<{LANES} x {carrier}>"
    full = f"@llvm.masked.gather.v{LANES}{carrier}.v{LANES}p0"
    e.kernel.declare(f"declare {vec} {full}(<{LANES} x ptr>, i32 immarg, <{LANES} x i1>, {vec})")
    tail = f"i32 {BITS[carrier] // 8}, <{LANES} x i1> {mask}, {vec} zeroinitializer"
    if carrier == element:
        return [f"  %{name} = call {vec} {full}(<{LANES} x ptr> {pointers}, {tail})"]
    wide = f"<{LANES} x i64>"
    return [
        f"  %{name}.a = ptrtoint <{LANES} x ptr> {pointers} to {wide}",
        f"  %{name}.w = and {wide} %{name}.a, splat (i64 -4)",
        f"  %{name}.p = inttoptr {wide} %{name}.w to <{LANES} x ptr>",
        f"  %{name}.g = call {vec} {full}(<{LANES} x ptr> %{name}.p, {tail})",
        f"  %{name}.l = trunc {wide} %{name}.a to {vec}",
        f"  %{name}.b = and {vec} %{name}.l, splat (i32 3)",
        f"  %{name}.s = shl {vec} %{name}.b, splat (i32 3)",
        f"  %{name}.r = lshr {vec} %{name}.g, %{name}.s",
        f"  %{name} = trunc {vec} %{name}.r to <{LANES} x {element}>",
    ]


def gather_at(e: Emitter, element: str, base: str, index: str, offset: int, mask: str, name: str) -> list[str]:
    """The same at a base pointer and per-lane indices; `index` is "name, type". Where indices have 32 bits, hosts gather twice as many at once."""
    register, kind = index.split(", ")
    wide = f"<{LANES} x {kind}>"
    lines = [f"  %{name}.o = getelementptr i8, ptr {base}, i64 {offset}"]
    if element not in ("i8", "i16") or kind == "i64":
        lines.append(f"  %{name}.x = getelementptr i8, ptr %{name}.o, {wide} {register}")
        return lines + gather(e, element, f"%{name}.x", mask, name)
    # Shared memory starts at a word, so words can be told by the index.
    lines += [
        f"  %{name}.i = add {wide} {register}, splat (i32 {offset})",
        f"  %{name}.u = and {wide} %{name}.i, splat (i32 -4)",
        f"  %{name}.x = getelementptr i8, ptr {base}, {wide} %{name}.u",
        *gather(e, "i32", f"%{name}.x", mask, f"{name}.g"),
        f"  %{name}.b = and {wide} %{name}.i, splat (i32 3)",
        f"  %{name}.s = shl {wide} %{name}.b, splat (i32 3)",
        f"  %{name}.r = lshr {wide} %{name}.g, %{name}.s",
        f"  %{name} = trunc {wide} %{name}.r to <{LANES} x {element}>",
    ]
    return lines


def _contiguous_read(e: Emitter, row: int, element: str, count: int, shown: str, kind: str) -> list[str]:
    """Row by row: one masked load of row * count elements, then the elements are picked apart."""
    wide, size = row * count, BITS[element] // 8
    intrinsic = f"@llvm.masked.load.v{wide}{element}.p0"
    e.kernel.declare(f"declare <{wide} x {element}> {intrinsic}(ptr, i32 immarg, <{wide} x i1>, <{wide} x {element}>)")
    lines = []
    parts: list[str] = []
    for number in range(LANES // row):
        spread = vector([number * row + position // count for position in range(wide)], "i32")
        lines += [
            f"  %first{number} = extractelement <{LANES} x {kind}> %index, i32 {number * row}",
            f"  %start{number} = getelementptr i8, ptr %base, {kind} %first{number}",
            f"  %part{number} = shufflevector <{LANES} x i1> %mask, <{LANES} x i1> poison, {spread}",
            f"  %load{number} = call <{wide} x {element}> {intrinsic}(ptr %start{number}, i32 {size}, <{wide} x i1> %part{number}, "
            f"<{wide} x {element}> zeroinitializer)",
        ]
        parts.append(f"%load{number}")
    result = "poison"
    for index in range(count):
        picked = []
        for number, part in enumerate(parts):
            chosen = vector([position * count + index for position in range(row)], "i32")
            lines.append(
                f"  %pick{index}.{number} = shufflevector <{wide} x {element}> {part}, <{wide} x {element}> poison, {chosen}"
            )
            picked.append(f"%pick{index}.{number}")
        joined = join(lines, picked, row, element, f"join{index}")
        lines.append(f"  %w{index} = insertvalue {shown} {result}, <{LANES} x {element}> {joined}, {index}")
        result = f"%w{index}"
    lines.append(f"  ret {shown} {result}")
    return lines


def join(lines: list[str], parts: list[str], width: int, element: str, hint: str) -> str:
    """Concatenates equally long vectors, pairwise."""
    level = 0
    while len(parts) > 1:
        joined = []
        for number in range(0, len(parts), 2):
            indices = vector(list(range(2 * width)), "i32")
            name = f"%{hint}.{level}.{number}"
            lines.append(
                f"  {name} = shufflevector <{width} x {element}> {parts[number]}, <{width} x {element}> {parts[number + 1]}, {indices}"
            )
            joined.append(name)
        parts, width, level = joined, width * 2, level + 1
    return parts[0]


def _broadcast_read(row: int, element: str, count: int, shown: str, kind: str) -> list[str]:
    size = BITS[element] // 8
    lines = []
    for number in range(LANES // row):
        lines.append(f"  %b.index{number} = extractelement <{LANES} x {kind}> %index, i32 {number * row}")
        lines.append(f"  %b.start{number} = getelementptr i8, ptr %base, {kind} %b.index{number}")
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
        chosen = vector([lane // row for lane in range(LANES)], "i32")
        lines.append(
            f"  %b.s{index} = shufflevector <{LANES} x {element}> {current}, <{LANES} x {element}> poison, {chosen}"
        )
        lines.append(f"  %b.r{index} = insertvalue {shown} {result}, <{LANES} x {element}> %b.s{index}, {index}")
        result = f"%b.r{index}"
    lines.append(f"  ret {shown} {result}")
    return lines


def lane_loop(body: list[str], tail: list[str], kind: str) -> list[str]:
    """A loop over the set bits of %mask; the body sees %lane."""
    return [
        "entry:",
        f"  %indices = alloca [{LANES} x {kind}], align 64",
        f"  store <{LANES} x {kind}> %index, ptr %indices, align 64",
        f"  %bits = bitcast <{LANES} x i1> %mask to i32",
        "ENTRY",
        "  %empty = icmp eq i32 %bits, 0",
        "  br i1 %empty, label %done, label %loop",
        "loop:",
        "  %left = phi i32 [ %bits, %entry ], [ %next, %loop ]",
        "  %lane = call i32 @llvm.cttz.i32(i32 %left, i1 false)",
        f"  %at = getelementptr [{LANES} x {kind}], ptr %indices, i32 0, i32 %lane",
        f"  %offset = load {kind}, ptr %at",
        f"  %pointer = getelementptr i8, ptr %base, {kind} %offset",
        *body,
        "  %minus = sub i32 %left, 1",
        "  %next = and i32 %left, %minus",
        "  %more = icmp ne i32 %next, 0",
        "  br i1 %more, label %loop, label %done",
        "done:",
        *tail,
        "}",
    ]


def _ordered_read(head: str, shown: str, vec: str, element: str, count: int, kind: str) -> str:
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
    lines = lane_loop(body, [*tail, f"  ret {shown} {result}"], kind)
    at = lines.index("ENTRY")
    return "\n".join([head + " noinline {", *lines[:at], *setup, *lines[at + 1 :]])
