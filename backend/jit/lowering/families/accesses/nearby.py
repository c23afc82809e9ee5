"""Accesses of global memory at addresses that are only known per lane, where all lie in the run of pages that the site found last.

Such lanes are told apart by 32 bits, their distance from the run's start (runs are shorter than 2 GiB, accesses.ll): half the vectors, and hosts gather
and scatter twice as many at once. Where a lane's address lies elsewhere, a function out of the way checks the pages, which points the latch at the new run, and
makes the access with whole addresses.

`place` leaves the branch to that function open; `read` and `write` close it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from farlane.backend.jit.lowering.families.accesses import addresses, lanewise, lanewise_stores, limits, patterned, rows
from farlane.backend.jit.lowering.families.accesses.addresses import Far, Place
from farlane.backend.jit.lowering.ir import BITS, Val
from farlane.backend.jit.ptx.model import LANES

if TYPE_CHECKING:
    from farlane.backend.jit.lowering.emitter import Emitter
    from farlane.backend.jit.ptx.model import Instruction

_ADDRESSES = f"<{LANES} x i64> %index"
_LANES = f"<{LANES} x i1> %mask"
_CHECK = f"  call void @farlane_miss(ptr %warp, {_ADDRESSES}, i32 %bad, ptr %latch, i32 %shape, i32 %line)"


def place(e: Emitter, operand: object, space: str, element: str, count: int, write: bool) -> Place:
    """Where a plain access goes, as addresses.place has it, or a place that has yet to be closed."""
    options = e.kernel.options
    size = count * BITS[element] // 8
    if (
        e.placed is not None
        or space not in ("global", "const", "shared")
        or options.light
        or options.checks
        or options.touches
        or options.untranslated
        or addresses.affine_operand(e, operand, space, size) is not None
    ):
        return addresses.place(e, operand, space, size, write)
    if (patterned_place := patterned.place(e, operand, space, element, count, write)) is not None:
        return patterned_place
    if space == "shared":
        return addresses.place(e, operand, space, size, write)
    named, address = addresses.effective(e, operand, space)
    if not address.vec or named not in ("global", "const"):
        return addresses.place_at(e, named, address, size, write)
    return _compared(e, address, limits.shape_of(size, write))


def place_row(e: Emitter, group: list[Instruction]) -> Place | None:
    """Where loads go that read words beside each other (neighbours.py). A run of pages has to hold all of a lane's."""
    _, address = addresses.effective(e, group[0].sources[0], "global")
    return _compared(e, address, limits.shape_of(4, False) | len(group) - 1 << 16) if address.vec else None


def _compared(e: Emitter, address: Val, shape: int) -> Place:
    b = e.body
    found = limits.compare_latch(e, address, shape)
    b.block(found.hit)
    base = b.cast("inttoptr", found.low, "ptr").name
    far = Far(found.miss, found.bad, found.latch, shape)
    return Place(base, address, narrow=b.cast("trunc", found.offset, "i32"), far=far)


def read(e: Emitter, place: Place, element: str, count: int, lines: list[int] | None = None) -> list[Val]:
    """`lines`: of the loads that each read one of the elements, where it is several."""
    b = e.body
    assert place.narrow is not None
    mask = _mask(e)
    shown = f"{{ {', '.join([f'<{LANES} x {element}>'] * count)} }}"
    if e.contiguous:
        nears = [rows.masked_read(e, place.base, place.narrow, element)]
    else:
        helper = lanewise.reader(e, element, count, False, "i32")
        count_at = lanewise.counting(e)
        near = b.op(f"call {shown} @{helper}(ptr {place.base}, {place.narrow}, {mask}{count_at})", element, True)
        nears = [b.op(f"extractvalue {shown} {near.name}, {index}", element, True) for index in range(count)]
    near_end, done = _elsewhere(e, place)
    numbers = "".join([f", i32 {line}" for line in lines or ()])
    with e.reporting():
        order = tuple(sorted(range(count), key=lines.__getitem__)) if lines else ()
        reader = _far_reader(e, element, count, order)
        far = b.op(f"call {shown} @{reader}({_arguments(e, place)}, {mask}{numbers})", element, True)
    fars = [b.op(f"extractvalue {shown} {far.name}, {index}", element, True) for index in range(count)]
    far_end = b.label
    b.branch(done)
    b.block(done)
    kind = f"<{LANES} x {element}>"
    return [
        b.op(f"phi {kind} [ {one.name}, %{near_end} ], [ {other.name}, %{far_end} ]", element, True)
        for one, other in zip(nears, fars, strict=True)
    ]


