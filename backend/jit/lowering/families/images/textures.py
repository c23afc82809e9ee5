"""Textures: tex and tld4. Their objects and operands: texels.py.

Linear filtering rounds its weights to 8 bits, as devices do, and stays within the face of a cube map. A direction of which two coordinates are equally
large belongs to the face of the first one. Levels of detail: mipmaps.py. tld4 gathers
one channel of the four texels that a linear filter would weigh: lower left, lower right, upper right, upper left, where lower rows have larger numbers.
A border's colour has the texels' type: of integers its bits count. Not there: queries.

Source: PTX ISA, "Texture Instructions"; CUDA programming guide, "Texture Fetching", "Cubemap Textures".
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import TYPE_CHECKING

from farlane.backend.jit.lowering.families.accesses.addresses import Place, place_at
from farlane.backend.jit.lowering.families.accesses.memory import read_memory
from farlane.backend.jit.lowering.families.base import check, handles
from farlane.backend.jit.lowering.families.images import mipmaps
from farlane.backend.jit.lowering.families.images.texels import (
    BORDER,
    CLAMP,
    CUBES,
    GEOMETRY,
    MIRROR,
    TEXEL,
    WRAP,
    Descriptor,
    conjunction,
    operands,
    srgb_to_linear,
)  # fmt: skip
from farlane.backend.jit.lowering.ir import Val, integer, real
from farlane.backend.jit.ptx.model import LANES, Instruction
from farlane.backend.jit.runtime.checks import MEMORY

if TYPE_CHECKING:
    from farlane.backend.jit.lowering.emitter import Emitter

_CHANNELS = "rgba"
_BORDER_COLOUR = 108  # its place in the descriptor
_FACES = 6
_COLOURS = 3  # red, green, blue


def _wrapped(e: Emitter, place: Val, size: Val, mode: Val) -> tuple[Val, Val]:
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


def _texel(
    e: Emitter, d: Descriptor, address: Val, inside: Val, floats: bool, outside: list[Val] | None = None
) -> list[Val]:
    """The four channels of a texel, as f32 or 32-bit integers; outside of it `outside`, else zero."""
    b = e.body
    bits = b.bin("shl", d.element, integer(3, "i32"))
    spare = b.bin("sub", integer(32, "i32"), bits)
    found, places = [], []
    for channel in range(4):
        there = b.bin("and", inside, b.icmp("ugt", d.channels, integer(channel, "i32")))
        offset = b.cast("zext", b.bin("mul", d.element, integer(channel, "i32")), "i64")
        place = b.select(there, b.bin("add", address, offset), d.base)
        aligned = b.bin("and", place, integer(-4, "i64"))
        if e.kernel.options.checks & MEMORY:  # the word that holds a texel may reach over the end of its allocation
            place_at(e, "global", place, 1, False, TEXEL)
            word = Place("null", aligned)
        else:
            word = place_at(e, "global", aligned, 4, False, TEXEL)
        loaded = read_memory(e, word, "i32", 1)[0]
        shift = b.bin("shl", b.cast("trunc", b.bin("and", place, integer(3, "i64")), "i32"), integer(3, "i32"))
        top = b.bin("shl", b.bin("lshr", loaded, shift), spare)
        unsigned, signed = b.bin("lshr", top, spare), b.bin("ashr", top, spare)
        value = b.select(b.icmp("eq", d.kind, integer(0, "i32")), signed, unsigned)
        found.append(_as_float(e, d, value, unsigned, signed, spare) if floats else value)
        places.append(there)
    if floats:
        found[:_COLOURS] = srgb_to_linear(e, d.srgb, found[:_COLOURS])
    zero = real(0.0, "float") if floats else integer(0, "i32")
    results = []
    for channel, (value, there) in enumerate(zip(found, places, strict=True)):
        absent = real(float(channel == 3), "float") if floats else integer(int(channel == 3), "i32")
        value = b.select(there, value, zero if outside is None else outside[channel])
        missing = b.bin("and", inside, b.icmp("ule", d.channels, integer(channel, "i32")))
        results.append(b.select(missing, absent, value))
    return results


def _as_float(e: Emitter, d: Descriptor, raw: Val, unsigned: Val, signed: Val, spare: Val) -> Val:
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
def tex(e: Emitter, i: Instruction) -> None:
    geometry = next((item for item in i.modifiers if item in GEOMETRY or item in CUBES), "")
    check(e, i, {*GEOMETRY, *CUBES, "level", "grad", "base", "v4", "f32", "s32", "u32"})
    if i.modifiers[-1] not in ("f32", "s32") or len(i.destinations) != 4:
        raise e.fail(f"unsupported texture form {i.text}")
    handle, coordinates, layer = operands(e, i, geometry)
    floats, fetched = i.modifiers[-2] == "f32", i.modifiers[-1] == "s32"
    d = Descriptor(e, handle)

    def read(d: Descriptor) -> list[Val]:
        if fetched:
            return _fetched(e, d, coordinates, layer, floats)
        if geometry in CUBES:
            face, where = _face(e, [e.read(item, "float") for item in coordinates])
            texels = _at(e, d, _cube_layer(e, d, layer, face), floats)
            return _sampled(e, d, *_on_face(e, d, where), texels, floats)
        texels = _at(e, d, _layer(e, d, layer), floats, _border(e, d, floats))
        return _sampled(e, d, *_scaled(e, d, coordinates), texels, floats)

    if not {"level", "grad"} & set(i.modifiers):
        results = read(d)
    elif fetched:
        results = read(Descriptor(e, mipmaps.level(e, i, d, handle)))
    else:
        levels = mipmaps.levels(e, i, d, handle, geometry)
        if floats:
            results = mipmaps.blended(e, levels, lambda level: read(Descriptor(e, level)))
        else:
            results = read(Descriptor(e, levels.first))
    _give(e, i, results)


def _fetched(e: Emitter, d: Descriptor, coordinates: list[object], layer: object | None, floats: bool) -> list[Val]:
    """The texel at whole numbers: what is outside is 0."""
    places, insides = [], []
    for number, item in enumerate(coordinates):
        place, inside = _wrapped(e, e.read(item, "i32"), d.sizes[number], integer(BORDER, "i32"))
        places.append(place)
        insides.append(inside)
    return _at(e, d, _layer(e, d, layer), floats)(places, conjunction(e, insides))


@handles("tld4")
def gather(e: Emitter, i: Instruction) -> None:
    check(e, i, {*_CHANNELS, "2d", "v4", "f32", "s32", "u32"})
    channel = next((item for item in i.modifiers if item in _CHANNELS), "")
    if i.modifiers[-1] != "f32" or not channel or "2d" not in i.modifiers or len(i.destinations) != 4:
        raise e.fail(f"unsupported texture form {i.text}")
    handle, coordinates, _ = operands(e, i, "2d")
    b = e.body
    floats = i.modifiers[-2] == "f32"
    d = Descriptor(e, handle)
    texels = _at(e, d, None, floats, _border(e, d, floats))
    scaled, modes = _scaled(e, d, coordinates)
    starts = [_place(e, b.bin("fsub", value, real(0.5, "float"))) for value in scaled]
    left, upper = starts
    right, lower = (b.bin("add", start, integer(1, "i32")) for start in starts)
    corners = [(left, lower), (right, lower), (right, upper), (left, upper)]
    number = _CHANNELS.index(channel)
    _give(e, i, [_mapped(e, d, [x, y], modes, texels)[number] for x, y in corners])


def _give(e: Emitter, i: Instruction, results: list[Val]) -> None:
    b = e.body
    for destination, result in zip(i.destinations, results, strict=True):
        if destination is not None:
            value = b.bitcast(result, "i32") if destination.type in ("i32", "b32") and result.type != "i32" else result
            e.define(destination, value)


_Texels = Callable[[list[Val], Val], list[Val]]


def _at(e: Emitter, d: Descriptor, level: Val | None, floats: bool, outside: list[Val] | None = None) -> _Texels:
    """The texel at whole places of a layer."""
    b = e.body
    scale = b.bin("mul", d.element, d.channels)

    def texel(places: list[Val], inside: Val) -> list[Val]:
        first = b.bin("mul", places[0], scale)
        return _texel(e, d, d.address([first, *places[1:]], level), inside, floats, outside)

    return texel


def _border(e: Emitter, d: Descriptor, floats: bool) -> list[Val]:
    colour = [d.field(_BORDER_COLOUR + 4 * channel) for channel in range(4)]
    return [e.body.bitcast(value, "float") for value in colour] if floats else colour


def _layer(e: Emitter, d: Descriptor, layer: object | None) -> Val | None:
    if layer is None:
        return None
    return e.body.call("umin", "i32", [e.read(layer, "i32"), e.body.bin("sub", d.sizes[2], integer(1, "i32"))])


def _face(e: Emitter, direction: list[Val]) -> tuple[Val, list[Val]]:
    """The face that a direction meets, and where: [0, 1] twice."""
    b = e.body
    x, z = direction[0], direction[2]
    zero, half = real(0.0, "float"), real(0.5, "float")
    minus = [b.bin("fsub", real(-0.0, "float"), value) for value in direction]
    sizes = [b.call("fabs", "float", [value]) for value in direction]
    by_x = b.bin("and", b.fcmp("oge", sizes[0], sizes[1]), b.fcmp("oge", sizes[0], sizes[2]))
    by_y = b.fcmp("oge", sizes[1], sizes[2])
    behind = [b.fcmp("olt", value, zero) for value in direction]

    def chosen(first: Val, second: Val, third: Val) -> Val:
        return b.select(by_x, first, b.select(by_y, second, third))

    faces = [b.select(behind[axis], integer(2 * axis + 1, "i32"), integer(2 * axis, "i32")) for axis in range(3)]
    s = chosen(b.select(behind[0], z, minus[2]), x, b.select(behind[2], minus[0], x))
    t = chosen(minus[1], b.select(behind[1], minus[2], z), minus[1])
    size = chosen(*sizes)
    where = [b.bin("fadd", b.bin("fmul", b.bin("fdiv", value, size), half), half) for value in (s, t)]
    return chosen(*faces), where


def _on_face(e: Emitter, d: Descriptor, where: list[Val]) -> tuple[list[Val], list[Val]]:
    b = e.body
    scaled = [b.bin("fmul", at, b.cast("uitofp", d.sizes[axis], "float")) for axis, at in enumerate(where)]
    return scaled, [integer(CLAMP, "i32")] * 2


def _cube_layer(e: Emitter, d: Descriptor, layer: object | None, face: Val) -> Val:
    """Six faces for each cube; a layer that is not there is the last one."""
    b = e.body
    six = integer(_FACES, "i32")
    cube = integer(0, "i32")
    if layer is not None:
        cubes = b.call("umax", "i32", [b.bin("udiv", d.sizes[2], six), integer(1, "i32")])
        cube = b.call("umin", "i32", [e.read(layer, "i32"), b.bin("sub", cubes, integer(1, "i32"))])
    return b.bin("add", b.bin("mul", cube, six), face)


def _scaled(e: Emitter, d: Descriptor, coordinates: list[object]) -> tuple[list[Val], list[Val]]:
    """Coordinates in texels, and the address modes that hold for them."""
    b = e.body
    normalized = b.icmp("ne", d.field(68), integer(0, "i32"))
    scaled, modes = [], []
    for number, item in enumerate(coordinates):
        value = e.read(item, "float")
        size = b.cast("uitofp", d.sizes[number], "float")
        scaled.append(b.select(normalized, b.bin("fmul", value, size), value))
        mode = d.field(56 + 4 * number)
        # Only normalized coordinates wrap or mirror.
        plain = b.bin("or", normalized, b.icmp("eq", mode, integer(BORDER, "i32")))
        modes.append(b.select(plain, mode, integer(CLAMP, "i32")))
    return scaled, modes


def _place(e: Emitter, value: Val) -> Val:
    return _integer(e, e.body.call("floor", "float", [value]))


def _mapped(e: Emitter, d: Descriptor, places: list[Val], modes: list[Val], texel: _Texels) -> list[Val]:
    """The texel at whole places that may be outside."""
    mapped = [_wrapped(e, at, d.sizes[number], modes[number]) for number, at in enumerate(places)]
    return texel([at for at, _ in mapped], conjunction(e, [inside for _, inside in mapped]))


def _sampled(e: Emitter, d: Descriptor, scaled: list[Val], modes: list[Val], texel: _Texels, floats: bool) -> list[Val]:
    """The texel at float coordinates; where the filter is linear, the weighted mean of its neighbours."""
    b = e.body
    nearest = _mapped(e, d, [_place(e, value) for value in scaled], modes, texel)
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
        values = _mapped(e, d, [corners[number][side] for number, side in enumerate(choice)], modes, texel)
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


def _integer(e: Emitter, value: Val) -> Val:
    """A whole number as i32; one that is far outside of any texture, or no number, stays far outside."""
    b = e.body
    far = real(float(1 << 30), "float")
    return b.cast(
        "fptosi",
        b.call("minnum", "float", [b.call("maxnum", "float", [value, real(-float(1 << 30), "float")]), far]),
        "i32",
    )


def _slot(e: Emitter, channel: int) -> str:
    name = f"%texel.{channel}"
    if name not in e.slots:
        e.slots.add(name)
        e.allocas.append(f"  {name} = alloca <{LANES} x float>, align 128")
    return name
