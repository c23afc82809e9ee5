"""From a kernel's fault to CUDA's error and a message that leads to the cause.

Owns the map from fault kinds to error codes and the wording, which names what compute-sanitizer names: the kernel, the
block, the thread, the address and the nearest allocation. Every fault is sticky, as on a GPU.

Source: CUDA runtime API, enum cudaError.
"""

from __future__ import annotations

from collections.abc import Iterable

from farlane.backend import generated_errors
from farlane.backend.device.allocations import Allocations
from farlane.backend.device.base import CudaError
from farlane.backend.jit import GENERIC_WINDOWS_END, Fault, FaultKind
from farlane.backend.jit.runtime.clusters import RANK_SHIFT
from farlane.backend.jit.runtime.structures import LOCAL_WINDOW, PARAMETER_WINDOW, SHARED_WINDOW
from farlane.demangle import demangled

_CODES = {
    FaultKind.ILLEGAL_ADDRESS: generated_errors.ILLEGAL_ADDRESS,
    FaultKind.MISALIGNED_ADDRESS: generated_errors.MISALIGNED_ADDRESS,
    FaultKind.TRAP: generated_errors.LAUNCH_FAILURE,
    FaultKind.ILLEGAL_INSTRUCTION: generated_errors.ILLEGAL_INSTRUCTION,
    FaultKind.INVALID_ADDRESS_SPACE: generated_errors.INVALID_ADDRESS_SPACE,
    FaultKind.STACK_OVERFLOW: generated_errors.LAUNCH_FAILURE,
    FaultKind.ASSERT: generated_errors.ASSERT,
    FaultKind.BARRIER_DEADLOCK: generated_errors.LAUNCH_TIMEOUT,
    FaultKind.INVALID_FREE: generated_errors.LAUNCH_FAILURE,
    FaultKind.SERVICE: generated_errors.UNKNOWN,
}

_WITHOUT_ADDRESS = {
    FaultKind.TRAP: "trap",
    FaultKind.ILLEGAL_INSTRUCTION: "illegal instruction",
    FaultKind.STACK_OVERFLOW: "the stack or local memory is exhausted",
    FaultKind.ASSERT: "a device-side assertion failed",
    FaultKind.BARRIER_DEADLOCK: "threads wait at barriers that can never complete",
    FaultKind.SERVICE: "an internal error of the host in the device runtime",
}


def error_of(fault: Fault, kernel: str, shared_bytes: int, allocations: Allocations) -> CudaError:
    """The sticky error of a launch that ended with this fault; its blocks had this much shared memory."""
    try:
        kind = FaultKind(fault.kind)
    except ValueError:
        kind = FaultKind.NONE
    if kind is FaultKind.INVALID_FREE:
        what = f"free of {fault.address:#x}, which device malloc did not return or which is free already"
    else:
        what = _WITHOUT_ADDRESS.get(kind) or _access(kind, fault, shared_bytes, allocations)
    where = f"block ({_triple(fault.block)}), thread ({_triple(fault.thread)})"
    line = f", line {fault.line} of its PTX" if fault.line else ""
    return CudaError(
        _CODES.get(kind, generated_errors.LAUNCH_FAILURE),
        f"kernel {demangled(kernel)}: {what}; {where}{line}",
        sticky=True,
    )


def _access(kind: FaultKind, fault: Fault, shared_bytes: int, allocations: Allocations) -> str:
    adjective = {
        FaultKind.ILLEGAL_ADDRESS: "illegal",
        FaultKind.MISALIGNED_ADDRESS: "misaligned",
        FaultKind.INVALID_ADDRESS_SPACE: "wrong state space in a",
    }.get(kind)
    if adjective is None:
        return f"unknown fault {fault.kind}"
    if not fault.size and not fault.address:
        return f"{adjective} access, outside of a surface, by a handle of none, or of a rank that the cluster does not have"
    access = "write" if fault.write else "read"
    place = _place(fault.address, shared_bytes, allocations)
    return f"{adjective} {access} of {fault.size} bytes at {place}"


def _place(address: int, shared_bytes: int, allocations: Allocations) -> str:
    if SHARED_WINDOW <= address < LOCAL_WINDOW:
        rank, offset = divmod(address - SHARED_WINDOW, 1 << RANK_SHIFT)
        whose = f"the shared memory of the cluster's block {rank - 1}" if rank else "shared memory"
        return f"byte {offset} of {whose}, of which the block has {shared_bytes}"
    if LOCAL_WINDOW <= address < PARAMETER_WINDOW:
        return f"byte {address - LOCAL_WINDOW} of local memory"
    if PARAMETER_WINDOW <= address < GENERIC_WINDOWS_END:
        return f"byte {address - PARAMETER_WINDOW} of the kernel's parameters"
    return f"{address:#x}, {allocations.describe(address)}"


def _triple(values: Iterable[int]) -> str:
    return ", ".join(str(value) for value in values)
