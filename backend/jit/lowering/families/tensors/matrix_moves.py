"""Matrices between registers and shared memory: ldmatrix, stmatrix, movmatrix."""

from __future__ import annotations

from typing import TYPE_CHECKING

from farlane.backend.jit.lowering.families.accesses import addresses
from farlane.backend.jit.lowering.families.accesses.memory import read_memory, write_memory
from farlane.backend.jit.lowering.families.base import check, handles, pack
from farlane.backend.jit.lowering.families.tensors.matrix import define, registers
from farlane.backend.jit.lowering.ir import Val, integer, lanes
from farlane.backend.jit.ptx.model import LANES, Instruction

if TYPE_CHECKING:
    from farlane.backend.jit.lowering.emitter import Emitter


# 8x8 matrices of 16-bit elements ----------------------------------------------------------------------------------------
def _matrix_rows(e: Emitter, i: Instruction) -> tuple[str, Val, int, bool]:
    """(space, row addresses by lane, matrices, transposed) of ldmatrix and stmatrix."""
    check(e, i, addresses.SPACES | {"sync", "aligned", "m8n8", "x1", "x2", "x4", "trans", "b16"})
    count = next((int(item[1]) for item in i.modifiers if item in ("x1", "x2", "x4")), 0)
    if not count or "m8n8" not in i.modifiers:
        raise e.fail(f"unsupported {i.text}")
    space, address = addresses.effective(e, i.sources[0], addresses.space_of(i))
    return space, e.body.splat(address), count, "trans" in i.modifiers


def _cells(e: Emitter, rows: Val, matrix: int, transposed: bool, part: int) -> Val:
    """Addresses of one word (or one half-word, transposed) of each lane."""
    b = e.body
    if transposed:
        chosen = [matrix * 8 + lane % 4 * 2 + part for lane in range(LANES)]
        inside = [lane // 4 * 2 for lane in range(LANES)]
    else:
        chosen = [matrix * 8 + lane // 4 for lane in range(LANES)]
        inside = [lane % 4 * 4 for lane in range(LANES)]
    order = ", ".join(f"i32 {lane}" for lane in chosen)
    shown = f"<{LANES} x i64>"
    spread = b.op(f"shufflevector {rows}, {shown} poison, <{LANES} x i32> <{order}>", "i64", True)
    return b.bin("add", spread, lanes(inside, "i64"))


@handles("ldmatrix")
def load_matrix(e: Emitter, i: Instruction) -> None:
    space, rows, count, transposed = _matrix_rows(e, i)
    b = e.body
    results = []
    for matrix in range(count):
        if transposed:
            halves = []
            for part in range(2):
                place = addresses.place_at(e, space, _cells(e, rows, matrix, True, part), 2, False)
                halves.append(b.splat(read_memory(e, place, "i16", 1)[0]))
            results.append(pack(e, *halves))
        else:
            place = addresses.place_at(e, space, _cells(e, rows, matrix, False, 0), 4, False)
            results.append(b.splat(read_memory(e, place, "i32", 1)[0]))
    define(e, i, results)


@handles("stmatrix")
def store_matrix(e: Emitter, i: Instruction) -> None:
    space, rows, count, transposed = _matrix_rows(e, i)
    b = e.body
    for matrix, value in enumerate(registers(e, i, 1, "i32", count)):
        if not transposed:
            place = addresses.place_at(e, space, _cells(e, rows, matrix, False, 0), 4, True)
            write_memory(e, place, "i32", [value])
            continue
        for part in range(2):
            place = addresses.place_at(e, space, _cells(e, rows, matrix, True, part), 2, True)
            half = b.cast("trunc", b.bin("lshr", value, integer(16 * part, "i32")), "i16")
            write_memory(e, place, "i16", [half])


@handles("movmatrix")
def transpose(e: Emitter, i: Instruction) -> None:
    check(e, i, {"sync", "aligned", "m8n8", "trans", "b16"}, 1)
    b = e.body
    value = b.splat(e.read(i.sources[0], "i32"))
    order = ", ".join(f"i32 {position % 8 * 8 + position // 8}" for position in range(64))
    cells = b.op(f"bitcast {value} to <64 x i16>", "i16", False).name
    turned = b.op(f"shufflevector <64 x i16> {cells}, <64 x i16> poison, <64 x i32> <{order}>", "i16", False).name
    define(e, i, [b.op(f"bitcast <64 x i16> {turned} to <{LANES} x i32>", "i32", True)])
