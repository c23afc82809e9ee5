"""`farlane run --check`: each kind of mistake and the exact report, and a program without mistakes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from farlane.frontend.devtools.guest import Guest, Outcome
from farlane.frontend.devtools.programs import Build, compile_program
from farlane.frontend.devtools.toolchain import Toolchain

pytestmark = pytest.mark.native

SOURCE = Path(__file__).parent / "programs" / "checks.cu"
BYTES = 384  # of each of the program's two allocations
ALL = {"FARLANE_CHECK": "memory,race,init,leak"}


@pytest.fixture(scope="module")
def program(toolchain: Callable[[str], Toolchain]) -> str:
    return str(compile_program(toolchain("13.0"), [SOURCE], "checks", Build(flags=("-lineinfo",))))


def said(outcome: Outcome) -> tuple[list[str], int, int]:
    """The reports without their marks, and the program's two addresses."""
    lines = [line[9:].strip() for line in outcome.stderr.splitlines() if line.startswith("=========")]
    first, second = outcome.stdout.splitlines()[0].split()
    return [line for line in lines if line], int(first, 16), int(second, 16)


def errors(outcome: Outcome) -> int:
    return outcome.report.sections["check"]["errors"]


def test_nothing_is_found_in_a_program_without_mistakes(program: str, guest: Guest) -> None:
    outcome = guest.run([program, "clean"], "loops", extra=ALL)
    assert said(outcome)[0] == ["ERROR SUMMARY: 0 errors"]
    assert (outcome.status, outcome.stdout.splitlines()[1], errors(outcome)) == (0, "cudaSuccess", 0)


def test_past_the_end(program: str, guest: Guest) -> None:
    """One report for each thread of the warp that does; the launch ends."""
    outcome = guest.run([program, "after"], "loops", extra=ALL)
    lines, out, _ = said(outcome)
    expected = []
    for thread, beyond in ((32, 1), (33, 5)):
        expected += [
            "Invalid __global__ write of size 4 bytes",
            "at store(int*, int) in checks.cu:11",
            f"by thread ({thread},0,0) in block (1,0,0)",
            f"Address {out + BYTES + beyond - 1:#x} is out of bounds",
            f"and is {beyond} bytes after the nearest allocation at {out:#x} of size {BYTES} bytes",
        ]
    assert lines == [*expected, "ERROR SUMMARY: 2 errors"]
    assert outcome.stdout.splitlines()[1] == "cudaErrorIllegalAddress"
    assert errors(outcome) == 2


def test_misaligned(program: str, guest: Guest) -> None:
    outcome = guest.run([program, "odd"], "calls", extra=ALL)
    lines, out, _ = said(outcome)
    assert lines[:5] == [
        "Invalid __global__ write of size 4 bytes",
        "at odd(char*, int) in checks.cu:14",
        "by thread (0,0,0) in block (0,0,0)",
        f"Address {out + 2:#x} is misaligned",
        f"and is inside the nearest allocation at {out:#x} of size {BYTES} bytes",
    ]
    assert outcome.stdout.splitlines()[1] == "cudaErrorMisalignedAddress"
    assert errors(outcome) == 2


def test_after_free(program: str, guest: Guest) -> None:
    outcome = guest.run([program, "freed"], "loops", extra=ALL)
    lines, _, freed = said(outcome)
    assert lines == [
        "Invalid __global__ read of size 4 bytes",
        "at sum(int const*, int*, int) in checks.cu:55",
        "by thread (0,0,0) in block (0,0,0)",
        f"Address {freed:#x} is out of bounds",
        f"and is 0 bytes inside an allocation of size {BYTES} bytes at {freed:#x}, which was freed",
        "ERROR SUMMARY: 1 error",
    ]


def test_past_the_end_of_shared_memory(program: str, guest: Guest) -> None:
    lines = said(guest.run([program, "shared"], "loops", extra=ALL))[0]
    assert lines == [
        "Invalid __shared__ write of size 4 bytes",
        "at beyond_shared(int*, int) in checks.cu:19",
        "by thread (63,0,0) in block (0,0,0)",
        "Address 0x100 is out of bounds",
        "and the block's shared memory has 256 bytes",
        "ERROR SUMMARY: 1 error",
    ]


