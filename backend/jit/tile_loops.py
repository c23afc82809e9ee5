"""The loops that do the additions of a register tile (register_tiles.py): few sums at a time, which stay in registers for all steps.

A warp's value is cut into pieces of one vector register. For each piece of the lanes, and each group of rows and columns whose sums find registers beside
their factors, an inner loop goes through the steps. Factors lie in two arrays on the stack, each stored where the block computes it, step by step; sums in
an array of their own, or in their home. Only active lanes' sums are written: where lanes have parted, the others' may be of another iteration.

The loops are a hundredth of the code that the additions would be one by one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from farlane.backend.jit import native
from farlane.backend.jit.ir import BITS, LANES, Val
from farlane.backend.jit.register_tiles import Tile, place_of
from farlane.backend.jit.ssa import Value
from farlane.backend.jit.types import REGISTER_LLVM

if TYPE_CHECKING:
    from farlane.backend.jit.codegen import FunctionEmitter

_LEFT, _RIGHT, _SUMS = "%tile.left", "%tile.right", "%tile.sums"


def reserve(e: FunctionEmitter) -> None:
    """The arrays on the stack."""
    tiles = e.tiles
    if not tiles.at:
        return
    for name, (kind, count) in tiles.arrays.items():
        size = count * _vector_bytes(kind)
        e.allocas.append(f"  {name} = alloca [{size} x i8], align 64")
        e.allocas.append(f"  call void @llvm.memset.p0.i64(ptr align 64 {name}, i8 0, i64 {size}, i1 false)")
        for number in range(count):
            e.allocas.append(f"  {place_of(name, number)} = getelementptr i8, ptr {name}, i64 {number * _vector_bytes(kind)}")
    each = tiles.at.values()
    for name, size in (
        (_LEFT, max(tile.steps * tile.rows * _vector_bytes(tile.type) for tile in each)),
        (_RIGHT, max(tile.steps * tile.columns * _vector_bytes(tile.type) for tile in each)),
        (_SUMS, max(len(tile.after) * _vector_bytes(tile.type) for tile in each)),
    ):
        e.allocas.append(f"  {name} = alloca [{size} x i8], align 64")


class Factors:
    """The factors of a block's tile, stored as they become known."""

    def __init__(self, e: FunctionEmitter, tile: Tile) -> None:
        self.e, self.tile = e, tile
        self._wanted: dict[Any, list[tuple[str, int]]] = {}
        for name, steps in ((_LEFT, tile.left), (_RIGHT, tile.right)):
            for number, factor in enumerate(factor for step in steps for factor in step):
                self._wanted.setdefault(factor, []).append((name, number))

    def store(self, factor: Any) -> None:
        """Stores a value if it is a factor that has not been stored yet."""
        for name, number in self._wanted.pop(factor, ()):
            b, size = self.e.body, _vector_bytes(self.tile.type)
            b.store(b.splat(self.e.read(factor, self.tile.type)), b.gep(name, number * size), ", align 64")

    def rest(self) -> None:
        """Stores what comes from other blocks, and constants."""
        for factor in list(self._wanted):
            self.store(factor)


def emit(e: FunctionEmitter, tile: Tile, factors: Factors) -> None:
    """All additions of a tile, for the active lanes."""
    b = e.body
    factors.rest()
    size = _vector_bytes(tile.type)
    sums = tile.home or _SUMS
    for number, value in enumerate(tile.before):
        if tile.home is None or not isinstance(value, Value) or e.tiles.homes.get(value) != (sums, number):
            place = b.gep(sums, number * size)
            e.blend(place, b.splat(e.read(value, tile.type)), e.mask if tile.home else None)
    _loops(e, tile, sums)
    if tile.home is not None:
        return
    for number, value in enumerate(tile.after):
        found = b.load(REGISTER_LLVM[value.type], True, b.gep(sums, number * size))
        if value in e.tiles.homes:
            e.blend(e.value_slot(value), found, e.mask)
        else:
            e.define(value, found)


def _vector_bytes(kind: str) -> int:
    return LANES * BITS[kind] // 8


