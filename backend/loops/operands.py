"""The operands of a body's record, as a device repeats them: constants filled in, and the holes that are left.

Raises Declined for what a device cannot be asked to repeat: a hole where a constant is needed, or in part of a field.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from farlane.backend.device.plan import Hole


class Declined(Exception):
    """The template cannot be repeated by a device."""


class Row(NamedTuple):
    """What a hole holds: a row of the matrix."""

    number: int


Bound = int | Row  # a constant, or a row


class Operands:
    """A record's bytes: constants filled in, and the holes that are left."""

    def __init__(self, data: bytes, holes: Sequence[tuple[int, int, Bound]]) -> None:
        left: list[Hole] = []
        for at, width, value in holes:
            if isinstance(value, Row):
                left.append(Hole(at, width, value.number))
            else:
                data = data[:at] + value.to_bytes(width, "little") + data[at + width :]
        self._data = data
        self._holes = left

    def fixed(self, begin: int, end: int) -> bytes:
        """Bytes without holes."""
        for hole in self._holes:
            if hole.at < end and hole.at + hole.width > begin:
                raise Declined
        return self._data[begin:end]

    def constant(self, at: int, size: int) -> int:
        return int.from_bytes(self.fixed(at, at + size), "little")

    def zero(self, at: int) -> None:
        """A reserved field: what is not 0 is refused where it comes."""
        if self.constant(at, 4):
            raise Declined

    def whole(self, at: int, size: int) -> tuple[int, int | None]:
        """A field that is constant, or one hole: its row."""
        for hole in self._holes:
            if hole.at == at and hole.width == size:
                return 0, hole.row
        return self.constant(at, size), None

    def part(self, begin: int, end: int) -> tuple[bytes, tuple[Hole, ...]]:
        """Bytes with their holes, counted from `begin`."""
        holes = []
        for hole in self._holes:
            if hole.at < end and hole.at + hole.width > begin:
                if hole.at < begin or hole.at + hole.width > end:
                    raise Declined
                holes.append(Hole(hole.at - begin, hole.width, hole.row))
        return self._data[begin:end], tuple(holes)

    def sum(self, at: int, size: int) -> tuple[int, list[tuple[int, int]]]:
        """A little-endian field as a constant and (row, factor) terms."""
        data, holes = self.part(at, at + size)
        return int.from_bytes(data, "little"), [(hole.row, 1 << 8 * hole.at) for hole in holes]
