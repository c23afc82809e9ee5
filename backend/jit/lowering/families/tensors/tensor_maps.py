"""Tensor maps: the 128 bytes that describe a tensor in global memory and the box that a tensor copy moves.

CUDA leaves the layout open. This one is written by the guest (`frontend/shim/crates/driver/src/tensor.rs`) and by `tensormap.replace`:

    offset  0 u64 address       16 u8 swizzle      40 u16[5] box, elements       88 i16[3] lower corner of pixels: W, H, D
            8 u32 MAGIC         17 u8 fill          50 u8[5] element strides     94 i16[3] upper corner
           12 u8 rank           18 u8 L2 promotion  56 u64[4] strides, bytes    100 u16 pixels of a column
           13 u8 element type   20 u32[5] sizes
           14 u8 mode: 0 tiles, 1 im2col (then the box's first number is the channels of a pixel)
           15 u8 interleave

It is aligned to 64 bytes. Numbers of types, swizzles and fills are those of CUtensorMapDataType, CUtensorMapSwizzle and CUtensorMapFloatOOBfill. A size of 2^32 is 0.
What a map says is not trusted: the map, and every element, is accessed as other memory is, with the same checks.

Source: PTX ISA, "Tensors", "tensormap.replace"; CUDA driver API, "Tensor Map Object Management".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from farlane.backend.jit.lowering import checks, support
from farlane.backend.jit.lowering.families.accesses import addresses
from farlane.backend.jit.lowering.families.accesses.memory import read_memory, write_memory
from farlane.backend.jit.lowering.families.base import check, handles
from farlane.backend.jit.lowering.ir import BITS, Val, integer
from farlane.backend.jit.ptx.model import Address, Instruction, Vector
from farlane.backend.jit.runtime.structures import FaultKind

if TYPE_CHECKING:
    from farlane.backend.jit.lowering.emitter import Emitter

MAGIC = 0x504D_5446
BYTES = 128
RANK, TYPE, MODE, INTERLEAVE, SWIZZLE, FILL = 12, 13, 14, 15, 16, 17
SIZES, BOX, ELEMENT_STRIDES, STRIDES, LOWER, UPPER, PIXELS = 20, 40, 50, 56, 88, 94, 100
TF32 = 11  # and what follows it
TYPES = 13  # 16U4 and 16U6 are not among them
SWIZZLES = 7
_HALF = 64  # bytes to which a map is aligned
LOG_SIZES = (0, 1, 2, 2, 3, 3, 1, 2, 3, 1, 2, 2, 2)
# The driver's number of a type by PTX's: f32.ftz stands elsewhere.
_FROM_PTX = (0, 1, 2, 3, 4, 5, 6, 7, 10, 8, 9, 11, 12)


def looked_up(e: Emitter, table: tuple[int, ...], index: Val, bits: int) -> Val:
    """table[index] of at most 64 bits in all, for a scalar i64 index within the table."""
    packed = sum(value << bits * number for number, value in enumerate(table))
    b = e.body
    place = b.bin("mul", index, integer(bits, "i64"))
    return b.bin("and", b.bin("lshr", integer(packed, "i64"), place), integer((1 << bits) - 1, "i64"))


def require(e: Emitter, good: Val, kind: FaultKind = FaultKind.ILLEGAL_INSTRUCTION) -> None:
    """Ends the launch unless a scalar condition holds."""
    support.fault_if(e, e.body.invert(good), int(kind))


def host_address(e: Emitter, place: addresses.Place, lane: Val) -> Val:
    """Where one lane's access goes, as a number."""
    b = e.body
    index = b.lane(addresses.as_offsets(e, place).index, lane)
    if place.base == "null":
        return index
    return b.bin("add", b.op(f"ptrtoint ptr {place.base} to i64", "i64", False), index)


class TensorMap:
    """A map that one lane names: its fields as i64, of a copy that others cannot change."""

    def __init__(self, e: Emitter, space: str, address: Val, lane: Val) -> None:
        self._e = e
        self._copy = e.slot("%tensor.map", f"[{BYTES // 8} x i64]", False, initial=False)
        b = e.body
        for part in range(0, BYTES, _HALF):
            at = b.bin("add", address, integer(part, "i64"))
            place = addresses.place_at(e, space, at, _HALF, False)
            start = b.cast("inttoptr", host_address(e, place, lane), "ptr").name
            for word in range(0, _HALF, 8):
                b.store(b.load("i64", False, b.gep(start, word), ", align 8"), b.gep(self._copy, part + word))

    def field(self, offset: int, kind: str = "i8", signed: bool = False) -> Val:
        b = self._e.body
        value = b.load(kind, False, b.gep(self._copy, offset), f", align {BITS[kind] // 8}")
        return b.resize(value, "i64", signed)

    def size(self, axis: int) -> Val:
        b = self._e.body
        less = b.bin("sub", self.field(SIZES + 4 * axis, "i32"), integer(1, "i64"))
        return b.bin("add", b.bin("and", less, integer(0xFFFF_FFFF, "i64")), integer(1, "i64"))

    def stride(self, axis: int) -> Val:
        """From one element to the next along an axis but the first, in bytes."""
        return self.field(STRIDES + 8 * (axis - 1), "i64")

    def step(self, axis: int) -> Val:
        """Elements from one that is copied to the next."""
        return self._e.body.call("umax", "i64", [self.field(ELEMENT_STRIDES + axis), integer(1, "i64")])

    def box(self, axis: int) -> Val:
        return self.field(BOX + 2 * axis, "i16")

    def log_size(self) -> Val:
        """Log2 of an element's bytes."""
        return looked_up(self._e, LOG_SIZES, self.field(TYPE), 2)

    def corner(self, offset: int, axis: int) -> Val:
        return self.field(offset + 2 * (axis - 1), "i16", True)

    def validate(self, rank: int, im2col: bool) -> None:
        """What is no map of this rank and mode ends the launch."""
        b = self._e.body
        good = b.icmp("eq", self.field(8, "i32"), integer(MAGIC, "i64"))
        for offset, value in ((RANK, rank), (MODE, int(im2col)), (INTERLEAVE, 0)):
            good = b.bin("and", good, b.icmp("eq", self.field(offset), integer(value, "i64")))
        for offset, limit in ((TYPE, TYPES), (SWIZZLE, SWIZZLES), (FILL, 2)):
            good = b.bin("and", good, b.icmp("ult", self.field(offset), integer(limit, "i64")))
        require(self._e, good)


