"""The loop that does the additions of a register tile (register_tiles.py): few sums at a time stay in vector registers.

A warp's value is cut into pieces of one vector register. The loop takes each piece of the lanes of each group of rows
and columns whose sums find registers beside their factors, and goes through the steps in a straight line. So there is
as much code as one group needs. Factors lie in two arrays on the stack: each is stored as soon as the block has
computed it. Sums lie in an array of their own, or in their home. Where lanes have parted, only active lanes' sums are
written: the others' may be of another iteration.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from farlane.backend.jit.analysis import register_tiles
from farlane.backend.jit.analysis.register_tiles import Tile, place_of
from farlane.backend.jit.lowering import processors
from farlane.backend.jit.lowering.ir import BITS, REGISTER_LLVM, Val
from farlane.backend.jit.ptx.model import LANES, Instruction
from farlane.backend.jit.ssa.ssa import Value

if TYPE_CHECKING:
    from farlane.backend.jit.lowering.emitters.codegen import FunctionEmitter

_LEFT, _RIGHT, _SUMS = "%tile.left", "%tile.right", "%tile.sums"


def plan(e: FunctionEmitter) -> None:
    """Finds the tiles of a kernel that has such, and reserves their arrays on the stack."""
    if not e.kernel.tiled or e.kernel.lane_fibers:
        return
    tiles = e.tiles = register_tiles.plan(e.graph)
    for name, (kind, count) in tiles.arrays.items():
        size = count * _vector_bytes(kind)
        e.allocas.append(f"  {name} = alloca [{size} x i8], align 64")
        e.allocas.append(f"  call void @llvm.memset.p0.i64(ptr align 64 {name}, i8 0, i64 {size}, i1 false)")
        for number in range(count):
            at = number * _vector_bytes(kind)
            e.allocas.append(f"  {place_of(name, number)} = getelementptr i8, ptr {name}, i64 {at}")
    for name, sizes in (
        (_LEFT, [tile.steps * tile.rows * _vector_bytes(tile.type) for tile in tiles.at.values()]),
        (_RIGHT, [tile.steps * tile.columns * _vector_bytes(tile.type) for tile in tiles.at.values()]),
        (_SUMS, [len(tile.after) * _vector_bytes(tile.type) for tile in tiles.at.values()]),
    ):
        e.allocas += [f"  {name} = alloca [{max(sizes)} x i8], align 64"] if sizes else []


class TileLoops:
    """The tile of the block that is being emitted."""

    def __init__(self, e: FunctionEmitter) -> None:
        self.e, self.tile = e, e.tiles.at[e.block]
        self._additions = {id(item) for item in self.tile.additions}
        self._wanted: dict[Any, list[tuple[str, int]]] = {}  # factors that have not been stored, and their places
        for name, steps in ((_LEFT, self.tile.left), (_RIGHT, self.tile.right)):
            for number, factor in enumerate(factor for step in steps for factor in step):
                self._wanted.setdefault(factor, []).append((name, number))

    def takes(self, instruction: Instruction) -> bool:
        """Whether an instruction is one of the additions. At the first one all are made."""
        if id(instruction) not in self._additions:
            return False
        if instruction is self.tile.additions[0]:
            self._emit()
        return True

    def store(self, values: Iterable[Any]) -> None:
        """Stores those of the values that are factors."""
        b, kind = self.e.body, self.tile.type
        for value in values:
            for name, number in self._wanted.pop(value, ()):
                factor = b.splat(self.e.read(value, kind))
                b.store(factor, b.gep(name, number * _vector_bytes(kind)), ", align 64")

    def _emit(self) -> None:
        e, b, tile = self.e, self.e.body, self.tile
        self.store(list(self._wanted))  # what comes from other blocks, and constants
        size, sums = _vector_bytes(tile.type), tile.home or _SUMS
        for number, value in enumerate(tile.before):
            if tile.home is None or not isinstance(value, Value) or e.tiles.homes.get(value) != (sums, number):
                first = b.splat(e.read(value, tile.type))
                e.blend(b.gep(sums, number * size), first, e.mask if tile.home else None)
        _loops(e, tile, sums)
        for number, value in enumerate(tile.after) if tile.home is None else ():
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
    known = (processors.host()[1] if features is None else features).split(",")
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
    """One loop over the pieces of all groups, in which the steps are a straight line."""
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
    places = [b.gep(place, (down * tile.columns + along) * size) for down in range(high) for along in range(wide)]
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
