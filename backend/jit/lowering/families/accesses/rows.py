"""Accesses at affine addresses, in the full version of a kernel: row by row, contiguous, equal or strided, known at compile time.

The place was checked by addresses.py. A row is what the lanes that share threadIdx.y and z access.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from farlane.backend.jit.analysis.strides import row_length
from farlane.backend.jit.lowering import affine
from farlane.backend.jit.lowering.families.accesses import patterned
from farlane.backend.jit.lowering.families.accesses.addresses import Place
from farlane.backend.jit.lowering.families.accesses.lanewise import gather, join, vector
from farlane.backend.jit.lowering.families.accesses.lanewise_stores import interleave, writer
from farlane.backend.jit.lowering.ir import BITS, Val
from farlane.backend.jit.ptx.model import LANES

if TYPE_CHECKING:
    from farlane.backend.jit.lowering.emitter import Emitter


def _starts(e: Emitter, place: Place, form: affine.Affine) -> list[str]:
    """A pointer to each row's first element; one pointer when all rows are the same."""
    b = e.body
    bases = affine.row_bases(e, form) if form.step is not None else [form.base]
    return [b.gep(place.base, base) for base in bases]


def read(e: Emitter, place: Place, form: affine.Affine, element: str, count: int) -> list[Val]:
    b = e.body
    row = row_length(e.kernel.block)
    size = BITS[element] // 8
    if form.stride == 0:
        return [_broadcast(e, _starts(e, place, form), element, size * index) for index in range(count)]
    if form.stride != size * count:
        if (known := _known(e, place, form, element)) is not None:
            return patterned.read(e, *known, element, count)
        return [_gather(e, place, form, element, size * index) for index in range(count)]
    wide = row * count
    loads = [
        b.op(f"load <{wide} x {element}>, ptr {start}, align {size}", element, False).name
        for start in _starts(e, place, form)
    ]
    results = []
    for index in range(count):
        parts = loads
        if count > 1:
            chosen = vector([position * count + index for position in range(row)], "i32")
            shown = f"<{wide} x {element}>"
            parts = [
                b.op(f"shufflevector {shown} {part}, {shown} poison, {chosen}", element, False).name for part in loads
            ]
        parts = parts * (LANES // row // len(parts))
        lines: list[str] = []
        name = join(lines, parts, row, element, b.name("join").removeprefix("%"))
        b.lines += lines
        results.append(Val(name, element, True))
    return results


def _known(e: Emitter, place: Place, form: affine.Affine, element: str) -> tuple[str, tuple[int, ...]] | None:
    """A pointer to the lowest element and all lanes' distances from it, where these are known now: in a single row, or when all are the same."""
    row = row_length(e.kernel.block)
    if element not in patterned.ELEMENTS or (form.step is not None and row < LANES):
        return None
    lowest = min(0, form.stride * (row - 1))
    start = e.body.gep(_starts(e, place, form)[0], lowest)
    return start, tuple(lane % row * form.stride - lowest for lane in range(LANES))


def _broadcast(e: Emitter, starts: list[str], element: str, offset: int) -> Val:
    b = e.body
    row = row_length(e.kernel.block)
    size = BITS[element] // 8
    scalars = [b.op(f"load {element}, ptr {b.gep(start, offset)}, align {size}", element, False) for start in starts]
    if len(scalars) == 1:
        return b.splat(scalars[0])
    shown = f"<{LANES} x {element}>"
    current = "poison"
    for number, scalar in enumerate(scalars):
        current = b.op(f"insertelement {shown} {current}, {scalar}, i32 {number}", element, True).name
    order = vector([lane // row for lane in range(LANES)], "i32")
    return b.op(f"shufflevector {shown} {current}, {shown} poison, {order}", element, True)


def _pointers(e: Emitter, place: Place, form: affine.Affine, offset: int) -> Val:
    b = e.body
    index = affine.materialise(e, form)
    pointers = b.op(f"getelementptr i8, ptr {place.base}, {index}", "ptr", True)
    return b.op(f"getelementptr i8, {pointers}, i64 {offset}", "ptr", True) if offset else pointers


def _gather(e: Emitter, place: Place, form: affine.Affine, element: str, offset: int) -> Val:
    b = e.body
    pointers = _pointers(e, place, form, offset)
    name = b.name("gather").removeprefix("%")
    b.lines += gather(e, element, pointers.name, "splat (i1 true)", name)
    return Val(f"%{name}", element, True)


def write(e: Emitter, place: Place, form: affine.Affine, element: str, values: list[Val]) -> None:
    b = e.body
    row = row_length(e.kernel.block)
    count, size = len(values), BITS[element] // 8
    values = [b.splat(value) for value in values]
    if form.stride == size * count and (form.step is not None or row == LANES):
        names = [value.name for value in values]
        stores = []
        for number, start in enumerate(_starts(e, place, form)):
            lines: list[str] = []
            prefix = b.name("row").removeprefix("%")
            name = interleave(lines, number, row, count, element, names, prefix)
            b.lines += lines
            stores.append(f"store <{row * count} x {element}> {name}, ptr {start}, align ")
        _write(e, stores, size, place.streamed)
        return
    if (known := _known(e, place, form, element)) is not None:
        patterned.write(e, *known, element, values)
        return
    shown = ", ".join(str(value) for value in values)
    index = affine.materialise(e, form)
    helper = writer(e, element, count, False)
    b.line(f"call void @{helper}(ptr {place.base}, {index}, <{LANES} x i1> splat (i1 true), {shown})")


def _write(e: Emitter, stores: list[str], align: int, streamed: Val | None) -> None:
    b = e.body
    if streamed is None:
        b.lines += [f"  {store}{align}" for store in stores]
        return
    past, through, done = b.new_label("past"), b.new_label("through"), b.new_label("written")
    b.branch_if(streamed, past, through)
    b.block(past)
    for store in stores:
        b.line(f"{store}64, !nontemporal !3")
    b.branch(done)
    b.block(through)
    for store in stores:
        b.line(f"{store}{align}")
    b.branch(done)
    b.block(done)


def _first(e: Emitter, base: str, index: Val) -> Val:
    """Where the first lane's element lies, or would lie if it took part."""
    b = e.body
    return b.op(f"getelementptr i8, ptr {base}, {b.lane(index, 0)}", "ptr", False)


def masked_read(e: Emitter, base: str, index: Val, element: str) -> Val:
    """The active lanes' elements, which are neighbours."""
    assert e.mask is not None
    shown = f"<{LANES} x {element}>"
    name = f"@llvm.masked.load.v{LANES}{element}.p0"
    e.kernel.declare(f"declare {shown} {name}(ptr, i32 immarg, <{LANES} x i1>, {shown})")
    tail = f"i32 {BITS[element] // 8}, {e.mask}, {shown} zeroinitializer"
    return e.body.op(f"call {shown} {name}({_first(e, base, index)}, {tail})", element, True)


def masked_write(e: Emitter, base: str, index: Val, value: Val) -> None:
    assert e.mask is not None
    value = e.body.splat(value)
    shown = f"<{LANES} x {value.type}>"
    name = f"@llvm.masked.store.v{LANES}{value.type}.p0"
    e.kernel.declare(f"declare void {name}({shown}, ptr, i32 immarg, <{LANES} x i1>)")
    e.body.line(f"call void {name}({value}, {_first(e, base, index)}, i32 {BITS[value.type] // 8}, {e.mask})")
