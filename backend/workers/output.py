"""What the driver prints to this process's standard output and standard error, as bytes: kernels' printf and failed assertions end there.

Owns file descriptors 1 and 2 of a worker with a GPU. The driver writes through the C library, whose buffers are flushed before it is looked at. What Python says
(the log, a traceback) goes on to where standard error was.

Source: CUDA programming guide, "Formatted Output" (the buffer is flushed to the host's output at launches and synchronizations), "Assertion".
"""

from __future__ import annotations

import ctypes
import io
import os
import sys

_KEPT = 1 << 20  # bytes that a worker says at its end


class _Descriptor:
    """Puts a file in memory in the place of a descriptor."""

    def __init__(self, descriptor: int, name: str) -> None:
        self._libc = ctypes.CDLL(None)
        self._libc.fflush(None)
        self._file = os.memfd_create(name)
        os.dup2(self._file, descriptor)

    def take(self) -> bytes:
        """What has been printed since the last time."""
        self._libc.fflush(None)
        size = os.lseek(self._file, 0, os.SEEK_CUR)
        if not size:
            return b""
        data = os.pread(self._file, size, 0)
        os.ftruncate(self._file, 0)
        os.lseek(self._file, 0, os.SEEK_SET)  # shared with the descriptor
        return data


class StandardOutput(_Descriptor):
    def __init__(self) -> None:
        super().__init__(1, "farlane-output")


class StandardError(_Descriptor):
    """To be made before anything keeps `sys.stderr`."""

    def __init__(self) -> None:
        sys.stderr.flush()
        self._before = os.dup(2)
        sys.stderr = io.TextIOWrapper(os.fdopen(self._before, "wb", 0), errors="backslashreplace", write_through=True)
        super().__init__(2, "farlane-complaints")

    def close(self) -> None:
        """The rest, which no guest has asked for, is for the host's log."""
        data = self.take()[-_KEPT:]
        if data:
            os.write(self._before, data)
