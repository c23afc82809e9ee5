"""What a driver with test options (`FARLANE_TEST`) does, by ctypes: `python late_streams.py CASE` prints what it saw."""

from __future__ import annotations

import ctypes
import sys

from driver_api import Cuda, Error
from driver_options import are_on, ask

BYTES = ctypes.c_size_t(64)
NON_BLOCKING = 1


def pinned(cuda: Cuda) -> ctypes.Array[ctypes.c_uint8]:
    address = ctypes.c_void_p()
    cuda("cuMemHostAlloc", ctypes.byref(address), BYTES, 0)
    assert address.value is not None
    return (ctypes.c_uint8 * 64).from_address(address.value)


def stream(cuda: Cuda, flags: int = NON_BLOCKING) -> ctypes.c_void_p:
    made = ctypes.c_void_p()
    cuda("cuStreamCreate", ctypes.byref(made), flags)
    return made


def event(cuda: Cuda) -> ctypes.c_void_p:
    made = ctypes.c_void_p()
    cuda("cuEventCreate", ctypes.byref(made), 0)
    return made


def read(cuda: Cuda, memory: ctypes.c_uint64) -> int:
    out = ctypes.c_uint8()
    cuda("cuMemcpyDtoH_v2", ctypes.byref(out), memory, ctypes.c_size_t(1))
    return out.value


def reuse(cuda: Cuda) -> None:
    """Pinned memory is written again before the copy from it was waited for."""
    source, memory, own = pinned(cuda), cuda.allocate(64), stream(cuda)
    source[0] = 1
    cuda("cuMemcpyHtoDAsync_v2", memory, source, BYTES, own)
    source[0] = 2
    cuda("cuStreamSynchronize", own)
    print(read(cuda, memory))


def arrival(cuda: Cuda) -> None:
    """A copy to pinned memory arrives when it is waited for."""
    target, memory, own = pinned(cuda), cuda.allocate(64), stream(cuda)
    other = stream(cuda)
    cuda("cuMemsetD8Async", memory, ctypes.c_ubyte(3), BYTES, own)
    cuda("cuMemcpyDtoHAsync_v2", target, memory, BYTES, own)
    cuda("cuStreamSynchronize", other)
    before = target[0]
    cuda("cuStreamSynchronize", own)
    print(before, target[0])


def order(cuda: Cuda) -> None:
    """A stream does not wait for another one, unless an event says so; a blocking one waits for the legacy stream."""
    memory, first, second, done = cuda.allocate(64), stream(cuda), stream(cuda), event(cuda)
    target = pinned(cuda)
    seen = []
    for waits in (False, True):
        cuda("cuMemsetD8_v2", memory, ctypes.c_ubyte(0), BYTES)
        cuda("cuCtxSynchronize")
        cuda("cuMemsetD8Async", memory, ctypes.c_ubyte(5), BYTES, first)
        cuda("cuEventRecord", done, first)
        if waits:
            cuda("cuStreamWaitEvent", second, done, 0)
        cuda("cuMemcpyDtoHAsync_v2", target, memory, BYTES, second)
        cuda("cuStreamSynchronize", second)
        seen.append(target[0])
        cuda("cuCtxSynchronize")
    blocking = stream(cuda, 0)
    cuda("cuMemsetD8Async", memory, ctypes.c_ubyte(7), BYTES, None)
    cuda("cuMemcpyDtoHAsync_v2", target, memory, BYTES, blocking)
    cuda("cuStreamSynchronize", blocking)
    print(*seen, target[0])


def query(cuda: Cuda) -> None:
    """The first question finds work pending, the second one finds it done; a patient driver lets nothing run."""
    memory, own = cuda.allocate(64), stream(cuda)
    answers = []
    for word in ("impatient", "patient"):
        ask(word)
        cuda("cuMemsetD8Async", memory, ctypes.c_ubyte(3), BYTES, own)
        for _ in range(3):
            try:
                cuda("cuStreamQuery", own)
                answers.append("done")
            except Error as error:
                answers.append(str(error).rsplit(" ", 1)[1])
        cuda("cuStreamSynchronize", own)
    print(*answers)


def failures(cuda: Cuda) -> None:
    """The second allocation fails; calls are counted; what is left, and what was ended too early, is known."""
    ask("fail cuMemAlloc 0 2")
    first = cuda.allocate(64)
    try:
        cuda.allocate(64)
    except Error as error:
        print(error)
    own, made = stream(cuda), event(cuda)
    source = pinned(cuda)
    cuda("cuMemcpyHtoDAsync_v2", first, source, BYTES, own)
    print(ask("calls cuMemAlloc"), ask("held"), ask("counts"))
    cuda("cuMemFreeHost", source)
    cuda.free(first)
    cuda("cuEventDestroy_v2", made)
    cuda("cuStreamDestroy_v2", own)
    print(ask("counts"))


if __name__ == "__main__":
    if sys.argv[1] == "off":
        print(are_on(), ctypes.CDLL(None).farlane_test(b"held", None, 0))
    else:
        globals()[sys.argv[1]](Cuda())
