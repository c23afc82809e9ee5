"""Threads that help with launches: what they do between launches, and what the launching thread does with them, in compiled code.

A helper that Python wakes up has to come by its lock twice, and each time another thread has it: that takes longer than a short launch. So a helper sleeps in
helper.ll until its box has a kernel, and leader.ll wakes the helpers of a launch, runs its own share and waits for theirs.

Owns the structures that both read. Which helper is whose is the caller's business.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

from farlane.backend.jit.compile.routines import fixed
from farlane.backend.jit.runtime.arenas import Worker
from farlane.backend.jit.runtime.structures import STATUS_DONE, Launch
from farlane.backend.system import mappings

_SEMAPHORE_BYTES = 32  # sem_t of 64-bit Linux
_WAKE, _WAIT = 1, 2


class Box(ctypes.Structure):
    _fields_ = (
        ("wake", ctypes.c_uint8 * _SEMAPHORE_BYTES),
        ("over", ctypes.c_uint8 * _SEMAPHORE_BYTES),
        ("run", ctypes.c_void_p),  # null: the helper ends
        ("launch", ctypes.c_void_p),
        ("worker", ctypes.c_void_p),
        ("status", ctypes.c_int32),  # out
        ("state", ctypes.c_uint32),  # helper.ll
    )


class Lead(ctypes.Structure):
    _fields_ = (
        ("boxes", ctypes.c_void_p),
        ("count", ctypes.c_uint64),
        ("run", ctypes.c_void_p),
        ("launch", ctypes.c_void_p),
        ("worker", ctypes.c_void_p),
        ("parts", ctypes.c_uint32),
    )


_HELPER, _LEADER = (("helper.ll",), Box), (("leader.ll",), Box, Lead)


def load() -> None:
    """Compiles what helpers need, if that was not done yet."""
    for routine in (_HELPER, _LEADER):
        fixed.function(*routine)


class Helper:
    """What one thread needs to help."""

    def __init__(self) -> None:
        self._box = Box()
        self.address = ctypes.addressof(self._box)
        for name in ("wake", "over"):
            semaphore = ctypes.c_void_p(self.address + getattr(Box, name).offset)
            mappings.checked(mappings.libc.sem_init(semaphore, 0, 0), "sem_init")

    def serve(self) -> None:
        """Does what `serve` asks for until it is dismissed. The thread's own function, without the GIL."""
        fixed.function(*_HELPER)(self._box)

    def dismiss(self) -> None:
        """Ends `serve`. While no caller has the helper."""
        self._box.run, self._box.state = None, 1
        mappings.checked(mappings.libc.sem_post(ctypes.c_void_p(self.address)), "sem_post")

    def prepare(self, run: int, launch: Launch, worker: Worker) -> None:
        """What it does when it is woken up: the kernel's code at `run`, for which `worker` has been laid out. All three stay until it is through."""
        box = self._box
        box.run, box.launch, box.worker = run, ctypes.addressof(launch), ctypes.addressof(worker.state)
        box.status = STATUS_DONE  # unless it begins

    @property
    def status(self) -> int:
        """STATUS_* of what it was prepared for last."""
        return int(self._box.status)


def lead(run: int, launch: Launch, worker: Worker, helpers: Sequence[Helper]) -> int:
    """Runs a launch on this thread and on helpers that are prepared for it, until all are through; returns this thread's STATUS_*."""
    return _lead(helpers, _WAKE | _WAIT, run, ctypes.addressof(launch), ctypes.addressof(worker.state))


def join(helper: Helper) -> None:
    """Wakes up a helper that is prepared for a launch that goes on already."""
    _lead([helper], _WAKE)


def wait(helpers: Sequence[Helper]) -> None:
    """Until these are through, or have not begun and will not."""
    _lead(helpers, _WAIT)


def _lead(helpers: Sequence[Helper], parts: int, run: int = 0, launch: int = 0, worker: int = 0) -> int:
    boxes = (ctypes.c_void_p * len(helpers))(*(helper.address for helper in helpers))
    return fixed.function(*_LEADER)(Lead(ctypes.addressof(boxes), len(helpers), run, launch, worker, parts))
