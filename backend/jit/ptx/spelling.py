"""The order of an instruction's modifiers: one spelling for what ptxas takes in several.

The PTX manual writes the types last (`lg2.approx.ftz.f32`), and compilers do; ptxas also takes `lg2.approx.f32.ftz` and `ld.f32.global`,
and inline assembly says so (CURAND's headers among it). Here what stands behind a type goes in front of the types, for the instructions
whose types end the manual's spelling; the order among types, and among the others, is kept. Others' modifiers stay as they are, since in
some of them the place says what is meant (`prmt.b32.f4e`, `mma`, `vadd`).
"""

from __future__ import annotations

from farlane.backend.jit.ptx.declarations import SCALAR_BYTES
from farlane.backend.jit.ptx.instructions import Trait, having

_TYPES_LAST = having(Trait.TYPES_LAST)
_TYPES = {*SCALAR_BYTES, "pred", "f32x2", "u16x2", "s16x2"}
# cvt has types of its own (fp8, tf32, ...): there it is the modifiers that are known.
_BEFORE = {"rn", "rz", "rm", "rp", "rni", "rzi", "rmi", "rpi", "rna", "relu", "ftz", "sat", "satfinite", "pack"}
# Instructions whose first modifier makes another one of them.
_COMPOUND = {("st", "bulk"), ("clusterlaunchcontrol", "try_cancel"), ("clusterlaunchcontrol", "query_cancel")}


def split(opcode: str) -> tuple[str, tuple[str, ...]]:
    """What an instruction is called, and its modifiers."""
    base, *modifiers = opcode.split(".")
    if modifiers and (base, modifiers[0]) in _COMPOUND:
        return f"{base}.{modifiers[0]}", tuple(modifiers[1:])
    return base, tuple(modifiers)


def canonical(base: str, modifiers: tuple[str, ...]) -> tuple[str, ...]:
    """The modifiers as the manual orders them."""
    if base in _TYPES_LAST:
        types = [item in _TYPES for item in modifiers]
    elif base == "cvt":
        types = [item not in _BEFORE for item in modifiers]
    else:
        return modifiers
    if types == sorted(types):
        return modifiers
    pairs = list(zip(modifiers, types, strict=True))
    return (*(name for name, last in pairs if not last), *(name for name, last in pairs if last))
