"""sRGB texels: red, green and blue of unsigned bytes that are read as [0, 1], made linear before filters see them. Alpha is linear already.

The conversion is a helper function behind a branch: few textures ask for it, and every texel of a filter would hold it.

Source: IEC 61966-2-1; CUDA runtime API, cudaTextureDesc (sRGB).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from farlane.backend.jit.lowering.families.arithmetic import approximations
from farlane.backend.jit.lowering.ir import Builder, Val, integer, real
from farlane.backend.jit.ptx.model import LANES

if TYPE_CHECKING:
    from farlane.backend.jit.lowering.emitter import Emitter

_NAME = "farlane_srgb"


def linear(e: Emitter, wanted: Val, values: list[Val]) -> list[Val]:
    """The values, made linear where it is wanted."""
    b = e.body
    vectors = [b.splat(value) for value in values]
    some = b.icmp("ne", b.bits(wanted), integer(0, "i32")) if wanted.vec else wanted
    convert, done = b.new_label("srgb"), b.new_label("linear")
    before = b.label
    b.branch_if(some, convert, done)
    b.block(convert)
    name = _helper(e)
    made = [b.op(f"call <{LANES} x float> @{name}({value})", "float", True) for value in vectors]
    b.branch(done)
    b.block(done)
    chosen = [b.phi(value, convert, before) for value in made]
    return [b.select(wanted, new, old) for new, old in zip(chosen, vectors, strict=True)]


def _helper(e: Emitter) -> str:
    if _NAME not in e.kernel.helpers:
        b = Builder()
        b.intrinsics = e.body.intrinsics
        x = Val("%x", "float", True)
        shifted = b.bin("fmul", b.bin("fadd", x, real(0.055, "float")), real(1 / 1.055, "float"))
        power = b.bin("fmul", approximations.lg2(b, shifted), real(2.4, "float"))
        low = b.bin("fmul", x, real(1 / 12.92, "float"))
        result = b.select(b.fcmp("ole", x, real(0.04045, "float")), low, approximations.ex2(b, power))
        head = f"define internal <{LANES} x float> @{_NAME}(<{LANES} x float> %x) noinline {{"
        e.kernel.helpers[_NAME] = "\n".join([head, "entry:", *b.lines, f"  ret {result}", "}"])
    return _NAME
