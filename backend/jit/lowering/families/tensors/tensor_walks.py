"""The rows of a tensor copy's box: how many, which elements they have, and where each one lies in global memory.

A row is what lies side by side in shared memory: elements along the tensor's first axis. `Tile` goes through a box of up to five axes;
`Pixels` through the pixels of images, from a filter's place on, within the bounding box of such places (im2col).

Source: PTX ISA, "Tiled Mode", "im2col mode".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from farlane.backend.jit.lowering.families.tensors.tensor_maps import LOWER, PIXELS, UPPER, TensorMap
from farlane.backend.jit.lowering.ir import Val, integer

if TYPE_CHECKING:
    from farlane.backend.jit.lowering.emitter import Emitter


class _Walk:
    """What both have: `rows` of `inner` elements from the coordinate `first` on, if the map is `sound`."""

    rows: Val
    inner: Val
    first: Val
    sound: Val

    def __init__(self, e: Emitter, described: TensorMap, coordinates: list[Val]) -> None:
        self._e, self._map, self._coordinates = e, described, coordinates
        self.inner, self.first = described.box(0), coordinates[0]

    @property
    def _axes(self) -> range:
        return range(1, len(self._coordinates))

    def _slot(self, axis: int) -> str:
        return self._e.slot(f"%tensor.axis{axis}", "i64", False)

    def _row_at(self, places: dict[int, Val]) -> tuple[Val, Val]:
        """(whether a row is in the tensor, its distance from the tensor's start in bytes), by its place along each axis but the first."""
        b = self._e.body
        inside, start = integer(1, "i1"), integer(0, "i64")
        for axis, place in places.items():
            inside = b.bin("and", inside, b.icmp("ult", place, self._map.size(axis)))
            start = b.bin("add", start, b.bin("mul", place, self._map.stride(axis)))
        return inside, start


class Tile(_Walk):
    """The rows of a box: every element along an axis, or every second, third, ..."""

    def __init__(self, e: Emitter, described: TensorMap, coordinates: list[Val], offsets: list[Val]) -> None:
        super().__init__(e, described, coordinates)
        del offsets  # of im2col
        b = e.body
        self._counts = {}
        self.rows, self.sound = integer(1, "i64"), b.icmp("ne", self.inner, integer(0, "i64"))
        for axis in self._axes:
            step = described.step(axis)
            rounded = b.bin("sub", b.bin("add", described.box(axis), step), integer(1, "i64"))
            self._counts[axis] = count = b.bin("udiv", rounded, step)
            self.rows = b.bin("mul", self.rows, count)
            b.store(integer(0, "i64"), self._slot(axis))
        # Five numbers of 16 bits do not overflow; none of them may be 0.
        self.sound = b.bin("and", self.sound, b.icmp("ne", self.rows, integer(0, "i64")))

    def row(self) -> tuple[Val, Val]:
        b = self._e.body
        places = {}
        for axis in self._axes:
            steps = b.bin("mul", b.load("i64", False, self._slot(axis)), self._map.step(axis))
            places[axis] = b.bin("add", self._coordinates[axis], steps)
        return self._row_at(places)

    def advance(self) -> None:
        b = self._e.body
        carried = integer(1, "i64")
        for axis in self._axes:
            following = b.bin("add", b.load("i64", False, self._slot(axis)), carried)
            full = b.icmp("eq", following, self._counts[axis])
            b.store(b.select(full, integer(0, "i64"), following), self._slot(axis))
            carried = b.cast("zext", full, "i64")


class Rows(_Walk):
    """Four rows of a matrix, each at a place of its own."""

    def __init__(self, e: Emitter, described: TensorMap, coordinates: list[Val], offsets: list[Val]) -> None:
        super().__init__(e, described, coordinates)
        del offsets  # of im2col
        self.rows = integer(4, "i64")
        one = e.body.icmp("eq", described.box(1), integer(1, "i64"))
        self.sound = e.body.bin("and", one, e.body.icmp("ne", self.inner, integer(0, "i64")))
        e.body.store(integer(0, "i64"), self._slot(1))

    def row(self) -> tuple[Val, Val]:
        b = self._e.body
        number = b.load("i64", False, self._slot(1))
        place = self._coordinates[1]
        for other in range(2, 5):
            place = b.select(b.icmp("eq", number, integer(other - 1, "i64")), self._coordinates[other], place)
        return self._row_at({1: place})

    def advance(self) -> None:
        b = self._e.body
        b.store(b.bin("add", b.load("i64", False, self._slot(1)), integer(1, "i64")), self._slot(1))


class Pixels(_Walk):
    """The pixels that a filter's place and those behind it name: one row each, its channels."""

    def __init__(self, e: Emitter, described: TensorMap, coordinates: list[Val], offsets: list[Val]) -> None:
        super().__init__(e, described, coordinates)
        b = e.body
        self._offsets = offsets or [integer(0, "i64")] * (len(coordinates) - 2)
        self.rows = described.field(PIXELS, "i16")
        some = b.icmp("ne", self.rows, integer(0, "i64"))
        self.sound = b.bin("and", some, b.icmp("ne", self.inner, integer(0, "i64")))
        for axis in self._axes:
            b.store(coordinates[axis], self._slot(axis))

    def row(self) -> tuple[Val, Val]:
        b = self._e.body
        places = {}
        for axis in self._axes:
            place = b.load("i64", False, self._slot(axis))
            within = axis - 1 < len(self._offsets)  # the last axis is the image's number
            places[axis] = b.bin("add", place, self._offsets[axis - 1]) if within else place
        return self._row_at(places)

    def advance(self) -> None:
        b = self._e.body
        over = integer(1, "i1")
        for axis in self._axes[:-1]:
            here = b.load("i64", False, self._slot(axis))
            following = b.select(over, b.bin("add", here, self._map.step(axis)), here)
            end = b.bin("add", self._map.size(axis), self._map.corner(UPPER, axis))
            over = b.bin("and", over, b.icmp("sge", following, end))
            b.store(b.select(over, self._map.corner(LOWER, axis), following), self._slot(axis))
        last = self._slot(self._axes[-1])
        b.store(b.bin("add", b.load("i64", False, last), b.cast("zext", over, "i64")), last)
