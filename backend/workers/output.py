"""What the driver prints to this process's standard output, as bytes: kernels' printf ends there.

Owns file descriptor 1 of a worker. The driver writes through the C library, whose buffer is flushed before it is looked at.

Source: CUDA programming guide, "Formatted Output" (the buffer is flushed to the host's output at launches and synchronizations).
"""

from __future__ import annotations

import ctypes
import os


class StandardOutput:
    """Puts a file in memory in the place of standard output."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None)
        self._libc.fflush(None)
        self._file = os.memfd_create("farlane-output")
        os.dup2(self._file, 1)

    def take(self) -> bytes:
        """What has been printed since the last time."""
        self._libc.fflush(None)
        size = os.lseek(self._file, 0, os.SEEK_CUR)
        if not size:
            return b""
        data = os.pread(self._file, size, 0)
        os.ftruncate(self._file, 0)
        os.lseek(self._file, 0, os.SEEK_SET)  # shared with descriptor 1
        return data
