"""Sparse matrix products (mma.sp): A is stored without half of its elements, and metadata says which these were.

Two elements of four are stored (one of two for tf32; of 4-bit elements two pairs of four), and for each two bits (four for tf32) say where
it was. So a stored register, which is a tile's word, becomes two words beside each other, and a tile two tiles along k. In each group of four lanes
the metadata of a row of 16 bits lies in one lane's word, row g below and row g + 8 above; rows of 32 bits have a lane each. The selector says which lanes.

Source: PTX ISA, "Sparse matrix storage", "mma.sp".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from farlane.backend.jit.lowering.ir import Val, integer, lanes
from farlane.backend.jit.ptx.model import LANES, Instruction

if TYPE_CHECKING:
    from farlane.backend.jit.lowering.emitter import Emitter

_ROW_TILES = 2


def expanded(e: Emitter, i: Instruction, stored: list[Val], elements: int) -> list[Val]:
    """The registers of the whole A for the stored ones, which have that many elements each."""
    b = e.body
    steps = len(stored) // _ROW_TILES
    selector = e.constant(i.sources[4])
    narrow = elements <= 2  # four bits of metadata for a register, else eight
    wanted = steps if narrow else _ROW_TILES * steps  # lanes of a group that hold metadata
    if selector is None or not 0 <= selector < 4 // wanted:
        raise e.fail(f"unsupported sparsity selector in {i.text}")
    metadata = b.splat(e.read(i.sources[3], "i32"))
    result: list[Val] = []
    for step in range(steps):
        words: list[tuple[Val, Val]] = []
        for row in range(_ROW_TILES):
            holder = selector * wanted + (step if narrow else _ROW_TILES * step + row)
            told = _of_lanes(e, metadata, metadata, [lane // 4 * 4 + holder for lane in range(LANES)])
            first = 16 * row if narrow else 0
            shifts = lanes([first + lane % 4 * (4 if narrow else 8) for lane in range(LANES)], "i32")
            places = b.bin("lshr", told, shifts)
            words.append((_by_halves if narrow else _by_bytes)(e, stored[_ROW_TILES * step + row], places))
        for part in range(2):
            # Words 0 and 1 of the group's lanes become the first tile, 2 and 3 the second.
            for low, high in words:
                order = [lane // 4 * 4 + 2 * part + lane % 4 // 2 + LANES * (lane % 2) for lane in range(LANES)]
                result.append(_of_lanes(e, low, high, order))
    return result


def _of_lanes(e: Emitter, low: Val, high: Val, order: list[int]) -> Val:
    shown = ", ".join(f"i32 {lane}" for lane in order)
    return e.body.op(f"shufflevector {low}, {high}, <{LANES} x i32> <{shown}>", "i32", True)


def _place(e: Emitter, places: Val, index: int) -> Val:
    """Two bits: where a stored element was among four."""
    b = e.body
    return b.bin("and", b.bin("lshr", places, integer(2 * index, "i32")), integer(3, "i32"))


def _by_halves(e: Emitter, word: Val, places: Val) -> tuple[Val, Val]:
    """Two elements of 16 bits among four. For tf32 the halves of one element, which the metadata names together."""
    b = e.body
    wide = integer(0, "i64")
    for index in range(2):
        half = b.bin("and", b.bin("lshr", word, integer(16 * index, "i32")), integer(0xFFFF, "i32"))
        shift = b.bin("shl", _place(e, places, index), integer(4, "i32"))
        wide = b.bin("or", wide, b.bin("shl", b.cast("zext", half, "i64"), b.cast("zext", shift, "i64")))
    return b.cast("trunc", wide, "i32"), b.cast("trunc", b.bin("lshr", wide, integer(32, "i64")), "i32")


def _by_bytes(e: Emitter, word: Val, places: Val) -> tuple[Val, Val]:
    """Twice two bytes among four: elements, or pairs of 4-bit ones."""
    b = e.body
    found = []
    for chunk in range(2):
        whole = integer(0, "i32")
        for index in (2 * chunk, 2 * chunk + 1):
            byte = b.bin("and", b.bin("lshr", word, integer(8 * index, "i32")), integer(0xFF, "i32"))
            whole = b.bin("or", whole, b.bin("shl", byte, b.bin("shl", _place(e, places, index), integer(3, "i32"))))
        found.append(whole)
    return found[0], found[1]
