"""Copies of rows to and from arrays, as copies of boxes.

The guest names an array's bytes by addresses, as if its rows were memory `pitch` apart; the driver keeps them in an order of its own, and copies boxes. Owns
the cut of one into the other: what lies side by side is one box, as long as it stays in one slice. Pure.

Source: protos/tape.md, "Textures"; CUDA driver API, cuMemcpy3D.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from farlane.backend.device.base import CudaError, Rows
from farlane.backend.device.gpu.driver.interface import BoxEnd, BoxWork
from farlane.backend.device.objects import Texels
from farlane.backend.generated_errors import INVALID_VALUE

_ENDLESS = 1 << 62


@dataclass(frozen=True)
class Array:
    """An array, and the addresses that the guest has for it."""

    handle: int
    texels: Texels

    @property
    def address(self) -> int:
        return self.texels.address


class InMemory(NamedTuple):
    """Rows of memory."""

    rows: Rows

    @property
    def in_step(self) -> bool:
        return True

    def run(self, row: int, inside: int) -> int:
        return _ENDLESS

    def below(self, row: int, inside: int) -> int:
        return _ENDLESS

    def wraps(self, row: int, inside: int, run: int) -> bool:
        return True

    def end(self, row: int, inside: int, pitch: int) -> BoxEnd:
        return BoxEnd(address=self.rows.address + row * self.rows.pitch + inside, pitch=pitch)


class InArray(NamedTuple):
    """Rows of an array."""

    array: Array
    rows: Rows

    def _place(self, row: int, inside: int) -> tuple[int, int, int]:
        texels = self.array.texels
        z, rest = divmod(self.rows.address + row * self.rows.pitch + inside - texels.address, texels.slice)
        y, x = divmod(rest, texels.pitch)
        return x, y, z

    @property
    def in_step(self) -> bool:
        """Whether one row is the array's row behind the last one."""
        return self.rows.pitch == self.array.texels.pitch

    def run(self, row: int, inside: int) -> int:
        """Bytes from here to the end of the array's row."""
        x, _, _ = self._place(row, inside)
        return self.array.texels.row - x

    def below(self, row: int, inside: int) -> int:
        """The array's rows from here to the end of the slice."""
        _, y, _ = self._place(row, inside)
        return self.array.texels.size[1] - y

    def wraps(self, row: int, inside: int, run: int) -> bool:
        """Whether the array's next row begins right behind these bytes."""
        x, _, _ = self._place(row, inside)
        return x == 0 and run == self.array.texels.pitch

    def end(self, row: int, inside: int, pitch: int) -> BoxEnd:
        x, y, z = self._place(row, inside)
        return BoxEnd(array=self.array.handle, x=x, y=y, z=z)


Side = InMemory | InArray


class Box(NamedTuple):
    """A part of a copy: `height` rows of `width` bytes."""

    destination: BoxEnd
    source: BoxEnd
    width: int
    height: int

    def work(self, *, destination: BoxEnd | None = None, source: BoxEnd | None = None) -> BoxWork:
        return BoxWork(destination or self.destination, source or self.source, self.width, self.height)


def boxes(destination: Side, source: Side, limit: int = _ENDLESS) -> Iterator[Box]:
    """The boxes of a copy, in the order of its bytes, none of more than `limit` bytes.

    Raises:
        CudaError: some byte lies in the padding between an array's rows.
    """
    width, height = destination.rows.width, destination.rows.height
    pitches = destination.rows.pitch, source.rows.pitch
    row = 0
    while row < height:
        if _run(destination, source, row, 0, limit) < width:
            yield from _cut_row(destination, source, row, limit)
            row += 1
            continue
        count = 1
        if destination.in_step and source.in_step:
            count = min(height - row, _below(destination, source, row, 0), max(1, limit // width))
        to, out = pitches if count > 1 else (width, width)
        yield Box(destination.end(row, 0, to), source.end(row, 0, out), width, count)
        row += count


def _cut_row(destination: Side, source: Side, row: int, limit: int) -> Iterator[Box]:
    """A row of the copy that is more than one of an array: a plain range over several of its rows, or one over the limit."""
    width, inside = destination.rows.width, 0
    while inside < width:
        run = _run(destination, source, row, inside, limit)
        count = 1
        if destination.wraps(row, inside, run) and source.wraps(row, inside, run):
            count = min((width - inside) // run, _below(destination, source, row, inside), max(1, limit // run))
        yield Box(destination.end(row, inside, run), source.end(row, inside, run), run, count)
        inside += run * count


def _run(destination: Side, source: Side, row: int, inside: int, limit: int) -> int:
    """Bytes that lie in one row of both sides."""
    run = min(destination.rows.width - inside, destination.run(row, inside), source.run(row, inside), limit)
    if run <= 0:
        raise CudaError(INVALID_VALUE, f"a copy from {source.rows} to {destination.rows} leaves an array's rows")
    return run


def _below(destination: Side, source: Side, row: int, inside: int) -> int:
    return min(destination.below(row, inside), source.below(row, inside))
