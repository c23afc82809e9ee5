"""Matrix instructions: mma and wmma (ldmatrix, stmatrix and movmatrix: matrix_moves.py).

One 32-bit register of a warp is a tile: 8 rows of four words, lane 4 r + w holding word w of row r. So a fragment register holds 8 rows of
4 (tf32), 8 (f16, bf16), 16 (s8, u8), 32 (s4, u4) or 128 (b1) elements along k; A's rows are the matrix's rows, B's are its columns. A 64-bit register is the same with
f64. Two accumulator registers of 32 bits make a tile of 8 x 8. Registers count tiles: down the rows first, then along k. That is PTX's layout of
mma; for wmma, whose layout is open, it is ours.

Products are computed tile by tile in a helper function: f32 accumulation in order of k with one rounding per step (PTX leaves order and
precision open), exact integers, f64 with fused steps. A sparse A becomes the whole matrix first (matrix_sparse.py). fp8 operands become f16, and those of 4 bits bytes, which hold them exactly; single bits are
combined by words.
Source: PTX ISA, "Matrix multiply-accumulate operation using mma / wmma instructions".
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from farlane.backend.jit.lowering.families.accesses import addresses
from farlane.backend.jit.lowering.families.accesses.memory import read_memory, write_memory
from farlane.backend.jit.lowering.families.arithmetic import narrow, tiny
from farlane.backend.jit.lowering.families.base import check, handles, pack
from farlane.backend.jit.lowering.families.tensors import matrix_product, matrix_sparse
from farlane.backend.jit.lowering.ir import Val, integer, lanes, widen
from farlane.backend.jit.ptx.model import LANES, Instruction, Vector

if TYPE_CHECKING:
    from farlane.backend.jit.lowering.emitter import Emitter

_SHAPE = re.compile(r"m([0-9]+)n([0-9]+)k([0-9]+)")
# Element -> elements in one register, accumulator.
ELEMENTS = {"f16": 2, "bf16": 2, "tf32": 1, "s8": 4, "u8": 4, "e4m3": 4, "e5m2": 4, "f64": 1}
ELEMENTS |= {"s4": 8, "u4": 8, "b1": 32}
_WORDS = {
    "f16": "i32",
    "bf16": "i32",
    "tf32": "i32",
    "s8": "i32",
    "u8": "i32",
    "e4m3": "i32",
    "e5m2": "i32",
    "f64": "double",
    "s4": "i32",
    "u4": "i32",
    "b1": "i32",
}
_ACCUMULATORS = {"f32": "float", "f16": "i32", "s32": "i32", "f64": "double"}
_MMA = {
    "f16": {(16, 8, 8), (16, 8, 16)},
    "bf16": {(16, 8, 8), (16, 8, 16)},
    "tf32": {(16, 8, 4), (16, 8, 8)},
    "s8": {(8, 8, 16), (16, 8, 16), (16, 8, 32)},
    "e4m3": {(16, 8, 16), (16, 8, 32)},
    "f64": {(8, 8, 4), (16, 8, 4), (16, 8, 8), (16, 8, 16)},
    "s4": {(8, 8, 32), (16, 8, 32), (16, 8, 64)},
    "b1": {(8, 8, 128), (16, 8, 128), (16, 8, 256)},
}
_SPARSE = {
    "f16": {(16, 8, 16), (16, 8, 32)},
    "bf16": {(16, 8, 16), (16, 8, 32)},
    "tf32": {(16, 8, 8), (16, 8, 16)},
    "s8": {(16, 8, 32), (16, 8, 64)},
    "s4": {(16, 8, 64), (16, 8, 128)},
    "e4m3": {(16, 8, 64)},
}
_SPARSE_FORMS = {"sp", "sp::ordered_metadata"}
_LARGE = {(16, 16, 16), (8, 32, 16), (32, 8, 16)}
_WMMA = {"f16": _LARGE, "bf16": _LARGE, "s8": _LARGE, "tf32": {(16, 16, 8)}, "f64": {(8, 8, 4)}}
_WMMA |= {"s4": {(8, 8, 32)}, "b1": {(8, 8, 128)}}
_GROUP = {"u8": "s8", "e5m2": "e4m3", "u4": "s4"}
_INTEGERS = {"s8", "u8", "s4", "u4", "b1"}
# Bits of an element where it is less than a byte.
_PARTS = {"s4": 4, "u4": 4, "b1": 1}
_CHECKED = {
    "sync",
    "aligned",
    "row",
    "col",
    "satfinite",
    "f32",
    "s32",
    "rn",
    "kind::f8f6f4",
    "xor",
    "and",
    "popc",
} | set(ELEMENTS)


def _shape(
    e: Emitter, i: Instruction, allowed: dict[str, set[tuple[int, int, int]]], element: str
) -> tuple[int, int, int]:
    for item in i.modifiers:
        match = _SHAPE.fullmatch(item)
        if match is not None:
            shape = (int(match.group(1)), int(match.group(2)), int(match.group(3)))
            if shape in allowed.get(_GROUP.get(element, element), ()):
                return shape
    raise e.fail(f"unsupported {i.text}")


def registers(e: Emitter, i: Instruction, position: int, kind: str, count: int) -> list[Val]:
    """The first `count` registers of a fragment operand."""
    operand = i.sources[position]
    items = operand.items if isinstance(operand, Vector) else (operand,)
    if len(items) < count or None in items:
        raise e.fail(f"malformed {i.text}")
    return [e.body.splat(e.read(item, kind)) for item in items[:count]]


def _accumulators(name: str, rows: int, columns: int) -> int:
    return rows * columns // LANES // (2 if name == "f16" else 1)


def define(e: Emitter, i: Instruction, values: list[Val]) -> None:
    if len(i.destinations) < len(values):
        raise e.fail(f"malformed {i.text}")
    zero = integer(0, "i32")
    for index, destination in enumerate(i.destinations):
        if destination is not None:
            value = values[index] if index < len(values) else e.body.splat(zero)
            e.define(destination, widen(e.body, value, destination.type, False))


@handles("mma")
def mma(e: Emitter, i: Instruction) -> None:
    check(e, i, _CHECKED | _SPARSE_FORMS | {item for item in i.modifiers if _SHAPE.fullmatch(item)})
    types = [item for item in i.modifiers if item in ELEMENTS or item in _ACCUMULATORS]
    sparse = bool(_SPARSE_FORMS & set(i.modifiers))
    if len(types) != 4 or len(i.sources) != (5 if sparse else 3) or ("satfinite" in i.modifiers and types[0] != "s32"):
        raise e.fail(f"unsupported {i.text}")
    shape = _shape(e, i, _SPARSE if sparse else _MMA, types[1])
    if [item for item in i.modifiers if item in ("row", "col")] != ["row", "col"]:
        raise e.fail(f"unsupported {i.text}")
    _multiply(e, i, shape, types)


def _multiply(e: Emitter, i: Instruction, shape: tuple[int, int, int], types: list[str]) -> None:
    """d = a b + c for types (d, a, b, c)."""
    rows, columns, depth = shape
    d, a, b, c = types
    integers = d == "s32"
    if _GROUP.get(a, a) != _GROUP.get(b, b) or (c == "s32") != integers or (a in _INTEGERS) != integers:
        raise e.fail(f"unsupported {i.text}")
    if (a == "f64") != (d == "f64" and c == "f64") or (d == "f16" and a != "f16" and "m" not in a):
        raise e.fail(f"unsupported {i.text}")
    operation = next((item for item in i.modifiers if item in ("xor", "and")), "")
    if ("popc" in i.modifiers) != (a == "b1") or bool(operation) != (a == "b1"):
        raise e.fail(f"unsupported {i.text}")
    tile = 4 * ELEMENTS[a]
    if _SPARSE_FORMS & set(i.modifiers):
        stored = registers(e, i, 0, "i32", rows // 8 * (depth // tile) // 2)
        left = matrix_sparse.expanded(e, i, stored, ELEMENTS[a])
    else:
        left = registers(e, i, 0, _WORDS[a], rows // 8 * (depth // tile))
    right = registers(e, i, 1, _WORDS[b], columns // 8 * (depth // tile))
    start = registers(e, i, 2, _ACCUMULATORS[c], _accumulators(c, rows, columns))
    define(e, i, combine(e, shape, (d, a, b, c), left, right, start, operation, "satfinite" in i.modifiers))


def combine(
    e: Emitter,
    shape: tuple[int, int, int],
    types: tuple[str, str, str, str],
    left: list[Val],
    right: list[Val],
    start: list[Val],
    operation: str = "",
    saturating: bool = False,
) -> list[Val]:
    """The registers of d = a b + c from those of a, b and c, for types (d, a, b, c) that go together."""
    (rows, columns, depth), (d, a, b, c) = shape, types
    tile = 4 * ELEMENTS[a]
    if "m" in a:
        # Bytes 0, 1 and bytes 2, 3 of a register become two f16 tiles. It orders k differently, in A and B alike.
        left = [
            half for part in range(0, len(left), rows // 8) for half in _as_halves(e, left[part : part + rows // 8], a)
        ]
        right = _as_halves_by_column(e, right, b, columns // 8, depth // tile)
        a = b = "f16"
    elif a in ("s4", "u4"):
        left = [
            half for part in range(0, len(left), rows // 8) for half in _as_bytes(e, left[part : part + rows // 8], a)
        ]
        right = [half for register in right for half in _as_bytes(e, [register], b)]
        a, b = a.replace("4", "8"), b.replace("4", "8")
    elif a == "b1":
        # Words take the place of elements.
        shape, a, b = (rows, columns, depth // 32), operation, operation
    product = matrix_product.Product(shape, a, b, c, d, saturating)
    return matrix_product.call(e, product, [*left, *right, *start])


def _as_halves(e: Emitter, registers: list[Val], name: str) -> list[Val]:
    """fp8 registers of one step along k as f16 registers: all with their lower bytes, then all with their upper bytes."""
    b = e.body
    result = []
    for shift in (0, 16):
        for value in registers:
            parts = [
                narrow.narrow(e, tiny.from_small(e, b.bin("lshr", value, integer(shift + byte, "i32")), name), "half")
                for byte in (0, 8)
            ]
            result.append(pack(e, *parts))
    return result


def _as_bytes(e: Emitter, registers: list[Val], name: str) -> list[Val]:
    """Registers of 4-bit elements of one step along k as registers of bytes: all with the even elements, then all with the odd ones."""
    b = e.body
    result = []
    for shift in (0, 4):
        for value in registers:
            element = b.bin("and", b.bin("lshr", value, integer(shift, "i32")), integer(0x0F0F0F0F, "i32"))
            if name == "s4":
                sign = b.bin("and", element, integer(0x08080808, "i32"))
                element = b.bin("or", element, b.bin("mul", sign, integer(0x1E, "i32")))
            result.append(element)
    return result


def _as_halves_by_column(e: Emitter, registers: list[Val], name: str, columns: int, steps: int) -> list[Val]:
    """The same for B, whose registers run along k first."""
    return [
        half
        for column in range(columns)
        for step in range(steps)
        for half in _as_halves(e, [registers[column * steps + step]], name)
    ]


# wmma ----------------------------------------------------------------------------------------------------------------
@handles("wmma")
def wmma(e: Emitter, i: Instruction) -> None:
    check(
        e, i,
        _CHECKED | addresses.SPACES | {"load", "store", "mma", "a", "b", "c", "d"} | {item for item in i.modifiers if _SHAPE.fullmatch(item)},
    )  # fmt: skip
    types = [item for item in i.modifiers if item in ELEMENTS or item in _ACCUMULATORS]
    if i.modifiers[0] != "mma":
        _fragment(e, i, types)
        return
    if len(types) == 2:
        types = [types[0], "f16", "f16", types[1]]
    if len(types) != 4 or len(i.sources) != 3 or ("satfinite" in i.modifiers and types[0] != "s32"):
        raise e.fail(f"unsupported {i.text}")
    _multiply(e, i, _shape(e, i, _WMMA, types[1]), types)


def _fragment(e: Emitter, i: Instruction, types: list[str]) -> None:
    """wmma.load.{a,b,c} and wmma.store.d: each lane accesses its own elements of every tile."""
    matrix, name = i.modifiers[1], types[0] if len(types) == 1 else ""
    inner = (
        {"f32": ("f16", "bf16", "tf32"), "s32": ("s8", "s4", "b1")}.get(name, (name,)) if matrix in "cd" else (name,)
    )
    allowed = {_GROUP.get(name, name): set().union(*(_WMMA.get(_GROUP.get(item, item), set()) for item in inner))}
    rows, columns, depth = _shape(e, i, allowed, name)
    store = i.modifiers[0] == "store"
    if (
        (matrix == "d") != store
        or (name in ("f32", "s32") and matrix in "ab")
        or (matrix in "cd" and name in _INTEGERS | {"bf16", "tf32"})
    ):
        raise e.fail(f"unsupported {i.text}")
    element, size = {
        "f16": ("i16", 2), "bf16": ("i16", 2), "s8": ("i8", 1), "u8": ("i8", 1), "f64": ("i64", 8),
    }.get(name, ("i32", 4))  # fmt: skip
    if matrix in "ab":
        # Tiles of B hold columns: its rows are the tile's other direction.
        across, along, width = (rows if matrix == "a" else columns), depth, 4 * ELEMENTS[name]
        by_row = ("row" in i.modifiers) == (matrix == "a")
        if name in _PARTS:
            # Words take the place of elements.
            along, width = along * _PARTS[name] // 32, 4
            if not by_row:
                raise e.fail(f"unsupported {i.text}")
    else:
        across, along, width, by_row = rows, columns, 8, "row" in i.modifiers
    per_word = width // 4
    extra = 2 if store else 1
    if len(i.sources) not in (extra, extra + 1):
        raise e.fail(f"malformed {i.text}")
    b = e.body
    default = integer(along if by_row else across, "i32")
    stride = e.read(i.sources[extra], "i32") if len(i.sources) > extra else default
    if name in _PARTS and len(i.sources) > extra:
        stride = b.bin("lshr", stride, integer(5 if name == "b1" else 3, "i32"))
    stride = b.resize(stride, "i64")
    space, base = addresses.effective(e, i.sources[0], addresses.space_of(i))
    tiles = [(down * 8, step * width) for step in range(along // width) for down in range(across // 8)]
    if matrix != "a":
        tiles = [(down * 8, step * width) for down in range(across // 8) for step in range(along // width)]
    words = _store_words(e, i, name, len(tiles)) if store else []
    results: list[Val] = []
    for number, (down, step) in enumerate(tiles):
        found = []
        for part in range(per_word):
            row = lanes([down + lane // 4 for lane in range(LANES)], "i64")
            column = lanes([step + lane % 4 * per_word + part for lane in range(LANES)], "i64")
            outer, nearby = (row, column) if by_row else (column, row)
            offset = b.bin("mul", b.bin("add", b.bin("mul", outer, stride), nearby), integer(size, "i64"))
            place = addresses.place_at(e, space, b.bin("add", base, offset), size, store)
            if store:
                write_memory(e, place, element, [words[number * per_word + part]])
            else:
                found.append(read_memory(e, place, element, 1)[0])
        results += _pack_words(e, name, matrix, found)
    if not store:
        define(e, i, results)


def _pack_words(e: Emitter, name: str, matrix: str, found: list[Val]) -> list[Val]:
    """The elements that a lane holds of one tile, as registers."""
    b = e.body
    if not found or found[0].type in ("i32", "i64"):
        return [b.splat(value) for value in found]
    bits = 16 if found[0].type == "i16" else 8
    word = integer(0, "i32")
    for index, value in enumerate(found):
        word = b.bin("or", word, b.bin("shl", b.cast("zext", b.splat(value), "i32"), integer(bits * index, "i32")))
    return [word]


def _store_words(e: Emitter, i: Instruction, name: str, tiles: int) -> list[Val]:
    """The accumulators of a lane, tile by tile, as integers of the element's size."""
    b = e.body
    if name != "f16":
        kind = {"f32": "i32", "s32": "i32", "f64": "i64"}[name]
        return registers(e, i, 1, kind, 2 * tiles)
    words = registers(e, i, 1, "i32", tiles)
    return [b.cast("trunc", b.bin("lshr", word, integer(shift, "i32")), "i16") for word in words for shift in (0, 16)]
