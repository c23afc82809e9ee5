"""Recording which pages kernels touch: the buffer of a worker. lowering/touches.py writes the IR that fills it.

One entry for each distinct page of each warp instruction that accesses global memory (ld, st, atom, red, cp.async, wmma, texture fetches, whatever reaches the window
through a generic address); constant memory, local memory and parameters are not among them. An entry says which warp of which block it was and how many
instructions that warp had issued before, so that a reader needs no order among warps: touches of one warp come in order, those of different warps in any.

Only kernels compiled with Options.touches have the code (touches.ll). They record into `WorkerState.touches`; null records nothing. The buffer has a fixed
size and is handed over when it is full, and by `Buffer.flush` at the end of a launch.

Source: docs/explanation/systems.md, S3 (the private TLB of a core sees one request per page and warp instruction).
"""

from __future__ import annotations

import ctypes
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from farlane.backend.jit.runtime.arenas import Worker

ENTRIES = 1 << 18
MIN_ENTRIES = 2048  # an instruction needs room for what it touches
PAGE_BITS = 42
WARP_BITS = 5

#: Rows of (page | warp << 42 | write << 47, block << 32 | instructions issued). A view: valid during the call.
Words = npt.NDArray[np.uint64]
Sink = Callable[[Words], None]

_log = logging.getLogger(__name__)


class TouchBuffer(ctypes.Structure):
    """Where kernels enter what they touch; full, it is handed to the callback."""

    _fields_ = (
        ("entries", ctypes.c_void_p),
        ("used", ctypes.c_uint64),
        ("capacity", ctypes.c_uint64),
        ("begin", ctypes.c_uint64),
        ("callback", ctypes.c_void_p),
        ("page_shift", ctypes.c_uint32),
        ("reserved", ctypes.c_uint32),
    )


_CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class Buffer:
    """What one worker's kernels touch, handed to `sink` piece by piece. An exception of the sink is raised by `flush`."""

    def __init__(self, sink: Sink, page_shift: int, entries: int = ENTRIES) -> None:
        if entries < MIN_ENTRIES:
            raise ValueError(f"a buffer of {entries} entries; at least {MIN_ENTRIES}")
        self._words: Words = np.empty((entries, 2), np.uint64)
        self._sink = sink
        self._failure: BaseException | None = None
        self._callback = _CALLBACK(self._spill)
        self._state = TouchBuffer(
            entries=self._words.ctypes.data,
            capacity=entries,
            callback=ctypes.cast(self._callback, ctypes.c_void_p).value,
            page_shift=page_shift,
        )

    def attach(self, worker: Worker) -> None:
        """The worker's kernels record here from now on."""
        worker.state.touches = ctypes.addressof(self._state)

    def flush(self) -> None:
        """Between launches: hands over what is there."""
        used, self._state.used, self._state.begin = self._state.used, 0, 0
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure
        if used:
            self._sink(self._words[:used])

    def _spill(self, _: int) -> None:
        """From compiled code: nothing may pass through it."""
        if self._failure is None:
            try:
                self._sink(self._words[: self._state.used])
            except BaseException as error:
                _log.exception("the pages that a kernel touches are lost")
                self._failure = error
