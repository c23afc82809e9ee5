"""Products of warp groups: wgmma.mma_async, fence, commit_group, wait_group.

Each of the group's four warps computes its 16 rows of D when it gets there, as mma does (matrix.py), so nothing is left to wait for. PTX
forbids changes of the operands in shared memory until the group has waited.

An operand in shared memory is given by a descriptor: where it starts, two distances and the swizzling. Along 16 bytes of its contiguous
direction and 8 places of the other it is one piece; the distances lead from piece to piece. Swizzled, a row of pieces is 32, 64 or 128 bytes,
and bits of the address from the fourth on are combined with those from the seventh on. Offsets of the pattern's start (base offset) are not
looked at: what is swizzled starts where the pattern does.

Source: PTX ISA, "Asynchronous warpgroup level matrix instructions".
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from farlane.backend.jit.lowering.families.accesses import addresses
from farlane.backend.jit.lowering.families.accesses.memory import read_memory
from farlane.backend.jit.lowering.families.base import check, handles, pack
from farlane.backend.jit.lowering.families.tensors import matrix
from farlane.backend.jit.lowering.ir import Val, integer, lanes
from farlane.backend.jit.lowering.specials import special
from farlane.backend.jit.ptx.model import LANES, Immediate, Instruction, Vector

if TYPE_CHECKING:
    from farlane.backend.jit.lowering.emitter import Emitter

ROWS = 16  # of a warp
COLUMNS = 64  # at most at once, so that buffers stay small
_SHAPE = re.compile(r"m64n([0-9]+)k([0-9]+)")
_DEPTHS = {"f16": 16, "bf16": 16, "tf32": 8, "e4m3": 32, "e5m2": 32, "s8": 32, "u8": 32}
_SIGNS = {"f16": 0x80008000, "bf16": 0x80008000, "tf32": 0x80000000, "e4m3": 0x80808080, "e5m2": 0x80808080}
_TURNING = {"f16", "bf16"}  # may lie along the other direction, too


class _Operand:
    """A matrix in shared memory, by its descriptor."""

    def __init__(self, e: Emitter, descriptor: Val, turned: bool) -> None:
        b = e.body
        self._e, self._turned = e, turned

        def field(shift: int) -> Val:
            bits = b.bin("and", b.bin("lshr", descriptor, integer(shift, "i64")), integer(0x3FFF, "i64"))
            return b.bin("shl", bits, integer(4, "i64"))

        self._start, leading, stride = field(0), field(16), field(32)
        mode = b.bin("lshr", descriptor, integer(62, "i64"))
        plain = b.icmp("eq", mode, integer(0, "i64"))
        # Log2 of the pieces in a row: 3, 2, 1 for modes 1, 2, 3.
        self._log = b.select(plain, mode, b.bin("sub", integer(4, "i64"), mode))
        self._mask = b.bin("sub", b.bin("shl", integer(1, "i64"), self._log), integer(1, "i64"))
        self._row = b.bin("shl", integer(16, "i64"), self._log)
        if turned:
            self._across, self._along = b.select(plain, stride, leading), b.select(plain, leading, stride)
        else:
            self._across, self._along = stride, b.select(plain, leading, integer(16, "i64"))

    def register(self, piece: Val, step: int) -> Val:
        """Eight places from 8 `piece` on by 16 bytes of k from 16 `step` on, as mma has them in a register."""
        b = self._e.body
        places, words = [lane // 4 for lane in range(LANES)], [lane % 4 for lane in range(LANES)]
        if not self._turned:
            base = b.bin("add", self._scaled(piece, self._across), self._scaled(integer(step, "i64"), self._along))
            inside = b.bin("mul", lanes(places, "i64"), self._row)
            offset = b.bin("add", b.bin("add", base, inside), lanes([4 * word for word in words], "i64"))
            return b.splat(self._read(offset, "i32"))
        base = b.bin("shl", b.bin("and", piece, self._mask), integer(4, "i64"))
        base = b.bin("add", base, self._scaled(b.bin("lshr", piece, self._log), self._across))
        base = b.bin("add", base, self._scaled(integer(step, "i64"), self._along))
        halves = []
        for part in range(2):
            inside = b.bin("mul", lanes([2 * word + part for word in words], "i64"), self._row)
            offset = b.bin("add", b.bin("add", base, inside), lanes([2 * place for place in places], "i64"))
            halves.append(b.splat(self._read(offset, "i16")))
        return pack(self._e, *halves)

    def _scaled(self, count: Val, distance: Val) -> Val:
        return self._e.body.bin("mul", count, distance)

    def _read(self, offset: Val, kind: str) -> Val:
        b = self._e.body
        address = b.bin("add", self._start, offset)
        pattern = b.bin("and", b.bin("lshr", address, integer(7, "i64")), self._mask)
        address = b.bin("xor", address, b.bin("shl", pattern, integer(4, "i64")))
        place = addresses.place_at(self._e, "shared", address, 2 if kind == "i16" else 4, False)
        return read_memory(self._e, place, kind, 1)[0]


@handles("wgmma")
def wgmma(e: Emitter, i: Instruction) -> None:
    if "mma_async" not in i.modifiers:
        check(e, i, {"fence", "commit_group", "wait_group", "sync", "aligned"})
        return
    shape = next((match for item in i.modifiers if (match := _SHAPE.fullmatch(item))), None)
    types = [item for item in i.modifiers if item in _DEPTHS or item in ("f32", "s32")]
    check(e, i, {"mma_async", "sync", "aligned", "satfinite", *types, shape[0] if shape else ""})
    if shape is None or len(types) != 3 or int(shape[2]) != _DEPTHS.get(types[1]) or int(shape[1]) % 8:
        raise e.fail(f"unsupported {i.text}")
    d, a, right_type = types
    columns = int(shape[1])
    left, right, keeps, *settings = i.sources[1:]
    scales, turns = _settings(e, i, settings, a, isinstance(left, Vector))
    per = 1 if d == "f16" else 2
    kind = {"f16": "i32", "f32": "float", "s32": "i32"}[d]
    b = e.body
    keep = e.read(keeps, "i1")
    zero = b.splat(Val("0.0", "float", False)) if kind == "float" else b.splat(integer(0, "i32"))
    start = [b.select(keep, value, zero) for value in matrix.registers(e, i, 0, kind, columns // 8 * 2 * per)]
    if isinstance(left, Vector):
        rows = matrix.registers(e, i, 1, "i32", 4)
    else:
        warp = b.bin("and", b.resize(special(e, "warpid"), "i64"), integer(3, "i64"))
        piece = b.bin("shl", warp, integer(1, "i64"))
        operand = _Operand(e, e.read(left, "i64"), turns[0])
        rows = [
            operand.register(b.bin("add", piece, integer(half, "i64")), step) for step in range(2) for half in range(2)
        ]
    if scales[0] * scales[1] < 0:
        rows = [b.bin("xor", value, integer(_SIGNS[a] - (1 << 32), "i32")) for value in rows]
    operand = _Operand(e, e.read(right, "i64"), turns[1])
    results: list[Val] = []
    for first in range(0, columns, COLUMNS):
        count = min(COLUMNS, columns - first) // 8
        across = [
            operand.register(integer(first // 8 + tile, "i64"), step) for tile in range(count) for step in range(2)
        ]
        order = [(tile * 2 + half) * per + part for half in range(2) for tile in range(count) for part in range(per)]
        mine = start[first // 8 * 2 * per :]
        found = matrix.combine(
            e, (ROWS, 8 * count, int(shape[2])), (d, a, right_type, d), rows, across, [mine[at] for at in order],
            saturating="satfinite" in i.modifiers,
        )  # fmt: skip
        turned_back = dict(zip(order, found, strict=True))
        results += [turned_back[at] for at in range(len(order))]
    matrix.define(e, i, results)


def _settings(
    e: Emitter, i: Instruction, settings: list[object], a: str, in_registers: bool
) -> tuple[list[int], list[bool]]:
    """The immediate operands: the signs of A and B, and whether each lies along its rows."""
    values = []
    for setting in settings:
        if not isinstance(setting, Immediate):
            raise e.fail(f"malformed {i.text}")
        values.append(-1 if setting.value == (1 << 64) - 1 else setting.value)
    signs = 0 if a in ("s8", "u8") else 2
    turning = 0 if a not in _TURNING else 1 if in_registers else 2
    if len(values) != signs + turning or any(value not in (1, -1) for value in values[:signs]):
        raise e.fail(f"malformed {i.text}")
    turns = [False, False, *(value == 1 for value in values[signs:])]
    return values[:signs] or [1, 1], turns[-2:]
