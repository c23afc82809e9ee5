"""Lazy readbacks: copies whose destinations are not proven unread wait until they are touched, and the program cannot tell.

Each scenario of programs/guards.cu runs with lazy readbacks and without (mode calls); the output is the same, and with them the number of round
trips is exact: what is touched, by whomever and however, is asked for once.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from farlane.frontend.devtools.guest import Guest, Outcome
from farlane.frontend.devtools.programs import Build, compile_program
from farlane.frontend.devtools.toolchain import Toolchain

SOURCE = Path(__file__).parent / "programs" / "guards.cu"
USERFAULTFD = 323
LAZY = {"FARLANE_GUARDS": "on", "FARLANE_MANIFESTS": "off"}


def userfaultfd_allowed() -> bool:
    """Whether this process may have touches in system calls seen; as the shim finds it out."""
    descriptor: int = ctypes.CDLL(None).syscall(USERFAULTFD, os.O_CLOEXEC)
    try:
        os.close(descriptor if descriptor >= 0 else os.open("/dev/userfaultfd", os.O_RDWR))
    except OSError:
        return False
    return True


pytestmark = [
    pytest.mark.native,
    pytest.mark.skipif(not userfaultfd_allowed(), reason="userfaultfd for system calls is not allowed here"),
]


@dataclass(frozen=True)
class Case:
    """One scenario.

    Args:
        round_trips: with lazy readbacks, the handshake included: the first copy of a place waits (nothing is known of it yet), then each time
            that what is outstanding is asked for.
        without: the same without them.
        counts: some of the report's.
    """

    name: str
    round_trips: int
    without: int
    counts: dict[str, int] = field(default_factory=dict)


CASES = [
    # Nobody reads it: the end of the process asks.
    Case("unread", 3, 41, {"set": 1, "copies": 39, "touches": 0, "ended_by_calls": 1}),
    Case("read_after", 3, 41, {"set": 1, "copies": 39, "touches": 1}),
    Case("same_place", 3, 41, {"set": 1, "copies": 39, "touches": 1}),
    # The synchronization asks; the touch does not.
    Case("synchronized", 3, 41, {"set": 1, "copies": 39, "touches": 1}),
    # Three touches that follow one copy each, and the place is given up.
    Case("every_iteration", 41, 41, {"set": 3, "copies": 3, "touches": 3, "given_up": 1}),
    Case("asynchronous", 3, 41, {"copies": 39}),
    Case("other_threads", 3, 41, {"copies": 39, "touches": 1}),
    Case("written", 5, 121, {"copies": 119, "touches": 3}),
    Case("to_a_file", 7, 201, {"copies": 199, "touches": 5}),
    Case("moved", 4, 81, {"copies": 79, "touches": 2}),
    Case("forked", 4, 44, {"copies": 42, "ended_by_calls": 1, "touches": 1}),
    Case("handler", 3, 41, {"copies": 39, "touches": 1}),
    Case(
        "refused",
        241,
        241,
        {
            "copies": 0,
            "refused_stack": 3,
            "refused_global": 6,
            "refused_heap": 3,
            "refused_shared": 3,
            "refused_part": 3,
        },
    ),
    Case("freed", 5, 121, {"set": 3, "copies": 119, "touches": 3}),
    Case("reallocated", 4, 81, {"set": 2, "copies": 79, "touches": 2}),
    Case("used_by_calls", 7, 123, {"copies": 119}),
    # A call that tells whether work is done makes it happen.
    Case("queried", 41, 41, {"copies": 39}),
    # More blocks than there are readbacks.
    Case("many_blocks", 17, 81, {"set": 64, "refused_busy": 15}),
]


@pytest.fixture(scope="module")
def program(toolchain: Callable[[str], Toolchain]) -> str:
    return str(compile_program(toolchain("13.0"), [SOURCE], "guards", Build()))


def same(guest: Guest, command: list[str], extra: dict[str, str] | None = None) -> tuple[Outcome, Outcome]:
    """The outcomes without and with lazy readbacks, which the program cannot tell apart."""
    without = guest.run(command, "calls")
    lazy = guest.run(command, "loops", extra={**LAZY, **(extra or {})})
    assert (lazy.status, lazy.stdout) == (without.status, without.stdout), lazy.stderr
    assert without.status == 0
    assert lazy.stderr == ""
    return without, lazy


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_what_is_touched_is_there(guest: Guest, program: str, case: Case) -> None:
    without, lazy = same(guest, [program, case.name])
    counts = lazy.report.sections["guards"]
    assert {name: counts[name] for name in case.counts} == case.counts
    assert (lazy.report.round_trips, without.report.round_trips) == (case.round_trips, case.without)


def test_threads_that_work_beside_the_copies(guest: Guest, program: str) -> None:
    """How often they meet a readback is a matter of time; that nothing of theirs is lost is not."""
    _, lazy = same(guest, [program, "beside"])
    assert lazy.report.sections["guards"]["set"] >= 1


@pytest.mark.parametrize(("timing", "round_trips"), [("faithful", 41), ("throughput", 3)])
def test_clocks(guest: Guest, program: str, timing: str, round_trips: int) -> None:
    _, lazy = same(guest, [program, "clocked"], {"FARLANE_TIMING": timing})
    assert lazy.report.round_trips == round_trips


def test_an_error_is_reported_by_the_next_call_that_waits(guest: Guest, program: str) -> None:
    """That is the one thing that a program can tell: the copy behind the kernel that faults has returned success. Its memory is as it was."""
    fault = "700"
    without = guest.run([program, "failing"], "calls").stdout.split()
    lazy = guest.run([program, "failing"], "loops", extra=LAZY).stdout.split()
    assert without[:2] == [fault, fault]
    assert lazy[:2] == ["0", fault]
    assert without[2:] == lazy[2:]
    assert lazy[3] == "0x1010101"


def test_lazy_readbacks_are_off_by_default_and_in_other_modes(guest: Guest, program: str) -> None:
    plain = guest.run([program, "unread"], "loops", extra={**LAZY, "FARLANE_GUARDS": ""})
    calls = guest.run([program, "unread"], "calls", extra=LAZY)
    for outcome in (plain, calls):
        assert outcome.report.round_trips == 41
        assert "guards" not in outcome.report.sections


def test_a_wrong_setting_is_refused(guest: Guest, program: str) -> None:
    outcome = guest.run([program, "unread"], "loops", extra={"FARLANE_GUARDS": "sometimes"})
    assert "FARLANE_GUARDS" in outcome.stderr
    assert outcome.status == 1