def write(e: Emitter, place: Place, element: str, values: list[Val]) -> None:
    b = e.body
    mask = _mask(e)
    assert place.narrow is not None
    if e.contiguous:
        rows.masked_write(e, place.base, place.narrow, values[0])
    else:
        helper = lanewise_stores.writer(e, element, len(values), False, "i32")
        b.line(f"call void @{helper}(ptr {place.base}, {place.narrow}, {mask}, {_spread(e, values)})")
    _, done = _elsewhere(e, place)
    with e.reporting():
        writer = _far_writer(e, element, len(values))
        b.line(f"call void @{writer}({_arguments(e, place)}, {mask}, {_spread(e, values)})")
    b.branch(done)
    b.block(done)


def _spread(e: Emitter, values: list[Val]) -> str:
    return ", ".join([str(e.body.splat(value)) for value in values])


def _mask(e: Emitter) -> Val:
    return e.mask or Val("splat (i1 true)", "i1", True, True)


def _elsewhere(e: Emitter, place: Place) -> tuple[str, str]:
    """From the end of what is done nearby to the start of the other way: the block left, and where both meet."""
    b = e.body
    assert place.far is not None
    end, done = b.label, b.new_label("placed")
    b.branch(done)
    b.block(place.far.label)
    return end, done


def _arguments(e: Emitter, place: Place) -> str:
    far = place.far
    assert far is not None
    return f"ptr %warp, {place.index}, {far.bad}, ptr {far.latch}, i32 {far.shape}, i32 {e.line}"


def _head(result: str, name: str, more: str = "") -> str:
    parameters = f"ptr %warp, {_ADDRESSES}, i32 %bad, ptr %latch, i32 %shape, i32 %line, {_LANES}{more}"
    return f"define internal {result} @{name}({parameters}) cold noinline {{"


def _far_reader(e: Emitter, element: str, count: int, order: tuple[int, ...]) -> str:
    """`order`: of elements that are one load's each, with a line of its own, as the program makes them."""
    name = "_".join(["farlane_far_read", element, str(count), *map(str, order)])
    if name in e.kernel.helpers:
        return name
    vec = f"<{LANES} x {element}>"
    shown = f"{{ {', '.join([vec] * count)} }}"
    more = "".join([f", i32 %line{index}" for index in range(count)]) if order else ""
    lines, result = [_head(shown, name, more), *_row_checks(element, order), _CHECK], "poison"
    for index in range(count):
        offset = BITS[element] // 8 * index
        lines += lanewise.gather_at(e, element, "null", "%index, i64", offset, "%mask", f"g{index}")
        lines.append(f"  %r{index} = insertvalue {shown} {result}, {vec} %g{index}, {index}")
        result = f"%r{index}"
    e.kernel.helpers[name] = "\n".join([*lines, f"  ret {shown} {result}", "}"])
    return name


def _row_checks(element: str, order: tuple[int, ...]) -> list[str]:
    """Of all elements by themselves. The check of the first one that follows leaves the latch with what holds for whole rows."""
    lines = ["  %one = and i32 %shape, 65535"] if order else []
    for index in order:
        offset = BITS[element] // 8 * index
        lines.append(f"  %at{index} = add <{LANES} x i64> %index, splat (i64 {offset})")
        arguments = f"<{LANES} x i64> %at{index}, i32 %bad, ptr %latch, i32 %one, i32 %line{index}"
        lines.append(f"  call void @farlane_miss(ptr %warp, {arguments})")
    return lines


def _far_writer(e: Emitter, element: str, count: int) -> str:
    name = f"farlane_far_write_{element}_{count}"
    if name in e.kernel.helpers:
        return name
    values = "".join(f", <{LANES} x {element}> %v{index}" for index in range(count))
    body = lanewise_stores.scatter(e, element, [f"%v{index}" for index in range(count)], "i64")
    lines = [_head("void", name, values), _CHECK, "  %base = getelementptr i8, ptr null, i64 0", *body, "  ret void"]
    e.kernel.helpers[name] = "\n".join([*lines, "}"])
    return name