def test_past_the_end_of_a_block_of_the_device_heap(program: str, guest: Guest) -> None:
    lines = said(guest.run([program, "heap"], "loops", extra=ALL))[0]
    assert lines[:3] == [
        "Invalid __global__ write of size 1 bytes",
        "at block_of_heap(int*, int) in checks.cu:63",
        "by thread (0,0,0) in block (0,0,0)",
    ]
    assert lines[4].startswith("and is 1 bytes after the nearest allocation at ")
    assert lines[4].endswith(" of size 10 bytes (block of the device heap)")


def test_race(program: str, guest: Guest) -> None:
    outcome = guest.run([program, "race"], "loops", extra=ALL)
    lines = said(outcome)[0]
    assert lines == [
        "Error: Race reported between Read access at reversed(int*, bool) in checks.cu:30",
        "and Write access at reversed(int*, bool) in checks.cu:27 [32 hazards, WAR]",
        "first by threads (31,0,0) and (32,0,0) in block (0,0,0)",
        "at __shared__ 0x80, 4 bytes",
        "Error: Race reported between Write access at reversed(int*, bool) in checks.cu:27",
        "and Read access at reversed(int*, bool) in checks.cu:30 [64 hazards, RAW]",
        "first by threads (31,0,0) and (32,0,0) in block (0,0,0)",
        "at __shared__ 0x7c, 4 bytes",
        "ERROR SUMMARY: 2 errors",
    ]
    assert outcome.stdout.splitlines()[1] == "cudaSuccess"


def test_races_within_a_warp_and_of_writes(program: str, guest: Guest) -> None:
    """A warp's lanes without __syncwarp, two warps that write the same words, and a variable that all threads write."""
    lines = said(guest.run([program, "warp"], "loops", extra=ALL))[0]
    places = [(lines[at].split()[-1], lines[at + 1].split(" access at ")[1]) for at in range(0, len(lines) - 1, 4)]
    assert sorted(places) == [
        ("checks.cu:72", "careless(int*) in checks.cu:72 [32 hazards, WAW]"),
        ("checks.cu:72", "careless(int*) in checks.cu:74 [32 hazards, RAW]"),
        ("checks.cu:76", "careless(int*) in checks.cu:76 [32 hazards, WAW]"),
    ]
    assert lines[-1] == "ERROR SUMMARY: 3 errors"


def test_read_of_what_was_never_written(program: str, guest: Guest) -> None:
    lines, _, source = said(guest.run([program, "init"], "loops", extra=ALL))
    assert lines == [
        "Uninitialized __global__ memory read of size 4 bytes",
        "at sum(int const*, int*, int) in checks.cu:55",
        "by thread (29,0,0) in block (0,0,0)",
        f"Address {source + 372:#x}",
        f"and is 372 bytes inside the allocation at {source:#x} of size {BYTES} bytes",
        "and 2 more at this place",
        "ERROR SUMMARY: 1 error",
    ]


def test_leak(program: str, guest: Guest) -> None:
    lines, _, left = said(guest.run([program, "leak"], "none", extra=ALL))
    assert lines == [
        f"Leaked {BYTES} bytes at {left:#x}",
        f"LEAK SUMMARY: {BYTES} bytes leaked in 1 allocations",
        "ERROR SUMMARY: 1 error",
    ]


def test_only_what_is_asked_for_is_looked_for(program: str, guest: Guest) -> None:
    for mistake in ("race", "init", "leak"):
        outcome = guest.run([program, mistake], "loops", extra={"FARLANE_CHECK": "memory"})
        assert said(outcome)[0] == ["ERROR SUMMARY: 0 errors"], mistake
    assert "=====" not in guest.run([program, "init"], "loops").stderr


def test_the_launchers_exit_status(program: str) -> None:
    command = [
        sys.executable,
        "-m",
        "farlane.frontend.cli",
        "run",
        "--no-manifest",
        "--check=leak",
        "--error-exitcode=9",
        "--",
    ]
    for mistake, status in (("leak", 9), ("clean", 0)):
        assert subprocess.run([*command, program, mistake], capture_output=True).returncode == status
