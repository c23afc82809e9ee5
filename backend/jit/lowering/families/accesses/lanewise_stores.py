"""Stores at addresses that are only known per lane: helper functions in IR, one per element type and count."""

from __future__ import annotations

from typing import TYPE_CHECKING

from farlane.backend.jit.lowering.families.accesses.lanewise import (
    alone,
    analyse,
    inlining,
    join,
    lane_loop,
    vector,
)
from farlane.backend.jit.lowering.ir import BITS
from farlane.backend.jit.ptx.model import LANES

if TYPE_CHECKING:
    from farlane.backend.jit.lowering.emitter import Emitter


def writer(e: Emitter, element: str, count: int, ordered: bool, kind: str = "i64") -> str:
    name = f"farlane_write_{element}_{count}_{kind}{'_ordered' if ordered else ''}"
    if name in e.kernel.helpers:
        return name
    vec, size = f"<{LANES} x {element}>", BITS[element] // 8
    values = ", ".join(f"{vec} %v{index}" for index in range(count))
    head = f"define internal void @{name}(ptr %base, <{LANES} x {kind}> %index, <{LANES} x i1> %mask, {values})"
    if ordered or element == "i128":
        e.kernel.helpers[name] = _ordered_write(head, vec, element, count, kind)
        return name
    row, analysis = analyse(e, size * count, kind)
    wide = row * count
    intrinsic = f"@llvm.masked.store.v{wide}{element}.p0"
    e.kernel.declare(f"declare void {intrinsic}(<{wide} x {element}>, ptr, i32 immarg, <{wide} x i1>)")
    lines = [
        head + f" {inlining(e)} {{",
        "entry:",
        *analysis,
        "  br i1 %contiguous, label %wide, label %scattered",
        "wide:",
    ]
    for number in range(LANES // row):
        name_of_row = interleave(
            lines, number, row, count, element, [f"%v{index}" for index in range(count)], f"row{number}"
        )
        spread = vector([number * row + position // count for position in range(wide)], "i32")
        lines += [
            f"  %first{number} = extractelement <{LANES} x {kind}> %index, i32 {number * row}",
            f"  %start{number} = getelementptr i8, ptr %base, {kind} %first{number}",
            f"  %part{number} = shufflevector <{LANES} x i1> %mask, <{LANES} x i1> poison, {spread}",
            f"  call void {intrinsic}(<{wide} x {element}> {name_of_row}, ptr %start{number}, i32 {size}, <{wide} x i1> %part{number})",
        ]
    lines += ["  ret void", "scattered:", f"  %mask.bits = bitcast <{LANES} x i1> %mask to i32"]
    lines += [*alone(e, kind, "%mask.bits"), "alone:"]
    for index in range(count):
        lines += [
            f"  %a.p{index} = getelementptr i8, ptr %lane.p, i64 {size * index}",
            f"  %a.v{index} = extractelement {vec} %v{index}, i32 %lane",
            f"  store {element} %a.v{index}, ptr %a.p{index}, align {size}",
        ]
    lines += ["  ret void", "many:", *scatter(e, element, [f"%v{index}" for index in range(count)], kind)]
    lines += ["  ret void", "}"]
    e.kernel.helpers[name] = "\n".join(lines)
    return name


def scatter(e: Emitter, element: str, values: list[str], kind: str) -> list[str]:
    """Text that stores vectors of elements at %base + %index; sub-word ones lane by lane."""
    vec, size = f"<{LANES} x {element}>", BITS[element] // 8
    if element in ("i8", "i16"):
        helper = writer(e, element, len(values), True, kind)
        shown = ", ".join(f"{vec} {value}" for value in values)
        return [f"  call void @{helper}(ptr %base, <{LANES} x {kind}> %index, <{LANES} x i1> %mask, {shown})"]
    full = f"@llvm.masked.scatter.v{LANES}{element}.v{LANES}p0"
    e.kernel.declare(f"declare void {full}({vec}, <{LANES} x ptr>, i32 immarg, <{LANES} x i1>)")
    lines = []
    for index, value in enumerate(values):
        lines.append(f"  %o{index} = getelementptr i8, ptr %base, i64 {size * index}")
        lines.append(f"  %p{index} = getelementptr i8, ptr %o{index}, <{LANES} x {kind}> %index")
        lines.append(f"  call void {full}({vec} {value}, <{LANES} x ptr> %p{index}, i32 {size}, <{LANES} x i1> %mask)")
    return lines


def interleave(lines: list[str], number: int, row: int, count: int, element: str, names: list[str], prefix: str) -> str:
    """The elements of one row in memory order; returns the vector's name."""
    wide = f"<{LANES} x {element}>"
    parts = []
    for index, value in enumerate(names):
        chosen = vector([number * row + lane for lane in range(row)], "i32")
        lines.append(f"  %{prefix}.c{index} = shufflevector {wide} {value}, {wide} poison, {chosen}")
        parts.append(f"%{prefix}.c{index}")
    if count == 1:
        return parts[0]
    whole = join(lines, parts, row, element, f"{prefix}.j")
    # All of element 0, then all of element 1, ...: transpose.
    order = vector([position % count * row + position // count for position in range(row * count)], "i32")
    shown = f"<{row * count} x {element}>"
    lines.append(f"  %{prefix}.t = shufflevector {shown} {whole}, {shown} poison, {order}")
    return f"%{prefix}.t"


def _ordered_write(head: str, vec: str, element: str, count: int, kind: str) -> str:
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
    lines = lane_loop(body, ["  ret void"], kind)
    at = lines.index("ENTRY")
    return "\n".join([head + " noinline {", *lines[:at], *setup, *lines[at + 1 :]])
