"""Every kind of fault: its CUDA error and what its message names."""

from __future__ import annotations

import pytest
from farlane.backend.device.allocations import Allocation, Allocations
from farlane.backend.device.sim.launching.faults import error_of
from farlane.backend.jit import Fault, FaultKind
from farlane.backend.jit.runtime.structures import LOCAL_WINDOW, PARAMETER_WINDOW, SHARED_WINDOW


def fault(kind: int, address: int = 0x100104, write: int = 1) -> Fault:
    found = Fault(claimed=1, kind=kind, address=address, size=4, write=write, line=17)
    found.block[:] = (1, 2, 3)
    found.thread[:] = (4, 5, 6)
    return found


@pytest.mark.parametrize(
    ("kind", "code", "words"),
    [
        (FaultKind.ILLEGAL_ADDRESS, 700, "illegal write of 4 bytes at 0x100104, 4 bytes behind the end of the nearest"),
        (FaultKind.MISALIGNED_ADDRESS, 716, "misaligned write of 4 bytes"),
        (FaultKind.INVALID_ADDRESS_SPACE, 717, "wrong state space"),
        (FaultKind.TRAP, 719, "trap"),
        (FaultKind.STACK_OVERFLOW, 719, "exhausted"),
        (FaultKind.ILLEGAL_INSTRUCTION, 715, "illegal instruction"),
        (FaultKind.ASSERT, 710, "assertion"),
        (FaultKind.BARRIER_DEADLOCK, 702, "barriers"),
        (99, 719, "unknown fault 99"),
    ],
)
def test_codes_and_messages(kind: int, code: int, words: str) -> None:
    allocations = Allocations()
    allocations.add(Allocation(0x100000, 256))
    error = error_of(fault(kind), "scale", 0, allocations)
    assert error.code == code
    assert error.sticky
    assert error.message.startswith("kernel scale: ")
    assert words in error.message
    assert "block (1, 2, 3), thread (4, 5, 6), line 17 of its PTX" in error.message


def test_every_kind_has_a_code_of_its_own_choosing() -> None:
    from farlane.backend.device.sim.launching import faults

    assert set(faults._CODES) == set(FaultKind) - {FaultKind.NONE}


def test_reads_and_null_pointers() -> None:
    message = error_of(fault(FaultKind.ILLEGAL_ADDRESS, 0, 0), "k", 0, Allocations()).message
    assert "illegal read of 4 bytes at 0x0, a null pointer" in message


@pytest.mark.parametrize(
    ("address", "words"),
    [
        (SHARED_WINDOW + 2048, "at byte 2048 of shared memory, of which the block has 2000"),
        (LOCAL_WINDOW + 64, "at byte 64 of local memory"),
        (PARAMETER_WINDOW + 8, "at byte 8 of the kernel's parameters"),
    ],
)
def test_addresses_of_other_state_spaces(address: int, words: str) -> None:
    message = error_of(fault(FaultKind.ILLEGAL_ADDRESS, address), "k", 2000, Allocations()).message
    assert words in message
