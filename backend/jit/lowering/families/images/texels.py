"""What textures and surfaces are made of: the descriptor that an object points to, and the operands of the instructions that name one.

A texture or surface object is the device address of a descriptor of 128 bytes, which the guest writes (`frontend/shim/crates/operations/src/texture.rs`;
protos/tape.md has all of it):

    offset  0 u64 address      24 u64 pitch       40 u32 bytes of a channel     56 u32[3] address modes: 0 wrap 1 clamp 2 mirror 3 border
            8 u32 width        32 u64 slice       44 u32 channels (1, 2, 4)     68 u32 coordinates are normalized
           12 u32 height                          48 u32 0 int 1 unsigned 2 float  72 u32 integers are read as [0, 1] or [-1, 1]
           16 u32 depth, layers or faces          52 u32 linear filter          76 u32 MAGIC
                                                                              104 u32 texels are sRGB
                                                                              108 f32[4] what is outside in border mode

What the descriptor says is not trusted: it, and every texel, is accessed as global memory is, with the same checks. Formats, filters and modes are
known at run time only, so the code holds all of them and selects. The faces of a cube map are layers: six for each cube.

Source: PTX ISA, "Texture Instructions", "Surface Instructions"; IEC 61966-2-1 (sRGB).
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from farlane.backend.jit.lowering import support
from farlane.backend.jit.lowering.checks import Access
from farlane.backend.jit.lowering.families.accesses.addresses import Place, place_at
from farlane.backend.jit.lowering.families.accesses.memory import read_memory
from farlane.backend.jit.lowering.families.arithmetic import approximations
from farlane.backend.jit.lowering.ir import Builder, Val, integer, real
from farlane.backend.jit.ptx.model import LANES, Instruction, Vector
from farlane.backend.jit.runtime.structures import FaultKind

if TYPE_CHECKING:
    from farlane.backend.jit.lowering.emitter import Emitter

MAGIC = 0x7E8F1A5E
TEXEL = Access(texel=True)
DESCRIPTOR_BYTES = 128
WRAP, CLAMP, MIRROR, BORDER = range(4)
_LINEAR = "farlane_srgb"
# Dimensions, and whether a layer comes before the coordinates.
GEOMETRY = {"1d": (1, False), "2d": (2, False), "3d": (3, False), "a1d": (1, True), "a2d": (2, True)}
# With a direction instead of a place: three coordinates.
CUBES = {"cube": False, "acube": True}


class Descriptor:
    """The fields of a descriptor, read once for an instruction."""

    def __init__(self, e: Emitter, handle: Val) -> None:
        self._e = e
        self._place = place_at(e, "global", handle, DESCRIPTOR_BYTES, False)
        self.base = self.field(0, "i64")
        sizes = [self.field(offset) for offset in (8, 12, 16)]
        one = integer(1, "i32")
        self.sizes = [e.body.call("umax", "i32", [size, one]) for size in sizes]
        self.pitch, self.slice = self.field(24, "i64"), self.field(32, "i64")
        self.element, self.channels, self.kind = self.field(40), self.field(44), self.field(48)
        self._require(e.body.icmp("eq", self.field(76), integer(MAGIC, "i32")))

    @functools.cached_property
    def srgb(self) -> Val:
        """Whether colours are to be made linear: of unsigned bytes that are read as [0, 1]."""
        b = self._e.body
        asked = b.bin("and", self._is(104, 1), self._is(72, 1))
        return b.bin("and", asked, b.bin("and", self._is(40, 1), self._is(48, 1)))

    def _is(self, offset: int, value: int) -> Val:
        return self._e.body.icmp("eq", self.field(offset), integer(value, "i32"))

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


def operands(e: Emitter, i: Instruction, geometry: str) -> tuple[Val, list[object], object | None]:
    """The object's handle, the coordinates, and the layer."""
    operand = i.sources[0]
    if not isinstance(operand, Vector) or (geometry not in GEOMETRY and geometry not in CUBES):
        raise e.fail(f"unsupported texture or surface form {i.text}")
    dimensions, layered = (3, CUBES[geometry]) if geometry in CUBES else GEOMETRY[geometry]
    items = list(operand.items)
    layer = items.pop(1) if layered else None
    if len(items) < 1 + dimensions or None in items:
        raise e.fail(f"malformed {i.text}")
    return e.read(items[0], "i64"), items[1 : 1 + dimensions], layer


def conjunction(e: Emitter, values: list[Val]) -> Val:
    result = values[0]
    for value in values[1:]:
        result = e.body.bin("and", result, value)
    return result


def srgb_to_linear(e: Emitter, wanted: Val, values: list[Val]) -> list[Val]:
    """Values of sRGB texels in [0, 1], made linear where it is wanted, before filters see them. Alpha is linear already.

    The conversion is a helper function behind a branch: few textures ask for it, and every texel of a filter would hold it.
    """
    b = e.body
    vectors = [b.splat(value) for value in values]
    some = b.icmp("ne", b.bits(wanted), integer(0, "i32")) if wanted.vec else wanted
    convert, done = b.new_label("srgb"), b.new_label("linear")
    before = b.label
    b.branch_if(some, convert, done)
    b.block(convert)
    name = _to_linear(e)
    made = [b.op(f"call <{LANES} x float> @{name}({value})", "float", True) for value in vectors]
    b.branch(done)
    b.block(done)
    chosen = [b.phi(value, convert, before) for value in made]
    return [b.select(wanted, new, old) for new, old in zip(chosen, vectors, strict=True)]


def _to_linear(e: Emitter) -> str:
    if _LINEAR not in e.kernel.helpers:
        b = Builder()
        b.intrinsics = e.body.intrinsics
        x = Val("%x", "float", True)
        shifted = b.bin("fmul", b.bin("fadd", x, real(0.055, "float")), real(1 / 1.055, "float"))
        power = b.bin("fmul", approximations.lg2(b, shifted), real(2.4, "float"))
        low = b.bin("fmul", x, real(1 / 12.92, "float"))
        result = b.select(b.fcmp("ole", x, real(0.04045, "float")), low, approximations.ex2(b, power))
        head = f"define internal <{LANES} x float> @{_LINEAR}(<{LANES} x float> %x) noinline {{"
        e.kernel.helpers[_LINEAR] = "\n".join([head, "entry:", *b.lines, f"  ret {result}", "}"])
    return _LINEAR
