"""Copies into, out of and within a session's device memory, and sets.

Owns the rule that every byte that one touches lies in one live allocation (CUDA: cudaErrorInvalidValue otherwise). Large ones release the GIL.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
from farlane.backend.device.allocations import Allocations
from farlane.backend.device.base import CudaError, Rows
from farlane.backend.device.sim.memory.window import Window
from farlane.backend.generated_errors import INVALID_VALUE

PIECE = 1 << 20
_NUMPY_FROM = 1 << 17  # below it numpy's own cost outweighs the GIL held for a memmove
_UNSIGNED: dict[int, np.dtype[Any]] = {1: np.dtype(np.uint8), 2: np.dtype(np.uint16), 4: np.dtype(np.uint32)}


class Content:
    """The bytes of a window's allocations."""

    window: Window
    allocations: Allocations

    def set(self, rows: Rows, value: int, element: int) -> None:
        if element not in _UNSIGNED or rows.width % element or rows.address % element or rows.pitch % element:
            raise CudaError(INVALID_VALUE, f"memset of {rows} in elements of {element} bytes")
        if self.allocations.require(rows, "memset"):
            low = value & ((1 << 8 * element) - 1)
            self._rows(rows, _UNSIGNED[element]).fill(low)

    def write(self, rows: Rows, data: memoryview) -> None:
        """Copies packed rows from the guest."""
        if data.nbytes != rows.width * rows.height:
            raise CudaError(INVALID_VALUE, f"{data.nbytes} bytes for {rows.height} rows of {rows.width}")
        if not self.allocations.require(rows, "copy to the device"):
            return
        if rows.contiguous and data.nbytes < _NUMPY_FROM:
            offset = rows.address - self.window.base
            self.window.view[offset : offset + data.nbytes] = data if data.format == "B" else data.cast("B")
            return
        source = np.frombuffer(data, np.uint8)
        if rows.contiguous:
            self._flat(rows)[:] = source
        else:
            self._rows(rows)[:] = source.reshape(rows.height, rows.width)

    def read(self, rows: Rows) -> Iterator[memoryview]:
        """Packed rows for the guest, in pieces.

        A piece shows device memory itself where rows are contiguous: use it before the next call to this session.
        """
        if not self.allocations.require(rows, "copy from the device"):
            return iter(())
        if rows.contiguous:
            return self._pieces(rows.address - self.window.base, rows.width * rows.height)
        return self._packed(rows)

    def copy(self, destination: Rows, source: Rows) -> None:
        if (destination.width, destination.height) != (source.width, source.height):
            raise CudaError(INVALID_VALUE, f"copy between unlike shapes: {source} to {destination}")
        if not self.allocations.require(destination, "copy's destination") or not self.allocations.require(
            source, "copy's source"
        ):
            return
        size = source.width * source.height
        if not (destination.contiguous and source.contiguous):
            shape = (source.height, source.width)  # either side alone may be contiguous, and flat
            self._rows(destination).reshape(shape)[:] = self._rows(source).reshape(shape)
        elif size < _NUMPY_FROM:
            to, from_ = destination.address - self.window.base, source.address - self.window.base
            self.window.view[to : to + size] = self.window.view[from_ : from_ + size]
        else:
            self._flat(destination)[:] = self._flat(source)

    def _flat(self, rows: Rows) -> npt.NDArray[np.uint8]:
        offset = rows.address - self.window.base
        return self.window.bytes[offset : offset + rows.width * rows.height]

    def _rows(self, rows: Rows, kind: np.dtype[Any] = _UNSIGNED[1]) -> npt.NDArray[Any]:
        """The rows as a two-dimensional array over device memory."""
        columns = rows.width // kind.itemsize
        if rows.contiguous:  # one dimension is what numpy fills and copies fastest
            return self._flat(rows).view(kind)
        return np.ndarray(
            (rows.height, columns),
            kind,
            buffer=self.window.bytes,
            offset=rows.address - self.window.base,
            strides=(rows.pitch, kind.itemsize),
        )

    def _pieces(self, offset: int, size: int) -> Iterator[memoryview]:
        view = self.window.view
        for start in range(offset, offset + size, PIECE):
            yield view[start : min(start + PIECE, offset + size)]

    def _packed(self, rows: Rows) -> Iterator[memoryview]:
        if rows.width > PIECE // 2:
            for row in range(rows.height):
                yield from self._pieces(rows.address + row * rows.pitch - self.window.base, rows.width)
            return
        array = self._rows(rows)
        step = PIECE // rows.width
        for row in range(0, rows.height, step):
            yield np.ascontiguousarray(array[row : row + step]).reshape(-1).data
