"""Mipmaps: which level of a texture `tex.level` and `tex.grad` read, and the mean of two.

An object of a mipmapped array is a row of descriptors, one for each level (texels.py); each also says

    offset 80 u32 1, a mipmapped array        88 f32 lowest level       96 f32 bias
           84 u32 the last level's number     92 f32 highest level     124 u32 1 where levels are filtered linearly, 0 for the nearest one

Other objects have one level. A gradient's level is the logarithm of the longer one, in texels of level 0; cube maps' gradients read level 0, and so
does a `tex` that names no level. The weight of the second level is rounded to 8 bits, as those of texels are.

Source: PTX ISA, "Texture Instructions"; CUDA runtime API, cudaTextureDesc; OpenGL 4.6, "Texture Minification" (the level of a gradient).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from farlane.backend.jit.lowering.families.arithmetic import approximations
from farlane.backend.jit.lowering.families.images.texels import CUBES, DESCRIPTOR_BYTES, GEOMETRY, Descriptor
from farlane.backend.jit.lowering.ir import Val, integer, real
from farlane.backend.jit.ptx.model import LANES, Instruction, Vector

if TYPE_CHECKING:
    from farlane.backend.jit.lowering.emitter import Emitter

_MIPMAPPED = 1


class Levels(NamedTuple):
    """The objects of the level that is read and of the next one, and the next one's weight."""

    first: Val
    second: Val
    weight: Val


def levels(e: Emitter, i: Instruction, d: Descriptor, handle: Val, geometry: str) -> Levels:
    b = e.body
    zero, one = real(0.0, "float"), integer(1, "i32")
    mipmapped = b.icmp("eq", d.field(80), integer(_MIPMAPPED, "i32"))
    last = b.select(mipmapped, d.field(84), integer(0, "i32"))
    asked = e.read(i.sources[1], "float") if "level" in i.modifiers else _of_gradient(e, i, d, geometry)
    low, high, bias = (b.bitcast(d.field(offset), "float") for offset in (88, 92, 96))
    asked = b.call("minnum", "float", [b.call("maxnum", "float", [b.bin("fadd", asked, bias), low]), high])
    asked = b.call("minnum", "float", [b.call("maxnum", "float", [asked, zero]), b.cast("uitofp", last, "float")])
    asked = b.select(mipmapped, asked, zero)
    linear = b.icmp("ne", d.field(124), integer(0, "i32"))
    start = b.call("floor", "float", [b.select(linear, asked, b.bin("fadd", asked, real(0.5, "float")))])
    share = b.bin("fmul", b.bin("fsub", asked, start), real(256.0, "float"))
    share = b.bin("fmul", b.call("rint", "float", [share]), real(1 / 256, "float"))
    number = b.cast("fptosi", start, "i32")
    first = _object(e, handle, number)
    second = _object(e, handle, b.call("umin", "i32", [b.bin("add", number, one), last]))
    return Levels(first, second, b.select(linear, share, zero))


def level(e: Emitter, i: Instruction, d: Descriptor, handle: Val) -> Val:
    """The object of the level that a whole number names."""
    b = e.body
    mipmapped = b.icmp("eq", d.field(80), integer(_MIPMAPPED, "i32"))
    last = b.select(mipmapped, d.field(84), integer(0, "i32"))
    number = b.call("smax", "i32", [e.read(i.sources[1], "i32"), integer(0, "i32")])
    return _object(e, handle, b.call("smin", "i32", [number, last]))


def _object(e: Emitter, handle: Val, number: Val) -> Val:
    b = e.body
    return b.bin("add", handle, b.bin("mul", b.cast("zext", number, "i64"), integer(DESCRIPTOR_BYTES, "i64")))


def _of_gradient(e: Emitter, i: Instruction, d: Descriptor, geometry: str) -> Val:
    b = e.body
    if geometry in CUBES:
        return real(0.0, "float")
    normalized = b.icmp("ne", d.field(68), integer(0, "i32"))
    squares: list[Val] = []
    for operand in i.sources[1:3]:
        items = list(operand.items) if isinstance(operand, Vector) else [operand]
        total = real(0.0, "float")
        for axis in range(GEOMETRY[geometry][0]):
            step = e.read(items[axis], "float")
            step = b.select(normalized, b.bin("fmul", step, b.cast("uitofp", d.sizes[axis], "float")), step)
            total = b.call("fma", "float", [step, step, total])
        squares.append(total)
    longest = b.call("maxnum", "float", squares)
    return b.bin("fmul", approximations.lg2(b, longest), real(0.5, "float"))


def blended(e: Emitter, levels: Levels, read: Callable[[Val], list[Val]]) -> list[Val]:
    """The mean of two levels, by the same code: the second one is read where some lane wants a part of it."""
    b = e.body
    sums = [_slot(e, f"sum.{channel}", "float", True) for channel in range(4)]
    for slot in sums:
        b.store(b.splat(real(0.0, "float")), slot)
    objects, parts, more = (
        _slot(e, "object", "i64", levels.first.vec),
        _slot(e, "part", "float", levels.weight.vec),
        _slot(e, "more", "i1", False),
    )
    some = b.fcmp("ogt", levels.weight, real(0.0, "float"))
    b.store(levels.first, objects)
    b.store(b.bin("fsub", real(1.0, "float"), levels.weight), parts)
    b.store(b.icmp("ne", b.bits(some), integer(0, "i32")) if some.vec else some, more)
    reading, next_one, done = b.new_label("level"), b.new_label("next"), b.new_label("levels")
    b.branch(reading)
    b.block(reading)
    seen = read(b.load("i64", levels.first.vec, objects))
    part = b.load("float", levels.weight.vec, parts)
    wanted = b.fcmp("ogt", part, real(0.0, "float"))
    for slot, value in zip(sums, seen, strict=True):
        before = b.load("float", True, slot)
        b.store(b.splat(b.select(wanted, b.bin("fadd", before, b.bin("fmul", value, part)), before)), slot)
    b.branch_if(b.load("i1", False, more), next_one, done)
    b.block(next_one)
    b.store(levels.second, objects)
    b.store(levels.weight, parts)
    b.store(integer(0, "i1"), more)
    b.branch(reading)
    b.block(done)
    return [b.load("float", True, slot) for slot in sums]


def _slot(e: Emitter, what: str, kind: str, vec: bool) -> str:
    name = f"%level.{what}{'.v' if vec else ''}"
    if name not in e.slots:
        e.slots.add(name)
        e.allocas.append(f"  {name} = alloca {f'<{LANES} x {kind}>' if vec else kind}")
    return name
