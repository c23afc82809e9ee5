"""Accesses whose lanes lie at distances from each other that are known now (patterns.py, and affine addresses with gaps).

One comparison checks all lanes: the lowest address, against what the distance to the highest leaves. Elements that lie close together are read
as a whole and put in order by a constant permutation; a few are read one by one; written are whole vectors without what lies between. The rest are gathers and
scatters whose indices are constants.

Only where all lanes are active. What lies between the lowest and the highest element is at most a page long, or in one array, so it may be read as well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from farlane.backend.jit.lowering import support
from farlane.backend.jit.lowering.families.accesses import addresses, limits
from farlane.backend.jit.lowering.families.accesses.addresses import Place
from farlane.backend.jit.lowering.families.accesses.lanewise import join, vector
from farlane.backend.jit.lowering.ir import BITS, Val, integer
from farlane.backend.jit.ptx.model import LANES, Address
from farlane.backend.jit.runtime.structures import PAGE
from farlane.backend.jit.ssa.ssa import Value

if TYPE_CHECKING:
    from farlane.backend.jit.lowering.emitter import Emitter

_CHUNK = 64  # bytes of what is read or written at once
_MOST_CHUNKS = 4  # for each vector of results, where there would have to be gathers or scatters
_FEW, _SOME = 2, 8  # elements that are read one by one: rather than whole vectors, rather than by a gather
ELEMENTS = {"i32", "i64"}


def place(e: Emitter, operand: object, space: str, element: str, count: int, write: bool) -> Place:
    """The checked place of a plain access."""
    size = count * BITS[element] // 8
    if (
        e.placed is None
        and space in ("global", "const", "shared")
        and not e.kernel.options.untranslated
        and addresses.affine_operand(e, operand, space, size) is None
    ):
        found = _of_pattern(e, operand, space, element, count, write)
        if found is not None:
            return found
    return addresses.place(e, operand, space, size, write)


def _of_pattern(e: Emitter, operand: object, space: str, element: str, count: int, write: bool) -> Place | None:
    """The same, if its address has a pattern."""
    size = count * BITS[element] // 8
    if not isinstance(operand, Address) or not isinstance(operand.base, Value) or not operand.base.varying:
        return None
    if element not in ELEMENTS:
        return None
    pattern = e.pattern(operand.base)
    if pattern is None:
        return None
    lowest = min(pattern.offsets)
    apart = tuple(item - lowest for item in pattern.offsets)
    span = max(apart)
    if any(item % size for item in apart) or span + size > PAGE:
        return None
    b = e.body
    value = e.value(operand.base)
    first = b.lane(value, 0)
    at = b.bin("add", first, integer(operand.offset - apart[0], first.type))
    if first.type == "i32":
        at = b.cast("zext", at, "i64")  # where it wraps, the lowest lies outside of shared memory
    elif space == "shared":
        at = b.bin("and", at, integer(0xFFFF_FFFF, "i64"))
    shape, steps = limits.shape_of(size, write), span // size
    miss, hit = b.new_label("miss"), b.new_label("hit")
    bad, latch = limits.corners_outside(e, space, [at], steps, shape)
    b.branch_if(bad, miss, hit, unlikely=True)
    b.block(miss)
    whole = b.bin("add", value, integer(operand.offset, value.type))
    whole = b.splat(b.cast("zext", whole, "i64"))
    if space == "shared":
        whole = b.bin("and", whole, integer(0xFFFF_FFFF, "i64"))
    with e.reporting():
        limits.look_at_all(e, space, whole, latch, steps, shape)
    b.branch(hit)
    b.block(hit)
    return Place(support.shared_base(e) if space == "shared" else "null", at, apart=apart)


def read(e: Emitter, start: str, apart: tuple[int, ...], element: str, count: int) -> list[Val]:
    """`count` elements for each lane, at distances in bytes, none negative, from a pointer. They are multiples of the element's size."""
    size = BITS[element] // 8
    chunk = _CHUNK // size
    places = [[item // size + index for item in apart] for index in range(count)]
    chunks = max(places[-1]) // chunk + 1
    distinct = len(set(apart))
    if distinct > _FEW and chunks <= _MOST_CHUNKS * count:
        whole, width = _whole(e, start, element, places, chunks, chunk)
        return [_permuted(e, whole, width, element, order) for order in places]
    if distinct <= _SOME:
        return [_single(e, start, element, order) for order in places]
    return [_gathered(e, start, element, order) for order in places]


def _permuted(e: Emitter, whole: str, width: int, element: str, order: list[int]) -> Val:
    shown = f"<{width} x {element}>"
    return e.body.op(f"shufflevector {shown} {whole}, {shown} poison, {vector(order, 'i32')}", element, True)


def _whole(e: Emitter, start: str, element: str, places: list[list[int]], chunks: int, chunk: int) -> tuple[str, int]:
    """All from the lowest element to the highest as a vector, and its length."""
    b = e.body
    used = {place for order in places for place in order}
    shown, size = f"<{chunk} x {element}>", BITS[element] // 8
    parts = []
    for number in range(chunks):
        wanted = [number * chunk + item in used for item in range(chunk)]
        if not any(wanted):
            parts.append("poison")
            continue
        pointer = b.gep(start, number * _CHUNK)
        if number + 1 < chunks or wanted[-1]:
            parts.append(b.op(f"load {shown}, ptr {pointer}, align {size}", element, False).name)
            continue
        intrinsic = f"@llvm.masked.load.v{chunk}{element}.p0"
        e.kernel.declare(f"declare {shown} {intrinsic}(ptr, i32 immarg, <{chunk} x i1>, {shown})")
        mask = _mask(wanted)
        parts.append(
            b.op(f"call {shown} {intrinsic}(ptr {pointer}, i32 {size}, {mask}, {shown} poison)", element, False).name
        )
    while len(parts) & (len(parts) - 1):
        parts.append("poison")
    lines: list[str] = []
    whole = join(lines, parts, chunk, element, b.name("whole").removeprefix("%"))
    b.lines += lines
    return whole, chunk * len(parts)


def _single(e: Emitter, start: str, element: str, order: list[int]) -> Val:
    """A few elements, each for the lanes that want it."""
    b = e.body
    size, shown = BITS[element] // 8, f"<{LANES} x {element}>"
    numbers = {place: number for number, place in enumerate(sorted(set(order)))}
    current = "poison"
    for place, number in numbers.items():
        scalar = b.op(f"load {element}, ptr {b.gep(start, place * size)}, align {size}", element, False)
        current = b.op(f"insertelement {shown} {current}, {scalar}, i32 {number}", element, True).name
    return _permuted(e, current, LANES, element, [numbers[place] for place in order])


def _gathered(e: Emitter, start: str, element: str, order: list[int]) -> Val:
    """A gather of each element that is wanted, once."""
    b = e.body
    numbers = {place: number for number, place in enumerate(sorted(set(order)))}
    width = LANES if len(numbers) > LANES // 2 else LANES // 2
    indices = [*numbers, *[0] * (width - len(numbers))]
    shown = f"<{width} x {element}>"
    intrinsic = f"@llvm.masked.gather.v{width}{element}.v{width}p0"
    e.kernel.declare(f"declare {shown} {intrinsic}(<{width} x ptr>, i32 immarg, <{width} x i1>, {shown})")
    size = BITS[element] // 8
    pointers = b.name("lanes")
    b.line(f"{pointers} = getelementptr {element}, ptr {start}, {vector(indices, 'i32')}")
    arguments = f"<{width} x ptr> {pointers}, i32 {size}, {_mask([index < len(numbers) for index in range(width)])}"
    found = b.op(f"call {shown} {intrinsic}({arguments}, {shown} zeroinitializer)", element, False)
    return _permuted(e, found.name, width, element, [numbers[place] for place in order])


def write(e: Emitter, start: str, apart: tuple[int, ...], element: str, values: list[Val]) -> None:
    """The same for stores. Where lanes share a place, the last one's value stays."""
    b = e.body
    count, size = len(values), BITS[element] // 8
    chunk = _CHUNK // size
    names = [b.splat(value).name for value in values]
    sources = {apart[lane] // size + index: (index, lane) for lane in range(LANES) for index in range(count)}
    chunks = max(sources) // chunk + 1
    if chunks > _MOST_CHUNKS * count:
        for index, name in enumerate(names):
            _scattered(e, start, [item // size + index for item in apart], element, name)
        return
    while len(names) & (len(names) - 1):
        names.append("poison")
    lines: list[str] = []
    whole = join(lines, names, LANES, element, b.name("values").removeprefix("%"))
    b.lines += lines
    wide = f"<{len(names) * LANES} x {element}>"
    shown = f"<{chunk} x {element}>"
    for number in range(chunks):
        wanted = [sources.get(number * chunk + item) for item in range(chunk)]
        if wanted == [None] * chunk:
            continue
        order = ", ".join("i32 poison" if item is None else f"i32 {item[0] * LANES + item[1]}" for item in wanted)
        part = b.op(f"shufflevector {wide} {whole}, {wide} poison, <{chunk} x i32> <{order}>", element, False).name
        pointer = b.gep(start, number * _CHUNK)
        if None not in wanted:
            b.line(f"store {shown} {part}, ptr {pointer}, align {size}")
            continue
        intrinsic = f"@llvm.masked.store.v{chunk}{element}.p0"
        e.kernel.declare(f"declare void {intrinsic}({shown}, ptr, i32 immarg, <{chunk} x i1>)")
        mask = _mask([item is not None for item in wanted])
        b.line(f"call void {intrinsic}({shown} {part}, ptr {pointer}, i32 {size}, {mask})")


def _scattered(e: Emitter, start: str, order: list[int], element: str, value: str) -> None:
    b = e.body
    shown = f"<{LANES} x {element}>"
    intrinsic = f"@llvm.masked.scatter.v{LANES}{element}.v{LANES}p0"
    e.kernel.declare(f"declare void {intrinsic}({shown}, <{LANES} x ptr>, i32 immarg, <{LANES} x i1>)")
    pointers = b.name("lanes")
    b.line(f"{pointers} = getelementptr {element}, ptr {start}, {vector(order, 'i32')}")
    tail = f"<{LANES} x ptr> {pointers}, i32 {BITS[element] // 8}, <{LANES} x i1> splat (i1 true)"
    b.line(f"call void {intrinsic}({shown} {value}, {tail})")


def _mask(wanted: list[bool]) -> str:
    return f"<{len(wanted)} x i1> <{', '.join(f'i1 {str(item).lower()}' for item in wanted)}>"
