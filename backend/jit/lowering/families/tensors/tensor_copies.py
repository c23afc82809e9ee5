"""Tensor copies: cp.async.bulk.tensor, cp.reduce.async.bulk.tensor, their prefetch.

A tensor map (tensor_maps.py) says which box of a tensor in global memory corresponds to a run of rows in shared memory. Each lane that issues a copy
walks its box row by row, 16 bytes at a time, when it asks for the copy; then the mbarrier hears of the box's bytes. What lies outside of the tensor
is zero (or NaN, if the map says so) and counts; stores leave it out. Rows lie behind each other, or a swizzle's span apart where that is
longer; a swizzle changes some bits of a place in shared memory by higher bits of its address.

Left open by PTX, decided here: f32 that is read as tf32 is rounded to nearest, halves away from zero (as cvt.rna); f32.ftz is f32;
stores and reductions change no values. Not there: interleaved layouts, elements of less than a byte, tile::scatter4, im2col::w.

Source: PTX ISA, "Tensors", "cp.async.bulk.tensor"; CUDA programming guide, "Swizzle patterns".
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from farlane.backend.jit.lowering import checks, support, touches
from farlane.backend.jit.lowering.checks import PLAIN
from farlane.backend.jit.lowering.families.accesses import addresses
from farlane.backend.jit.lowering.families.base import check
from farlane.backend.jit.lowering.families.tensors import tensor_maps, tensor_pieces, tensor_walks
from farlane.backend.jit.lowering.families.tensors.mbarriers import ITSELF, each_rank, update
from farlane.backend.jit.lowering.families.tensors.tensor_maps import TensorMap, require
from farlane.backend.jit.lowering.families.tensors.tensor_pieces import CHUNK, Piece
from farlane.backend.jit.lowering.ir import Val, integer
from farlane.backend.jit.ptx.model import Instruction
from farlane.backend.jit.runtime.clusters import OFFSET_MASK
from farlane.backend.jit.runtime.structures import FaultKind

if TYPE_CHECKING:
    from farlane.backend.jit.lowering.emitter import Emitter

_DIMENSIONS = {"1d": 1, "2d": 2, "3d": 3, "4d": 4, "5d": 5}
_IM2COL = {"im2col", "im2col_no_offs"}
_GATHER = "tile::gather4"  # four rows of a matrix that lie anywhere
_COMPLETES = "mbarrier::complete_tx::bytes"
_MULTICAST = "multicast::cluster"
_KNOWN = {
    "async", "bulk", "tensor", "tile", "shared::cta", "shared::cluster", "global", "bulk_group", "L2::cache_hint", _COMPLETES, _MULTICAST,
    *_DIMENSIONS, *_IM2COL, _GATHER,
}  # fmt: skip
_ALIGNMENT = 128  # of the box in shared memory
_MOST = 1 << 18  # bytes of a box: more than any block has
# By the number of a swizzle: the bits of an address from 7 on that count, and where they are added. Its span: 16 << min(number, 3).
_BITS, _PLACES = (0, 1, 3, 7, 3, 3, 1), (4, 4, 4, 4, 5, 5, 6)
_FLIPPING = 5  # also exchanges the halves of 16 bytes in every second line of 128


@dataclass(frozen=True, slots=True)
class _Copy:
    """What an instruction asks for, as the lanes have it; values may differ between them."""

    text: Instruction
    reading: bool  # from global to shared memory
    operation: str  # of a reduction
    map: tuple[str, Val]
    coordinates: list[Val]
    offsets: list[Val]  # of im2col
    shared: tuple[str, Val]
    barrier: Val | None
    ranks: Val | None

    @property
    def im2col(self) -> bool:
        return bool(_IM2COL & set(self.text.modifiers))

    @property
    def gathers(self) -> bool:
        return _GATHER in self.text.modifiers

    @property
    def rank(self) -> int:
        return 2 if self.gathers else len(self.coordinates)


def copy(e: Emitter, i: Instruction) -> None:
    """Any tensor copy."""
    if "prefetch" in i.modifiers:  # a hint
        check(e, i, _KNOWN | {"prefetch", "L2"})
        return
    asked = _asked(e, i)
    touches.begin(e)
    with _each_lane(e) as lane:
        described = TensorMap(e, asked.map[0], e.body.lane(asked.map[1], lane), lane)
        described.validate(asked.rank, asked.im2col)
        if asked.ranks is None:
            _move(e, asked, described, lane, asked.shared, asked.barrier)
            return
        assert asked.barrier is not None
        with each_rank(e, e.body.lane(asked.ranks, lane)) as named:
            _move(e, asked, described, lane, ("cluster", named(asked.shared[1])), named(asked.barrier))


def _asked(e: Emitter, i: Instruction) -> _Copy:
    """Reads every operand, in front of the loop over the lanes."""
    operation = next((item for item in i.modifiers if item in tensor_pieces.OPERATIONS), "")
    check(e, i, _KNOWN | ({"reduce", operation} if "reduce" in i.modifiers else set()))
    sources = list(i.sources[:-1] if "L2::cache_hint" in i.modifiers else i.sources)
    reading, several, im2col = _COMPLETES in i.modifiers, _MULTICAST in i.modifiers, "im2col" in i.modifiers
    rank = next((_DIMENSIONS[item] for item in i.modifiers if item in _DIMENSIONS), 0)
    spaces = [item for item in i.modifiers if item in addresses.SPACES]
    order = (["shared::cta"], ["shared::cluster"]) if reading else (["global"],)
    malformed = (
        not rank or len(spaces) != 2 or spaces[:1] not in order or spaces[1] != ("global" if reading else "shared::cta")
    )
    malformed |= len(sources) != (3 + im2col + several if reading else 2) or reading == ("bulk_group" in i.modifiers)
    malformed |= several and spaces[0] != "shared::cluster"
    malformed |= (
        ("reduce" in i.modifiers) != bool(operation) or (reading and bool(operation)) or (im2col and not reading)
    )
    if malformed or (_IM2COL & set(i.modifiers) and rank < 3):
        raise e.fail(f"unsupported {i.text}")
    shared, described = (sources[0], sources[1]) if reading else (sources[1], sources[0])
    tensor, coordinates = tensor_maps.operand(e, i, described)
    gathers = _GATHER in i.modifiers
    if len(coordinates) != (5 if gathers else rank) or (gathers and (rank != 2 or not reading)):
        raise e.fail(f"malformed {i.text}")
    offsets: list[Any] = []
    if im2col:
        offsets = list(getattr(sources[3], "items", [sources[3]]))
        if len(offsets) != rank - 2:
            raise e.fail(f"malformed {i.text}")
    b = e.body
    space = addresses.space_named(spaces[0] if reading else spaces[1])
    return _Copy(
        i, reading, operation, tensor,
        [b.cast("sext", e.read(item, "i32"), "i64") for item in coordinates],
        [b.cast("zext", e.read(item, "i16"), "i64") for item in offsets],
        addresses.effective(e, shared, space),
        addresses.effective(e, sources[2], space)[1] if reading else None,
        b.cast("zext", e.read(sources[-1], "i16"), "i32") if several else None,
    )  # fmt: skip


@contextlib.contextmanager
def _each_lane(e: Emitter) -> Iterator[Val]:
    """A loop over the active lanes: what is written inside is for one, whose number it is given."""
    b = e.body
    mask, bits = e.mask, e.mask_bits
    slot = e.slot("%tensor.lanes", "i32", False)
    b.store(bits, slot)
    loop, body, done = b.new_label("lanes"), b.new_label("lane"), b.new_label("over")
    b.branch(loop)
    b.block(loop)
    left = b.load("i32", False, slot)
    b.branch_if(b.icmp("ne", left, integer(0, "i32")), body, done)
    b.block(body)
    rest = b.bin("and", left, b.bin("sub", left, integer(1, "i32")))
    b.store(rest, slot)
    e.mask_bits = b.bin("xor", left, rest)
    e.mask = b.mask(e.mask_bits)
    yield b.call("cttz", "i32", [left], "i1 true")
    b.branch(loop)
    b.block(done)
    e.mask, e.mask_bits = mask, bits


def _move(
    e: Emitter, asked: _Copy, described: TensorMap, lane: Val, where: tuple[str, Val], barrier: Val | None
) -> None:
    """One lane's box, between the tensor and one block's shared memory."""
    b = e.body
    walks = tensor_walks.Pixels if asked.im2col else tensor_walks.Rows if asked.gathers else tensor_walks.Tile
    walk = walks(
        e, described, [b.lane(item, lane) for item in asked.coordinates], [b.lane(item, lane) for item in asked.offsets]
    )
    log = described.log_size()
    inner = b.bin("shl", walk.inner, log)
    even = b.icmp("eq", b.bin("and", inner, integer(CHUNK - 1, "i64")), integer(0, "i64"))
    few = b.icmp("ule", walk.rows, integer(_MOST, "i64"))
    require(e, b.bin("and", walk.sound, b.bin("and", even, few)))
    number = described.field(tensor_maps.SWIZZLE)
    span = b.bin("shl", integer(CHUNK, "i64"), b.call("umin", "i64", [number, integer(3, "i64")]))
    pitch = b.call("umax", "i64", [inner, span])
    box = _Box(e, where[0], b.lane(where[1], lane), b.bin("mul", walk.rows, pitch), number, lane)
    piece = Piece(e, described, log, lane, asked.reading, asked.operation)
    first = b.bin("shl", walk.first, log)  # the coordinate of the row's first byte: it may be negative
    piece.begin(first, inner, b.bin("shl", described.size(0), log))
    with support.counted(e, "%tensor.row", walk.rows) as row:
        inside, start = walk.row()
        source = b.bin("add", b.bin("add", described.field(0, "i64"), start), first)
        with support.counted(e, "%tensor.step", inner, CHUNK) as at:
            place = box.place(b.bin("add", b.bin("mul", row, pitch), at), not asked.operation and asked.reading)
            piece.move(b.bin("add", source, at), at, inside, place)
        walk.advance()
    if barrier is None:
        return
    moved = b.cast("trunc", b.bin("mul", walk.rows, inner), "i32")
    update(e, asked.text, "complete_tx", moved, addresses.place_at(e, where[0], b.lane(barrier, lane), 8, True, ITSELF))


class _Box:
    """A run of rows in shared memory, checked as a whole."""

    def __init__(self, e: Emitter, space: str, start: Val, extent: Val, swizzle: Val, lane: Val) -> None:
        b = e.body
        self._e, self._start = e, start
        require(
            e,
            b.icmp("ult", b.bin("and", start, integer(_ALIGNMENT - 1, "i64")), integer(1, "i64")),
            FaultKind.MISALIGNED_ADDRESS,
        )
        require(
            e, b.icmp("ult", b.bin("sub", extent, integer(1, "i64")), integer(_MOST, "i64")), FaultKind.ILLEGAL_ADDRESS
        )
        last = b.bin("add", start, b.bin("sub", extent, integer(CHUNK, "i64")))
        # The checks of races hear of each step, not of these two.
        ends = [addresses.unwatched(e, space, at, CHUNK, True) for at in (start, last)]
        # From a place in the block's own shared memory to the one that is meant.
        low = b.bin("and", start, integer(OFFSET_MASK, "i64"))
        host = tensor_maps.host_address(e, ends[0], lane)
        self._distance = b.bin("sub", host, low)
        self._bits = tensor_maps.looked_up(e, _BITS, swizzle, 4)
        self._shift = tensor_maps.looked_up(e, _PLACES, swizzle, 4)
        self._flips = b.icmp("eq", swizzle, integer(_FLIPPING, "i64"))

    def place(self, offset: Val, write: bool) -> tuple[addresses.Place, Val]:
        """(where 16 bytes of the box lie, whether their halves are exchanged)."""
        e, b = self._e, self._e.body
        plain = b.bin("add", b.bin("and", self._start, integer(OFFSET_MASK, "i64")), offset)
        line = b.bin("lshr", plain, integer(7, "i64"))
        turned = b.bin("xor", plain, b.bin("shl", b.bin("and", line, self._bits), self._shift))
        block = b.bin("and", self._start, integer(~OFFSET_MASK, "i64"))
        checks.watch(e, "shared", b.bin("or", turned, block), CHUNK, write, PLAIN)
        odd = b.icmp("ne", b.bin("and", line, integer(1, "i64")), integer(0, "i64"))
        return addresses.Place("null", b.bin("add", turned, self._distance)), b.bin("and", odd, self._flips)
