"""Comparisons and selection: setp, set, selp, slct.

Source: PTX ISA, "Comparison and Selection Instructions".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from farlane.backend.jit.lowering.families.arithmetic import narrow
from farlane.backend.jit.lowering.families.base import check, flush, halves, handles, pack, type_of, write
from farlane.backend.jit.lowering.ir import PTX_LLVM, REGISTER_LLVM, SIGNED, Val, floating, integer, real
from farlane.backend.jit.ptx.model import Instruction
from farlane.backend.jit.ssa.predication import PICK

if TYPE_CHECKING:
    from farlane.backend.jit.lowering.emitter import Emitter

_FLOAT = {
    "eq": "oeq", "ne": "one", "lt": "olt", "le": "ole", "gt": "ogt", "ge": "oge", "equ": "ueq", "neu": "une", "ltu": "ult",
    "leu": "ule", "gtu": "ugt", "geu": "uge", "num": "ord", "nan": "uno",
}  # fmt: skip
_UNSIGNED = {"lo": "ult", "ls": "ule", "hi": "ugt", "hs": "uge"}
_OPERATIONS = set(_FLOAT) | set(_UNSIGNED)
_COMBINE = {"and", "or", "xor"}
_TYPES = {
    "b16",
    "b32",
    "b64",
    "u16",
    "u32",
    "u64",
    "s16",
    "s32",
    "s64",
    "f16",
    "f32",
    "f64",
    "bf16",
    "f16x2",
    "bf16x2",
    "pred",
}


def _compare(e: Emitter, i: Instruction, operation: str, name: str, x: Val, y: Val) -> Val:
    b = e.body
    if name.startswith(("f", "bf")):
        if operation not in _FLOAT or ("ftz" in i.modifiers and name == "f64"):
            raise e.fail(f"unsupported {i.text}")
        if "ftz" in i.modifiers:
            x, y = flush(e, x), flush(e, y)
        if x.type in narrow.SMALL:
            x, y = narrow.widen(e, x), narrow.widen(e, y)
        return b.fcmp(_FLOAT[operation], x, y)
    if operation in _UNSIGNED:
        return b.icmp(_UNSIGNED[operation], x, y)
    if operation in ("eq", "ne"):
        return b.icmp(operation, x, y)
    if operation not in ("lt", "le", "gt", "ge") or name.startswith("b"):
        raise e.fail(f"unsupported {i.text}")
    return b.icmp(("s" if name in SIGNED else "u") + operation, x, y)


def _combined(e: Emitter, i: Instruction, result: Val) -> Val:
    combine = next((item for item in i.modifiers[1:] if item in _COMBINE), None)
    if combine is None:
        if len(i.sources) != 2:
            raise e.fail(f"malformed {i.text}")
        return result
    if len(i.sources) != 3:
        raise e.fail(f"malformed {i.text}")
    return e.body.bin(combine, result, e.read(i.sources[2], "i1"))


@handles("setp")
def setp(e: Emitter, i: Instruction) -> None:
    check(e, i, _OPERATIONS | _COMBINE | _TYPES | {"ftz"})
    name = i.modifiers[-1]
    operation = i.modifiers[0]
    if name in ("f16x2", "bf16x2"):
        kind = PTX_LLVM[name[:-2]]
        xs, ys = halves(e, i.sources[0], kind), halves(e, i.sources[1], kind)
        for index in range(2):
            write(e, i, _combined(e, i, _compare(e, i, operation, name, xs[index], ys[index])), "", index)
        return
    name, kind = type_of(e, i)
    compared = _compare(e, i, operation, name, e.read(i.sources[0], kind), e.read(i.sources[1], kind))
    write(e, i, _combined(e, i, compared))
    if len(i.destinations) > 1:
        write(e, i, _combined(e, i, e.body.invert(compared)), "", 1)


@handles("set")
def set_(e: Emitter, i: Instruction) -> None:
    check(e, i, _OPERATIONS | _COMBINE | _TYPES | {"ftz"})
    if len(i.modifiers) < 3:
        raise e.fail(f"malformed {i.text}")
    target, name = i.modifiers[-2:]
    operation = i.modifiers[0]
    b = e.body
    if name in ("f16x2", "bf16x2"):
        kind = PTX_LLVM[name[:-2]]
        xs, ys = halves(e, i.sources[0], kind), halves(e, i.sources[1], kind)
        results = [_combined(e, i, _compare(e, i, operation, name, xs[index], ys[index])) for index in range(2)]
        one = {"f16x2": 0x3C00, "bf16x2": 0x3F80}[name] if target == name else -1
        write(e, i, pack(e, *(b.select(item, integer(one, "i16"), integer(0, "i16")) for item in results)))
        return
    kind = PTX_LLVM[name]
    result = _combined(e, i, _compare(e, i, operation, name, e.read(i.sources[0], kind), e.read(i.sources[1], kind)))
    if target not in PTX_LLVM:
        raise e.fail(f"malformed {i.text}")
    out = PTX_LLVM[target]
    if target in ("f32", "f16", "f64"):
        write(e, i, b.select(result, real(1.0, out), floating(0, out)))
    elif target == "bf16":
        write(e, i, b.select(result, integer(0x3F80, "i16"), integer(0, "i16")))
    else:
        write(e, i, b.cast("sext", result, out), target)


@handles(PICK)
def pick(e: Emitter, i: Instruction) -> None:
    """Of predication.py: registers of any type as they are."""
    kind = REGISTER_LLVM[i.destinations[0].type]
    first, second, holds = e.read(i.sources[0], kind), e.read(i.sources[1], kind), e.read(i.sources[2], "i1")
    e.define(i.destinations[0], e.body.select(holds, first, second))


@handles("selp")
def selp(e: Emitter, i: Instruction) -> None:
    check(e, i, _TYPES, 3)
    name, kind = type_of(e, i)
    condition = e.read(i.sources[2], "i1")
    write(e, i, e.body.select(condition, e.read(i.sources[0], kind), e.read(i.sources[1], kind)), name)


@handles("slct")
def slct(e: Emitter, i: Instruction) -> None:
    check(e, i, _TYPES | {"ftz"}, 3)
    name, by = i.modifiers[-2:]
    kind = PTX_LLVM[name]
    b = e.body
    if by == "s32":
        condition = b.icmp("sge", e.read(i.sources[2], "i32"), integer(0, "i32"))
    elif by == "f32":
        value = e.read(i.sources[2], "float")
        condition = b.fcmp("oge", flush(e, value) if "ftz" in i.modifiers else value, floating(0, "float"))
    else:
        raise e.fail(f"unsupported {i.text}")
    write(e, i, b.select(condition, e.read(i.sources[0], kind), e.read(i.sources[1], kind)), name)