def _registers(e: FunctionEmitter) -> tuple[int, int]:
    """Bytes of a vector register, and how many there are."""
    features = e.kernel.options.features
    known = (native.host()[1] if features is None else features).split(",")
    if "+avx512f" in known:
        return 64, 32
    if "+avx" in known:
        return 32, 16
    return 16, 32 if "+neon" in known else 16


def _group(rows: int, columns: int, registers: int) -> tuple[int, int]:
    """How many rows and columns at once: their sums, the factors of a side and one of the other have registers, and few loads serve many additions."""
    shapes = [
        (high, wide)
        for high in range(1, rows + 1)
        for wide in range(1, columns + 1)
        if rows % high == columns % wide == 0 and high * wide + min(high, wide) + 1 < registers
    ]
    return max(shapes, key=lambda shape: (shape[0] * shape[1] / (shape[0] + shape[1]), shape))


def _loops(e: FunctionEmitter, tile: Tile, sums: str) -> None:
    b, kind, size = e.body, tile.type, _vector_bytes(tile.type)
    piece_bytes, registers = _registers(e)
    width, pieces = piece_bytes * 8 // BITS[kind], size // piece_bytes
    high, wide = _group(tile.rows, tile.columns, registers)
    across = tile.columns // wide
    shown = f"<{width} x {kind}>"
    fma = f"@llvm.fma.v{width}f{BITS[kind]}"
    e.kernel.declare(f"declare {shown} {fma}({shown}, {shown}, {shown})")

    def number(text: str) -> str:
        return b.op(text, "i64", False).name

    def address(base: str, *parts: tuple[str, int]) -> str:
        """A pointer to base + the sum of index * bytes."""
        for index, scale in parts:
            base = b.gep(base, Val(number(f"mul i64 {index}, {scale}"), "i64"))
        return base

    before, outer, after = b.label, b.new_label("tile"), b.new_label("tiled")
    following = b.name("tile")
    b.branch(outer)
    b.block(outer)
    turn = number(f"phi i64 [ 0, %{before} ], [ {following}, %{outer} ]")
    piece = number(f"urem i64 {turn}, {pieces}")
    group = number(f"udiv i64 {turn}, {pieces}")
    row, column = number(f"udiv i64 {group}, {across}"), number(f"urem i64 {group}, {across}")
    start = (piece, piece_bytes)
    left = address(_LEFT, start, (row, high * size))
    right = address(_RIGHT, start, (column, wide * size))
    place = address(sums, start, (row, high * tile.columns * size), (column, wide * size))
    places = [
        b.gep(place, (down * tile.columns + along) * size) for down in range(high) for along in range(wide)
    ]
    align = f"align {piece_bytes}"

    def load(base: str, number: int) -> str:
        return b.op(f"load {shown}, ptr {b.gep(base, number * size)}, {align}", kind, False).name

    old = [b.op(f"load {shown}, ptr {each}, {align}", kind, False).name for each in places]
    new = old
    for step in range(tile.steps):
        x = [load(left, step * tile.rows + each) for each in range(high)]
        y = [load(right, step * tile.columns + each) for each in range(wide)]
        new = [
            b.op(f"call {shown} {fma}({shown} {x[n // wide]}, {shown} {y[n % wide]}, {shown} {one})", kind, False).name
            for n, one in enumerate(new)
        ]
    if e.mask is not None:
        shift = b.op(f"trunc i64 {number(f'mul i64 {piece}, {width}')} to i32", "i32", False)
        bits = b.op(f"trunc {b.bin('lshr', e.mask_bits, shift)} to i{width}", f"i{width}", False).name
        mask = b.op(f"bitcast i{width} {bits} to <{width} x i1>", "i1", False).name
        new = [
            b.op(f"select <{width} x i1> {mask}, {shown} {one}, {shown} {other}", kind, False).name
            for one, other in zip(new, old, strict=True)
        ]
    for each, result in zip(places, new, strict=True):
        b.line(f"store {shown} {result}, ptr {each}, {align}")
    b.line(f"{following} = add i64 {turn}, 1")
    turns = pieces * (tile.rows // high) * across
    b.branch_if(Val(b.op(f"icmp ult i64 {following}, {turns}", "i1", False).name, "i1"), outer, after)
    b.block(after)
