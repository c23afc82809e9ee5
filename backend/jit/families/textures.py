"""Textures and surfaces: tex, suld.b, sust.b.

A texture or surface object is the device address of a descriptor of 128 bytes, which the guest writes (`frontend/shim/crates/core/src/texture`):

    offset  0 u64 address      24 u64 pitch       40 u32 bytes of a channel     56 u32[3] address modes: 0 wrap 1 clamp 2 mirror 3 border
            8 u32 width        32 u64 slice       44 u32 channels (1, 2, 4)     68 u32 coordinates are normalized
           12 u32 height                          48 u32 0 int 1 unsigned 2 float  72 u32 integers are read as [0, 1] or [-1, 1]
           16 u32 depth, or layers                52 u32 linear filter          76 u32 MAGIC

What the descriptor says is not trusted: it, and every texel, is accessed as global memory is, with the same checks. Formats, filters and modes are
known at run time only, so the code holds all of them and selects. Linear filtering rounds its weights to 8 bits, as devices do.
Not there: cube maps, mipmaps (levels are ignored where there is one, which the guest ensures), gradients, gathers of four texels, queries.

Source: PTX ISA, "Texture Instructions", "Surface Instructions"; CUDA programming guide, "Texture Fetching".
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import TYPE_CHECKING

from farlane.backend.jit import support
from farlane.backend.jit.abi import FaultKind
from farlane.backend.jit.checks import MEMORY, Access
from farlane.backend.jit.families.addresses import Place, place_at
from farlane.backend.jit.families.base import check, handles
from farlane.backend.jit.families.memory import read_memory, write_memory
from farlane.backend.jit.ir import BITS, LANES, Val, integer, real
from farlane.backend.jit.model import Instruction, Vector
from farlane.backend.jit.types import widen

if TYPE_CHECKING:
    from farlane.backend.jit.codegen import FunctionEmitter

MAGIC = 0x7E8F1A5E
_TEXEL = Access(texel=True)
_DESCRIPTOR_BYTES = 128
WRAP, CLAMP, MIRROR, BORDER = range(4)
_GEOMETRY = {"1d": (1, False), "2d": (2, False), "3d": (3, False), "a1d": (1, True), "a2d": (2, True)}
_SURFACE_TYPES = {"b8": "i8", "b16": "i16", "b32": "i32", "b64": "i64"}


class Descriptor:
    """The fields of a descriptor, read once for an instruction."""

    def __init__(self, e: FunctionEmitter, handle: Val) -> None:
        self._e = e
        self._place = place_at(e, "global", handle, _DESCRIPTOR_BYTES, False)
        self.base = self.field(0, "i64")
        sizes = [self.field(offset) for offset in (8, 12, 16)]
        one = integer(1, "i32")
        self.sizes = [e.body.call("umax", "i32", [size, one]) for size in sizes]
        self.pitch, self.slice = self.field(24, "i64"), self.field(32, "i64")
        self.element, self.channels, self.kind = self.field(40), self.field(44), self.field(48)
        self._require(e.body.icmp("eq", self.field(76), integer(MAGIC, "i32")))

    def field(self, offset: int, kind: str = "i32") -> Val:
        b = self._e.body
        index = b.bin("add", self._place.index, integer(offset, "i64"))
        return read_memory(self._e, Place(self._place.base, index), kind, 1)[0]

    def _require(self, good: Val) -> None:
        """What is no descriptor ends the launch."""
        e, b = self._e, self._e.body
        bad = b.invert(good)
        if bad.vec:
            bits = b.bits(bad)
            bits = bits if e.mask is None else b.bin("and", bits, e.mask_bits)
            bad = b.icmp("ne", bits, integer(0, "i32"))
        support.fault_if(e, bad, int(FaultKind.ILLEGAL_ADDRESS))

    def address(self, places: list[Val], layer: Val | None) -> Val:
        """Of a texel (or, with a first place in bytes, of a surface's byte)."""
        b = self._e.body
        address = b.bin("add", self.base, b.cast("zext", places[0], "i64"))
        if len(places) > 1:
            address = b.bin("add", address, b.bin("mul", b.cast("zext", places[1], "i64"), self.pitch))
        depth = layer if layer is not None else places[2] if len(places) > 2 else None
        if depth is not None:
            address = b.bin("add", address, b.bin("mul", b.cast("zext", depth, "i64"), self.slice))
        return address


def _operands(e: FunctionEmitter, i: Instruction, geometry: str) -> tuple[Val, list[object], object | None]:
    """The object's handle, the coordinates, and the layer."""
    operand = i.sources[0]
    if not isinstance(operand, Vector) or geometry not in _GEOMETRY:
        raise e.fail(f"unsupported texture or surface form {i.text}")
    dimensions, layered = _GEOMETRY[geometry]
    items = list(operand.items)
    layer = items.pop(1) if layered else None
    if len(items) < 1 + dimensions or None in items:
        raise e.fail(f"malformed {i.text}")
    return e.read(items[0], "i64"), items[1 : 1 + dimensions], layer


def _all(e: FunctionEmitter, values: list[Val]) -> Val:
    result = values[0]
    for value in values[1:]:
        result = e.body.bin("and", result, value)
    return result


# Textures ------------------------------------------------------------------------------------------------------------
def _wrapped(e: FunctionEmitter, place: Val, size: Val, mode: Val) -> tuple[Val, Val]:
    """The texel's place by the address mode, and whether there is one."""
    b = e.body
    zero, one = integer(0, "i32"), integer(1, "i32")

    def modulo(period: Val) -> Val:
        rest = b.bin("srem", place, period)
        return b.select(b.icmp("slt", rest, zero), b.bin("add", rest, period), rest)

    last = b.bin("sub", size, one)
    clamped = b.call("smin", "i32", [b.call("smax", "i32", [place, zero]), last])
    twice = b.bin("shl", size, one)
    forth = modulo(twice)
    mirrored = b.select(b.icmp("slt", forth, size), forth, b.bin("sub", b.bin("sub", twice, one), forth))
    result = b.select(b.icmp("eq", mode, integer(WRAP, "i32")), modulo(size), clamped)
    result = b.select(b.icmp("eq", mode, integer(MIRROR, "i32")), mirrored, result)
    inside = b.bin("or", b.icmp("eq", place, clamped), b.icmp("ne", mode, integer(BORDER, "i32")))
    return result, inside


def _texel(e: FunctionEmitter, d: Descriptor, address: Val, inside: Val, floats: bool) -> list[Val]:
    """The four channels of a texel, as f32 or 32-bit integers; zero outside."""
    b = e.body
    bits = b.bin("shl", d.element, integer(3, "i32"))
    spare = b.bin("sub", integer(32, "i32"), bits)
    results = []
    for channel in range(4):
        there = b.bin("and", inside, b.icmp("ugt", d.channels, integer(channel, "i32")))
        offset = b.cast("zext", b.bin("mul", d.element, integer(channel, "i32")), "i64")
        place = b.select(there, b.bin("add", address, offset), d.base)
        aligned = b.bin("and", place, integer(-4, "i64"))
        if e.kernel.options.checks & MEMORY:  # the word that holds a texel may reach over the end of its allocation
            place_at(e, "global", place, 1, False, _TEXEL)
            word = Place("null", aligned)
        else:
            word = place_at(e, "global", aligned, 4, False, _TEXEL)
        loaded = read_memory(e, word, "i32", 1)[0]
        shift = b.bin("shl", b.cast("trunc", b.bin("and", place, integer(3, "i64")), "i32"), integer(3, "i32"))
        top = b.bin("shl", b.bin("lshr", loaded, shift), spare)
        unsigned, signed = b.bin("lshr", top, spare), b.bin("ashr", top, spare)
        value = b.select(b.icmp("eq", d.kind, integer(0, "i32")), signed, unsigned)
        absent = integer(1 if channel == 3 else 0, "i32")
        if floats:
            value = _as_float(e, d, value, unsigned, signed, spare)
            absent = real(float(channel == 3), "float")
        else:
            absent = integer(int(channel == 3), "i32")
        zero = real(0.0, "float") if floats else integer(0, "i32")
        value = b.select(there, value, zero)
        missing = b.bin("and", inside, b.icmp("ule", d.channels, integer(channel, "i32")))
        results.append(b.select(missing, absent, value))
    return results


def _as_float(e: FunctionEmitter, d: Descriptor, raw: Val, unsigned: Val, signed: Val, spare: Val) -> Val:
    b = e.body
    half = b.cast("fpext", b.bitcast(b.cast("trunc", unsigned, "i16"), "half"), "float")
    full = b.bitcast(unsigned, "float")
    number = b.select(b.icmp("eq", d.element, integer(2, "i32")), half, full)
    most = b.bin("lshr", integer(-1, "i32"), spare)
    upper = b.cast("uitofp", b.bin("lshr", most, integer(1, "i32")), "float")
    below = b.bin("fdiv", b.cast("sitofp", signed, "float"), upper)
    below = b.select(b.fcmp("olt", below, real(-1.0, "float")), real(-1.0, "float"), below)
    above = b.bin("fdiv", b.cast("uitofp", unsigned, "float"), b.cast("uitofp", most, "float"))
    scaled = b.select(b.icmp("eq", d.kind, integer(0, "i32")), below, above)
    scaled = b.select(b.icmp("ne", d.field(72), integer(0, "i32")), scaled, b.bitcast(raw, "float"))
    return b.select(b.icmp("eq", d.kind, integer(2, "i32")), number, scaled)


@handles("tex")
def tex(e: FunctionEmitter, i: Instruction) -> None:
    geometry = next((item for item in i.modifiers if item in _GEOMETRY), "")
    check(e, i, {*_GEOMETRY, "level", "base", "v4", "f32", "s32", "u32"})
    if i.modifiers[-1] not in ("f32", "s32") or len(i.destinations) != 4:
        raise e.fail(f"unsupported texture form {i.text}")
    handle, coordinates, layer = _operands(e, i, geometry)
    b = e.body
    floats, fetched = i.modifiers[-2] == "f32", i.modifiers[-1] == "s32"
    d = Descriptor(e, handle)
    level = _layer(e, d, layer)
    scale = b.bin("mul", d.element, d.channels)

    def texel(places: list[Val], inside: Val) -> list[Val]:
        first = b.bin("mul", places[0], scale)
        return _texel(e, d, d.address([first, *places[1:]], level), inside, floats)

    if fetched:
        # Integer coordinates: what is outside is 0.
        places, insides = [], []
        for number, item in enumerate(coordinates):
            place, inside = _wrapped(e, e.read(item, "i32"), d.sizes[number], integer(BORDER, "i32"))
            places.append(place)
            insides.append(inside)
        results = texel(places, _all(e, insides))
    else:
        results = _sampled(e, d, [e.read(item, "float") for item in coordinates], texel, floats)
    for destination, result in zip(i.destinations, results, strict=True):
        if destination is not None:
            value = b.bitcast(result, "i32") if destination.type in ("i32", "b32") and result.type != "i32" else result
            e.define(destination, value)


def _layer(e: FunctionEmitter, d: Descriptor, layer: object | None) -> Val | None:
    if layer is None:
        return None
    return e.body.call("umin", "i32", [e.read(layer, "i32"), e.body.bin("sub", d.sizes[2], integer(1, "i32"))])


def _sampled(
    e: FunctionEmitter,
    d: Descriptor,
    coordinates: list[Val],
    texel: Callable[[list[Val], Val], list[Val]],
    floats: bool,
) -> list[Val]:
    """The texel at float coordinates; where the filter is linear, the weighted mean of its neighbours."""
    b = e.body
    normalized = b.icmp("ne", d.field(68), integer(0, "i32"))
    scaled, modes = [], []
    for number, item in enumerate(coordinates):
        size = b.cast("uitofp", d.sizes[number], "float")
        scaled.append(b.select(normalized, b.bin("fmul", item, size), item))
        mode = d.field(56 + 4 * number)
        # Only normalized coordinates wrap or mirror.
        plain = b.bin("or", normalized, b.icmp("eq", mode, integer(BORDER, "i32")))
        modes.append(b.select(plain, mode, integer(CLAMP, "i32")))

    def place(value: Val) -> Val:
        return _integer(e, b.call("floor", "float", [value]))

    def sample(places: list[Val]) -> list[Val]:
        mapped = [_wrapped(e, at, d.sizes[number], modes[number]) for number, at in enumerate(places)]
        return texel([at for at, _ in mapped], _all(e, [inside for _, inside in mapped]))

    nearest = sample([place(value) for value in scaled])
    if not floats:
        return nearest
    slots = [_slot(e, channel) for channel in range(4)]
    for slot, value in zip(slots, nearest, strict=True):
        b.store(b.splat(value), slot)
    linear = b.icmp("ne", d.field(52), integer(0, "i32"))
    some = b.icmp("ne", b.bits(linear), integer(0, "i32")) if linear.vec else linear
    filtered, done = b.new_label("filtered"), b.new_label("sampled")
    b.branch_if(some, filtered, done)
    b.block(filtered)
    corners, weights = [], []
    for value in scaled:
        shifted = b.bin("fsub", value, real(0.5, "float"))
        start = b.call("floor", "float", [shifted])
        fraction = b.bin("fmul", b.bin("fsub", shifted, start), real(256.0, "float"))
        fraction = b.bin("fmul", b.call("rint", "float", [fraction]), real(1 / 256, "float"))
        low = _integer(e, start)
        corners.append((low, b.bin("add", low, integer(1, "i32"))))
        weights.append((b.bin("fsub", real(1.0, "float"), fraction), fraction))
    sums: list[Val | None] = [None] * 4
    for choice in itertools.product((0, 1), repeat=len(scaled)):
        weight = weights[0][choice[0]]
        for number in range(1, len(scaled)):
            weight = b.bin("fmul", weight, weights[number][choice[number]])
        values = sample([corners[number][side] for number, side in enumerate(choice)])
        for channel, value in enumerate(values):
            part = b.bin("fmul", value, weight)
            before = sums[channel]
            sums[channel] = part if before is None else b.bin("fadd", before, part)
    for slot, total, plain in zip(slots, sums, nearest, strict=True):
        assert total is not None
        b.store(b.splat(b.select(linear, total, plain)), slot)
    b.branch(done)
    b.block(done)
    return [b.load("float", True, slot, ", align 128") for slot in slots]


def _integer(e: FunctionEmitter, value: Val) -> Val:
    """A whole number as i32; one that is far outside of any texture, or no number, stays far outside."""
    b = e.body
    far = real(float(1 << 30), "float")
    return b.cast(
        "fptosi",
        b.call("minnum", "float", [b.call("maxnum", "float", [value, real(-float(1 << 30), "float")]), far]),
        "i32",
    )


def _slot(e: FunctionEmitter, channel: int) -> str:
    name = f"%texel.{channel}"
    if name not in e.slots:
        e.slots.add(name)
        e.allocas.append(f"  {name} = alloca <{LANES} x float>, align 128")
    return name


# Surfaces ------------------------------------------------------------------------------------------------------------
def _surface(e: FunctionEmitter, i: Instruction) -> tuple[Descriptor, Val, Val, str, int, str]:
    """The descriptor, the address of the first element, whether it is inside, the element's type, their number, the bounds mode."""
    geometry = next((item for item in i.modifiers if item in _GEOMETRY), "")
    check(
        e,
        i,
        {*_GEOMETRY, *_SURFACE_TYPES, "b", "v2", "v4", "trap", "clamp", "zero", "ca", "cg", "cs", "cv", "wb", "wt"},
    )
    kind = next((item for item in i.modifiers if item in _SURFACE_TYPES), "")
    bounds = i.modifiers[-1]
    if not kind or "b" not in i.modifiers or bounds not in ("trap", "clamp", "zero"):
        raise e.fail(f"unsupported surface form {i.text}")
    count = next((int(item[1]) for item in i.modifiers if item in ("v2", "v4")), 1)
    element = _SURFACE_TYPES[kind]
    handle, coordinates, layer = _operands(e, i, geometry)
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
    inside = _all(e, insides)
    if bounds == "trap":
        outside = b.invert(inside)
        if outside.vec:
            bits = b.bits(outside)
            bits = bits if e.mask is None else b.bin("and", bits, e.mask_bits)
            outside = b.icmp("ne", bits, integer(0, "i32"))
        support.fault_if(e, outside, int(FaultKind.ILLEGAL_ADDRESS))
    return d, d.address(places, level), inside, element, count, bounds


@handles("suld")
def surface_load(e: FunctionEmitter, i: Instruction) -> None:
    _, address, inside, element, count, bounds = _surface(e, i)
    if len(i.destinations) != count:
        raise e.fail(f"malformed {i.text}")
    b = e.body
    for number, destination in enumerate(i.destinations):
        at = b.bin("add", address, integer(number * BITS[element] // 8, "i64"))
        value = read_memory(e, place_at(e, "global", at, BITS[element] // 8, False, _TEXEL), element, 1)[0]
        if bounds == "zero":
            value = b.select(inside, value, integer(0, element))
        if destination is not None:
            e.define(destination, widen(b, value, destination.type, False))


@handles("sust")
def surface_store(e: FunctionEmitter, i: Instruction) -> None:
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
