"""Tensor maps in Python, and what a tensor copy moves, computed with NumPy: the reference of the tests.

A box is an array of bytes as it lies in shared memory. The layout of a map is that of backend/jit/lowering/families/tensors/tensor_maps.py.
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

MAGIC = 0x504D5446
U8, U16, U32, S32, U64, S64, F16, F32, F64, BF16, F32_FTZ, TF32, TF32_FTZ = range(13)
DTYPES = {U8: "u1", U16: "u2", U32: "u4", S32: "i4", U64: "u8", S64: "i8", F16: "f2", F32: "f4", F64: "f8", BF16: "u2", F32_FTZ: "f4", TF32: "f4", TF32_FTZ: "f4"}  # fmt: skip
# By the number of a swizzle: its span, the bytes that stay together, rows of 128 bytes until it repeats.
SWIZZLES = {
    0: (0, 16, 1),
    1: (32, 16, 2),
    2: (64, 16, 4),
    3: (128, 16, 8),
    4: (128, 32, 4),
    5: (128, 32, 4),
    6: (128, 64, 2),
}


@dataclass
class Tensor:
    """A map: sizes and box from the first (innermost) axis on, strides in bytes of the axes behind it."""

    address: int
    kind: int
    sizes: Sequence[int]
    box: Sequence[int]
    strides: Sequence[int] = ()
    steps: Sequence[int] = ()
    swizzle: int = 0
    fill: int = 0
    lower: Sequence[int] = ()
    upper: Sequence[int] = ()
    pixels: int = 0
    mode: int = 0
    magic: int = MAGIC
    extra: dict[str, Any] = field(default_factory=dict)

    @property
    def item(self) -> int:
        return int(np.dtype(DTYPES[self.kind]).itemsize)

    def encode(self) -> bytes:
        rank = len(self.sizes)

        def filled(values: Sequence[int], count: int, rest: int = 0) -> list[int]:
            return [*values, *[rest] * (count - len(values))]

        steps = filled(self.steps or [1] * rank, 5, 1)
        text = struct.pack(
            "<QIBBBBBBBB", self.address, self.magic, rank, self.kind, self.mode, 0, self.swizzle, self.fill, 0, 0
        )
        text += struct.pack(
            "<5I5H5Bx", *(size & 0xFFFFFFFF for size in filled(self.sizes, 5)), *filled(self.box, 5), *steps
        )
        text += struct.pack(
            "<4Q3h3hH", *filled(self.strides, 4), *filled(self.lower, 3), *filled(self.upper, 3), self.pixels
        )
        return text.ljust(128, b"\0")

    # Where elements lie ----------------------------------------------------------------------------------------------
    def _tile(self, start: Sequence[int]) -> Iterator[tuple[int, ...]]:
        """Coordinates behind the first axis, row by row."""
        rank = len(self.sizes)
        steps = self.steps or [1] * rank
        counts = [-(-self.box[axis] // steps[axis]) for axis in range(1, rank)]
        for places in itertools.product(*(range(count) for count in reversed(counts))):
            yield tuple(
                start[axis] + place * steps[axis] for axis, place in zip(range(1, rank), reversed(places), strict=True)
            )

    def _walk(self, start: Sequence[int], offsets: Sequence[int]) -> Iterator[tuple[int, ...]]:
        """The pixels of im2col, from a filter's place on."""
        rank = len(self.sizes)
        steps, place = self.steps or [1] * rank, list(start[1:])
        for _ in range(self.pixels):
            yield tuple(at + (offsets[axis] if axis < len(offsets) else 0) for axis, at in enumerate(place))
            for axis in range(rank - 2):
                place[axis] += steps[axis + 1]
                if place[axis] <= self.sizes[axis + 1] - 1 + self.upper[axis]:
                    break
                place[axis] = self.lower[axis]
            else:
                place[-1] += 1

    def rows(self, start: Sequence[int], offsets: Sequence[int] = ()) -> list[list[int | None]]:
        """Byte offsets of elements in the tensor, row by row; None is outside of it."""
        found = []
        for place in self._walk(start, offsets) if self.mode else self._tile(start):
            inside = all(0 <= at < size for at, size in zip(place, self.sizes[1:], strict=True))
            base = sum(at * stride for at, stride in zip(place, self.strides, strict=False))
            firsts = range(start[0], start[0] + self.box[0])
            found.append([base + at * self.item if inside and 0 <= at < self.sizes[0] else None for at in firsts])
        return found

    @property
    def pitch(self) -> int:
        return max(self.box[0] * self.item, SWIZZLES[self.swizzle][0])

    def turned(self, at: int) -> int:
        """Where a byte of the box lies: `at` counts from an address that is a multiple of 1024."""
        span, atom, period = SWIZZLES[self.swizzle]
        if not span:
            return at
        line = at // 128
        at ^= line % period * atom
        return at ^ 8 if self.swizzle == 5 and line % 2 else at

    def places(
        self, start: Sequence[int], offsets: Sequence[int] = (), base: int = 0
    ) -> Iterator[tuple[int, int | None]]:
        """(byte in shared memory behind `base`, byte in the tensor or None) of each element."""
        for row, elements in enumerate(self.rows(start, offsets)):
            for column, there in enumerate(elements):
                yield self.turned(base + row * self.pitch + column * self.item) - base, there

    def loaded(
        self,
        memory: bytes,
        start: Sequence[int],
        offsets: Sequence[int] = (),
        *,
        before: bytes,
        base: int = 0,
        outside: bytes = b"",
    ) -> bytes:
        """Shared memory after a load; `before` is what was there."""
        result = bytearray(before)
        outside = outside or bytes(self.item)
        for here, there in self.places(start, offsets, base):
            result[here : here + self.item] = outside if there is None else memory[there : there + self.item]
        return bytes(result)

    def stored(self, memory: bytes, start: Sequence[int], shared: bytes, base: int = 0) -> bytes:
        """The tensor's memory after a store."""
        result = bytearray(memory)
        for here, there in self.places(start, base=base):
            if there is not None:
                result[there : there + self.item] = shared[here : here + self.item]
        return bytes(result)

    @property
    def moved(self) -> int:
        """Bytes that the mbarrier hears of."""
        steps = self.steps or [1] * len(self.sizes)
        rows = (
            self.pixels
            if self.mode
            else int(np.prod([-(-self.box[axis] // steps[axis]) for axis in range(1, len(self.sizes))], dtype=int))
        )
        return rows * self.box[0] * self.item
