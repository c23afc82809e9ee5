"""Loops in mode loops: one round trip and a bounded number of bytes, whatever the trip count, and the same results.

Counts are exact. What a run's start costs is measured by the same program with one iteration. In how many parts a long loop is sent depends on
the machine; a part (a group of one `continued` REPEAT) has at most 48 bytes, which are not counted here. No manifest is used: this is the
recorder alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from farlane.frontend.devtools.guest import Guest, Outcome
from farlane.frontend.devtools.programs import Build, compile_program
from farlane.frontend.devtools.toolchain import Toolchain
from farlane.frontend.embedded import EmbeddedHost

pytestmark = pytest.mark.native

SOURCE = Path(__file__).parent / "programs" / "loops.cu"
# Handshake and the copy of the result.
ROUND_TRIPS = 2
AFFINE = ["affine", "constant", "several", "ping_pong", "alternating", "nested", "allocating", "events"]
OTHERS = ["random", "left_early", "threads", "triangular"]


@pytest.fixture(scope="module")
def program(toolchain: Callable[[str], Toolchain]) -> str:
    return str(compile_program(toolchain("13.0"), [SOURCE], "loops", Build()))


@pytest.fixture(scope="module")
def null_guest() -> Iterator[Guest]:
    with EmbeddedHost("null") as host:
        yield Guest(host.url)


# Bytes of a few iterations seen before their loop was known, and its template: a busy machine may send those early, and begin anew.
# Iterations sent one by one would be 10,000 times 100 bytes.
BEGUN_ANEW = 8192


def run(guest: Guest, program: str, scenario: str, count: int, mode: str) -> Outcome:
    outcome = guest.run([program, scenario, str(count)], mode, extra={"FARLANE_MANIFESTS": "off"})
    assert (outcome.status, outcome.stderr) == (0, ""), outcome.stdout + outcome.stderr
    return outcome


def bytes_beside_parts(outcome: Outcome) -> int:
    """Bytes sent, less those of the parts of loops."""
    return outcome.report.bytes_up - 48 * outcome.report.groups


@pytest.mark.parametrize("scenario", AFFINE)
def test_bytes_and_round_trips_do_not_depend_on_the_trip_count(scenario: str, program: str, guest: Guest) -> None:
    run(guest, program, scenario, 1, "loops")  # the host has the image from here on
    bytes_up = {}
    for count in (1, 100, 10_000):
        outcome = run(guest, program, scenario, count, "loops")
        assert outcome.report.round_trips == ROUND_TRIPS
        bytes_up[count] = bytes_beside_parts(outcome)
    assert bytes_up[10_000] - bytes_up[100] <= BEGUN_ANEW
    assert bytes_up[10_000] - bytes_up[1] <= BEGUN_ANEW


@pytest.mark.parametrize("scenario", ["affine", "several"])
def test_a_million_iterations(scenario: str, program: str, null_guest: Guest) -> None:
    run(null_guest, program, scenario, 1, "loops")
    few = run(null_guest, program, scenario, 100, "loops")
    many = run(null_guest, program, scenario, 1_000_000, "loops")
    assert (few.report.round_trips, many.report.round_trips) == (ROUND_TRIPS, ROUND_TRIPS)
    assert bytes_beside_parts(many) - bytes_beside_parts(few) <= BEGUN_ANEW
    assert many.report.sections["loops"]["calls_in_loops"] >= 999_000


@pytest.mark.parametrize("count", [1, 2, 3, 4, 7, 40, 300])
@pytest.mark.parametrize("scenario", AFFINE + OTHERS)
def test_results_are_those_of_mode_calls(scenario: str, count: int, program: str, guest: Guest) -> None:
    assert run(guest, program, scenario, count, "loops").stdout == run(guest, program, scenario, count, "calls").stdout


@pytest.mark.parametrize("scenario", ["affine", "nested", "left_early"])
def test_results_are_those_of_mode_none(scenario: str, program: str, guest: Guest) -> None:
    assert run(guest, program, scenario, 50, "loops").stdout == run(guest, program, scenario, 50, "none").stdout


@pytest.mark.parametrize("count", [10, 1000])
def test_an_error_in_an_iteration_is_told_as_without_folding(count: int, program: str, guest: Guest) -> None:
    told = {}
    for mode in ("calls", "loops"):
        outcome = guest.run([program, "failing", str(count)], mode, extra={"FARLANE_MANIFESTS": "off"})
        assert outcome.status == 0
        told[mode] = (outcome.stdout, outcome.stderr)  # the message names the kernel and where it trapped
    assert told["loops"] == told["calls"]
    assert told["calls"][0].startswith("cudaError")


def test_triangular_loops_are_one_template_with_a_nested_one(program: str, guest: Guest) -> None:
    def plain(outcome: Outcome, count: int) -> int:
        """Calls that were sent as they are: of loops that are too short yet, and, where a part ends within an inner loop, what is left of that."""
        return count + count * (count + 1) // 2 - outcome.report.sections["loops"]["calls_in_loops"]

    few, some, many = (run(guest, program, "triangular", count, "loops") for count in (40, 60, 120))
    assert some.report.sections["loops"]["templates"] <= 6
    # Inner loops of fewer than 16 calls are not worth a REPEAT; after so many of them, one has to be twice as long before it is looked at again.
    assert plain(some, 60) <= 35 * 36 // 2 + 16 * some.report.groups
    more = plain(many, 120) - plain(few, 40)
    assert more <= 16 * many.report.groups
    assert bytes_beside_parts(many) <= few.report.bytes_up + 96 * max(0, more) + 256


def test_arguments_that_follow_no_rule_cost_their_bytes_only(program: str, guest: Guest) -> None:
    run(guest, program, "random", 1, "loops")
    report = run(guest, program, "random", 10_000, "loops").report
    assert report.round_trips == ROUND_TRIPS
    assert report.bytes_up < 10_000 * 5 + 8192
