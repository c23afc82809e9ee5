"""Surfaces: suld.b, sust.b. Their objects and operands: texels.py.

The first place is a byte's; what is outside of the surface is dropped and read as zero, clamped, or ends the launch, as the instruction says.

Source: PTX ISA, "Surface Instructions".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from farlane.backend.jit.lowering import support
from farlane.backend.jit.lowering.families.accesses.addresses import place_at
from farlane.backend.jit.lowering.families.accesses.memory import read_memory, write_memory
from farlane.backend.jit.lowering.families.base import check, handles
from farlane.backend.jit.lowering.families.images.texels import GEOMETRY, TEXEL, Descriptor, conjunction, operands
from farlane.backend.jit.lowering.ir import BITS, Val, integer, widen
from farlane.backend.jit.ptx.model import Instruction, Vector
from farlane.backend.jit.runtime.structures import FaultKind

if TYPE_CHECKING:
    from farlane.backend.jit.lowering.emitter import Emitter

_SURFACE_TYPES = {"b8": "i8", "b16": "i16", "b32": "i32", "b64": "i64"}


def _surface(e: Emitter, i: Instruction) -> tuple[Descriptor, Val, Val, str, int, str]:
    """The descriptor, the address of the first element, whether it is inside, the element's type, their number, the bounds mode."""
    geometry = next((item for item in i.modifiers if item in GEOMETRY), "")
    check(
        e,
        i,
        {*GEOMETRY, *_SURFACE_TYPES, "b", "v2", "v4", "trap", "clamp", "zero", "ca", "cg", "cs", "cv", "wb", "wt"},
    )
    kind = next((item for item in i.modifiers if item in _SURFACE_TYPES), "")
    bounds = i.modifiers[-1]
    if not kind or "b" not in i.modifiers or bounds not in ("trap", "clamp", "zero"):
        raise e.fail(f"unsupported surface form {i.text}")
    count = next((int(item[1]) for item in i.modifiers if item in ("v2", "v4")), 1)
    element = _SURFACE_TYPES[kind]
    handle, coordinates, layer = operands(e, i, geometry)
    b = e.body
    d = Descriptor(e, handle)
    bytes_ = count * BITS[element] // 8
    width = b.bin("mul", d.sizes[0], b.bin("mul", d.element, d.channels))
    lasts = [b.bin("sub", width, integer(bytes_, "i32"))]
    lasts += [b.bin("sub", size, integer(1, "i32")) for size in d.sizes[1:]]
    places, insides = [], []
    for number, item in enumerate(coordinates):
        place = e.read(item, "i32")
        zero = integer(0, "i32")
        clamped = b.call("smin", "i32", [b.call("smax", "i32", [place, zero]), lasts[number]])
        insides.append(b.icmp("eq", place, clamped))
        places.append(clamped)
    level = None
    if layer is not None:
        place = e.read(layer, "i32")
        level = b.call("umin", "i32", [place, lasts[2]])
        insides.append(b.icmp("eq", place, level))
    inside = conjunction(e, insides)
    if bounds == "trap":
        outside = b.invert(inside)
        if outside.vec:
            bits = b.bits(outside)
            bits = bits if e.mask is None else b.bin("and", bits, e.mask_bits)
            outside = b.icmp("ne", bits, integer(0, "i32"))
        support.fault_if(e, outside, int(FaultKind.ILLEGAL_ADDRESS))
    return d, d.address(places, level), inside, element, count, bounds


@handles("suld")
def surface_load(e: Emitter, i: Instruction) -> None:
    _, address, inside, element, count, bounds = _surface(e, i)
    if len(i.destinations) != count:
        raise e.fail(f"malformed {i.text}")
    b = e.body
    for number, destination in enumerate(i.destinations):
        at = b.bin("add", address, integer(number * BITS[element] // 8, "i64"))
        value = read_memory(e, place_at(e, "global", at, BITS[element] // 8, False, TEXEL), element, 1)[0]
        if bounds == "zero":
            value = b.select(inside, value, integer(0, element))
        if destination is not None:
            e.define(destination, widen(b, value, destination.type, False))


@handles("sust")
def surface_store(e: Emitter, i: Instruction) -> None:
    _, address, inside, element, count, bounds = _surface(e, i)
    source = i.sources[1]
    items = list(source.items) if isinstance(source, Vector) else [source]
    if len(items) != count or None in items:
        raise e.fail(f"malformed {i.text}")
    b = e.body
    values = [b.resize(e.read(item, _carrier(item, element)), element) for item in items]
    kept = (e.mask, e.mask_bits)
    address = b.splat(address)
    if bounds == "zero":
        inside = b.splat(inside)
        e.mask = inside if e.mask is None else b.bin("and", inside, e.mask)
        e.mask_bits = b.bits(e.mask)
    for number, value in enumerate(values):
        at = b.bin("add", address, integer(number * BITS[element] // 8, "i64"))
        write_memory(e, place_at(e, "global", at, BITS[element] // 8, True), element, [b.splat(value)])
    e.mask, e.mask_bits = kept


def _carrier(item: object, element: str) -> str:
    """Bytes travel in registers of 16 bits."""
    return "i16" if element == "i8" else element
