"""The kinds of error of the host, and the one map from exceptions to CUDA results.

- `CudaError` (device.base): a CUDA result. A value that belongs to the guest; nothing is wrong with the host.
- `ProtocolError`: the guest broke the tape's or the session's rules. The session ends; others do not notice.
- `DeadTransport`: the guest can no longer be reached. The session ends silently.
- Anything else is a bug of ours (or of a device): logged with the operation's name and its traceback, and the guest sees
  cudaErrorUnknown, sticky, because what the operation left half-done is not known.

Source: protos/tape.md, "Errors"; docs/explanation/systems.md, S1 point 10 (the program behaves as without deferral).
"""

from __future__ import annotations

import logging

from farlane.backend.device.base import CudaError
from farlane.backend.generated_errors import ERRORS, MEMORY_ALLOCATION, UNKNOWN
from farlane.backend.plane import DeadTransport, ProtocolError

log = logging.getLogger("farlane.errors")


def name_of(code: int) -> str:
    """CUDA's name of a result, for logs: "cudaErrorIllegalAddress"."""
    return ERRORS[code][0] if code in ERRORS else f"cudaError_t {code}"


def to_cuda(error: Exception, operation: str) -> CudaError:
    """The CUDA result of an operation that raised. `ProtocolError` and `DeadTransport` are not results: they pass through.

    Args:
        error: what the handler raised.
        operation: the tape operation's name, for the log and the guest's message.
    """
    if isinstance(error, CudaError):
        return error
    if isinstance(error, (ProtocolError, DeadTransport)):
        raise error
    if isinstance(error, MemoryError):
        log.error("%s: the host is out of memory", operation)
        return CudaError(MEMORY_ALLOCATION, "the host is out of memory")
    log.error("%s failed inside the host: %r", operation, error, exc_info=error)
    return CudaError(UNKNOWN, f"internal error of the host: {error!r}", sticky=True)


__all__ = ["CudaError", "DeadTransport", "ProtocolError", "name_of", "to_cuda"]