def operand(e: Emitter, i: Instruction, item: Any) -> tuple[tuple[str, Val], list[Any]]:
    """(the map's space and address, the coordinates) of [map, {c0, c1, ...}]."""
    if not isinstance(item, Vector) or len(item.items) < 2 or None in item.items:
        raise e.fail(f"malformed {i.text}")
    handle, *coordinates = item.items
    return addresses.effective(e, Address(handle), ""), coordinates


# tensormap -----------------------------------------------------------------------------------------------------------
# Field -> offset, element type, distance of its elements (0: it has one).
_FIELDS = {
    "global_address": (0, "i64", 0), "rank": (RANK, "i8", 0), "box_dim": (BOX, "i16", 2), "global_dim": (SIZES, "i32", 4),
    "global_stride": (STRIDES, "i64", 8), "element_stride": (ELEMENT_STRIDES, "i8", 1), "elemtype": (TYPE, "i8", 0),
    "interleave_layout": (INTERLEAVE, "i8", 0), "swizzle_mode": (SWIZZLE, "i8", 0), "swizzle_atomicity": (SWIZZLE, "i8", 0),
    "fill_mode": (FILL, "i8", 0),
}  # fmt: skip
_CHOICES = {"interleave_layout": range(3), "swizzle_mode": range(4), "fill_mode": range(2), "elemtype": range(TYPES)}


@handles("tensormap")
def tensormap(e: Emitter, i: Instruction) -> None:
    if i.modifiers[0] == "cp_fenceproxy":
        _copy_map(e, i)
        return
    check(e, i, {"replace", "tile", "global", "shared::cta", "b1024", "b32", "b64", *_FIELDS})
    name = next((item for item in i.modifiers if item in _FIELDS), "")
    if i.modifiers[0] != "replace" or not name:
        raise e.fail(f"unsupported {i.text}")
    offset, kind, distance = _FIELDS[name]
    if len(i.sources) != (3 if distance else 2):
        raise e.fail(f"malformed {i.text}")
    b = e.body
    if distance:
        number = e.constant(i.sources[1])
        if number is None or not 0 <= number < (4 if name == "global_stride" else 5):
            raise e.fail(f"malformed {i.text}")
        offset += distance * number
    space, address = addresses.effective(e, i.sources[0], addresses.space_of(i))
    at = addresses.place_at(e, space, b.bin("add", address, integer(offset, "i64")), BITS[kind] // 8, True)
    if name == "swizzle_atomicity":
        value = _atomicity(e, i, at)
    elif name in _CHOICES:
        chosen = e.constant(i.sources[-1])
        if chosen is None or chosen not in _CHOICES[name]:
            raise e.fail(f"unsupported value in {i.text}")
        value = integer(_FROM_PTX[chosen] if name == "elemtype" else chosen, kind)
    else:
        value = b.resize(e.read(i.sources[-1], "i64" if i.modifiers[-1] == "b64" else "i32"), kind)
        if name == "rank":  # it counts from 0
            value = b.bin("add", value, integer(1, kind))
    write_memory(e, at, kind, [value])


def _atomicity(e: Emitter, i: Instruction, at: addresses.Place) -> Val:
    """Of a swizzle of 128 bytes: 16 bytes, 32, 32 with a flip of 8, 64. Others have 16 alone."""
    b = e.body
    chosen = e.constant(i.sources[-1])
    if chosen is None or not 0 <= chosen < 4:
        raise e.fail(f"unsupported value in {i.text}")
    old = read_memory(e, at, "i8", 1)[0]
    return b.select(b.icmp("uge", old, integer(3, "i8")), integer(3 + chosen, "i8"), old)


def _copy_map(e: Emitter, i: Instruction) -> None:
    """tensormap.cp_fenceproxy: the whole warp copies one map."""
    allowed = {"cp_fenceproxy", "global", "shared::cta", "tensormap::generic", "release", "sync", "aligned"}
    check(e, i, allowed | {"cta", "cluster", "gpu", "sys"}, 3)
    if e.constant(i.sources[2]) != BYTES:
        raise e.fail(f"malformed {i.text}")
    b = e.body
    target, source = (
        addresses.effective(e, item, space) for item, space in zip(i.sources, ("global", "shared"), strict=False)
    )
    for part in range(0, BYTES, 16):
        places = [
            addresses.place_at(e, space, b.bin("add", address, integer(part, "i64")), 16, write)
            for (space, address), write in ((source, False), (target, True))
        ]
        write_memory(e, places[1], "i64", read_memory(e, places[0], "i64", 2))
    checks.fence(e)
    b.line("fence seq_cst")
