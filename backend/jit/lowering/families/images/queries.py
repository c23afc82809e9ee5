"""What kernels ask about textures and surfaces: txq, suq.

The answers are in the object's descriptor (texels.py). Dimensions that a texture does not have are 1; the depth of a volume and the number of
layers have one place there, and so one answer. PTX leaves the numbers of channel types and orders to the source language, and CUDA has none: these
are refused, as are samples and memory layouts.

Source: PTX ISA, "txq", "suq".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from farlane.backend.jit.lowering.families.base import check, handles, write
from farlane.backend.jit.lowering.families.images import mipmaps
from farlane.backend.jit.lowering.families.images.texels import Descriptor
from farlane.backend.jit.lowering.ir import Val, integer
from farlane.backend.jit.ptx.model import Address, Instruction

if TYPE_CHECKING:
    from farlane.backend.jit.lowering.emitter import Emitter

_SIZES = {"width": 0, "height": 1, "depth": 2, "array_size": 2}
_MODES = {"addr_mode_0": 56, "addr_mode_1": 60, "addr_mode_2": 64}
_TEXTURES = {*_SIZES, *_MODES, "normalized_coords", "num_mipmap_levels", "filter_mode"}


@handles("txq")
def texture_query(e: Emitter, i: Instruction) -> None:
    level = "level" in i.modifiers
    check(e, i, {"level", "b32", *(("width", "height", "depth") if level else _TEXTURES)}, 2 if level else 1)
    handle = _handle(e, i)
    if level:
        handle = mipmaps.level(e, i, Descriptor(e, handle), handle)
    write(e, i, _answer(e, i, Descriptor(e, handle)))


@handles("suq")
def surface_query(e: Emitter, i: Instruction) -> None:
    check(e, i, {*_SIZES, "b32"}, 1)
    write(e, i, _answer(e, i, Descriptor(e, _handle(e, i))))


def _handle(e: Emitter, i: Instruction) -> Val:
    """The object, which the operand names as if it were an address."""
    operand = i.sources[0]
    if not isinstance(operand, Address) or operand.base is None or operand.offset:
        raise e.fail(f"malformed {i.text}")
    return e.read(operand.base, "i64")


def _answer(e: Emitter, i: Instruction, d: Descriptor) -> Val:
    b = e.body
    asked = next(item for item in i.modifiers if item not in ("level", "b32"))
    if asked in _SIZES:
        return d.sizes[_SIZES[asked]]
    if asked in _MODES:
        # Here wrap, clamp, mirror, border; there wrap, mirror, clamp_ogl, clamp_to_edge, clamp_to_border.
        return b.bin(
            "and",
            b.bin("lshr", integer(0x4130, "i32"), b.bin("shl", d.field(_MODES[asked]), integer(2, "i32"))),
            integer(15, "i32"),
        )
    if asked == "num_mipmap_levels":
        last = b.select(b.icmp("eq", d.field(80), integer(1, "i32")), d.field(84), integer(0, "i32"))
        return b.bin("add", last, integer(1, "i32"))
    return d.field({"normalized_coords": 68, "filter_mode": 52}[asked])
