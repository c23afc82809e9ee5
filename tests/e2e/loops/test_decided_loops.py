"""Loops that decide by what they read, led by the host: the same output, two round trips for a loop, whatever happens in it."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from farlane.frontend.devtools import registry
from farlane.frontend.devtools.guest import Guest, Outcome
from farlane.frontend.devtools.programs import Build, compile_program
from farlane.frontend.devtools.toolchain import CLANG, Toolchain
from farlane.frontend.embedded import EmbeddedHost

pytestmark = pytest.mark.native

NATIVE = Path(__file__).parents[2] / "native"
SCENARIOS = Path(__file__).parent / "programs" / "decided_loops.cu"
ENTRIES = {entry.name: entry for entry in registry.load(NATIVE / "registry.toml")}
BUILDS = {
    "O0": ("13.0", 0, "g++"),
    "O2": ("13.0", 2, "g++"),
    "O3": ("13.5", 3, "g++"),
    "hosted": ("13.0", 2, CLANG),
    "clang": ("clang-12.9", 3, "g++"),
}
# Counts do not depend on how fast the machine is where nothing but iterations bounds how far the host leads.
UNTIMED = {"FARLANE_LEAD_MS": "0"}
# Round trips in mode loops: the handshake, what the program reads before and behind its loop, and one for the loop itself.
ROUND_TRIPS = {
    "annealing": 3,
    "bisection": 2,
    "cg_device": 3,
    "cg_host": 4,
    "every_hundredth": 3,
    "groups_of_reads": 4,
    "jacobi": 3,
    "kmeans": 3,
    "levels": 3,
    "pagerank": 3,
    "palette": 2,
    "power_iteration": 3,
    "quantile": 2,
}


@pytest.fixture(scope="module")
def scenarios(toolchain: Callable[[str], Toolchain], marked: Callable[[str], str]) -> str:
    return marked(str(compile_program(toolchain("13.0"), [SCENARIOS], "decided_loops", Build())))


def decided(outcome: Outcome) -> dict[str, int]:
    return outcome.report.sections.get("decided", {"loops": 0, "iterations": 0, "calls": 0, "reads": 0})


def same(guest: Guest, words: list[str]) -> Outcome:
    """The program's outcome in mode loops, where it is that of mode none, standard error included."""
    none, loops = guest.run(words, "none"), guest.run(words, "loops", extra=UNTIMED)
    assert (loops.status, loops.stdout, loops.stderr) == (none.status, none.stdout, none.stderr)
    return loops


@pytest.mark.sampled(3)
@pytest.mark.parametrize("build", BUILDS)
@pytest.mark.parametrize("name", ROUND_TRIPS)
def test_a_loop_costs_two_round_trips(
    name: str, build: str, guest: Guest, toolchain: Callable[..., Toolchain], marked: Callable[[str], str]
) -> None:
    chain, level, host = BUILDS[build]
    compiler = toolchain(chain, host_compiler=host)
    source = NATIVE / "deciding" / f"{name}.cu"
    program = marked(str(compile_program(compiler, [source], name, Build(level, "compute_75"))))
    outcome = guest.run([program], "loops", extra=UNTIMED)
    assert (outcome.status, outcome.stdout, outcome.stderr) == (0, ENTRIES[name].expected, "")
    assert decided(outcome)["loops"] >= 1
    assert outcome.report.round_trips <= ROUND_TRIPS[name] + 1


@pytest.fixture(scope="module")
def null_host() -> Iterator[EmbeddedHost]:
    with EmbeddedHost(device="null") as host:
        yield host


def test_a_device_without_memory(null_host: EmbeddedHost, scenarios: str) -> None:
    """Reads bring zeros, so the loop ends at once; in a session that may have 512 MiB."""
    outcome = same(Guest(null_host.url), [scenarios, "plain", "40"])
    assert decided(outcome) == {"loops": 1, "iterations": 1, "calls": 2, "reads": 1}


# Scenario, count, loops that the host leads, iterations, round trips.
CASES = [
    ("plain", 3000, 1, 3000, 3),
    ("printing", 1500, 1, 1500, 3),
    ("again", 50, 10, 95, 12),
    # 30 of one iteration: the host leads the first three of them, and of the first longer one all but an iteration.
    ("short", 33, 6, 3 + 19 + 20 + 20, 1 + 30 + 2 + 1 + 1 + 1),
    ("shapes", 200, 1, 200, 3),
    ("leaving", 60, 1, 30, 2),
]


@pytest.mark.parametrize(
    ("name", "count", "loops", "iterations", "round_trips"), CASES, ids=[case[0] for case in CASES]
)
def test_what_a_loop_may_do(
    name: str, count: int, loops: int, iterations: int, round_trips: int, guest: Guest, scenarios: str
) -> None:
    outcome = same(guest, [scenarios, name, str(count)])
    assert (decided(outcome)["loops"], decided(outcome)["iterations"]) == (loops, iterations)
    assert outcome.report.round_trips == round_trips


def test_a_slice_that_is_stuck_again_and_again(guest: Guest, scenarios: str) -> None:
    outcome = same(guest, [scenarios, "elsewhere", "100"])
    assert decided(outcome)["loops"] == 3
    assert outcome.report.sections["undecided"] == {"stuck": 97}
    assert outcome.report.round_trips <= guest.run([scenarios, "elsewhere", "100"], "calls").report.round_trips + 3


def test_a_call_that_fails_in_the_middle(guest: Guest, scenarios: str) -> None:
    none, outcome = (guest.run([scenarios, "failing", "100"], mode) for mode in ("none", "loops"))
    assert (outcome.status, outcome.stdout) == (none.status, none.stdout)
    assert "cudaErrorInvalidConfiguration" in outcome.stdout
    assert decided(outcome)["loops"] == 1


def test_a_fault_in_the_middle(guest: Guest, scenarios: str) -> None:
    none, loops = (guest.run([scenarios, "faulting", "100"], mode) for mode in ("none", "loops"))
    assert (loops.status, loops.stdout) == (none.status, none.stdout)
    assert "50 steps" in loops.stdout
    assert "cudaErrorIllegalAddress" in loops.stdout
    assert decided(loops)["reads"] == 49


def test_another_thread_begins_to_use_cuda(guest: Guest, scenarios: str) -> None:
    outcome = same(guest, [scenarios, "joined", "20000"])
    assert outcome.status == 0


@pytest.mark.parametrize("name", ["plain", "printing", "again", "shapes"])
def test_lockstep(name: str, guest: Guest, scenarios: str) -> None:
    plain = guest.run([scenarios, name, "60"], "calls")
    verified = guest.run([scenarios, name, "60"], "loops", extra={"FARLANE_LOOPS": "verify"})
    assert (verified.status, verified.stdout, verified.stderr) == (0, plain.stdout, "")
    assert verified.report.round_trips == plain.report.round_trips
    assert decided(verified)["reads"] >= 59


@pytest.mark.parametrize("name", ["palette", "quantile"])
def test_lockstep_of_arrays(
    name: str, guest: Guest, toolchain: Callable[..., Toolchain], marked: Callable[[str], str]
) -> None:
    """On the heap and in global variables."""
    source = NATIVE / "deciding" / f"{name}.cu"
    program = marked(str(compile_program(toolchain("13.0"), [source], name, Build(2, "compute_75"))))
    outcome = guest.run([program], "loops", extra={"FARLANE_LOOPS": "verify"})
    assert (outcome.status, outcome.stdout, outcome.stderr) == (0, ENTRIES[name].expected, "")
    assert decided(outcome)["loops"] == 1


def test_a_bound_of_time(guest: Guest, scenarios: str) -> None:
    plain = guest.run([scenarios, "plain", "3000"], "calls")
    timed = guest.run([scenarios, "plain", "3000"], "loops", extra={"FARLANE_LEAD_MS": "1"})
    assert (timed.stdout, decided(timed)["reads"]) == (plain.stdout, 3000)
    wrong = guest.run([scenarios, "plain", "60"], "loops", extra={"FARLANE_LEAD_MS": "1.5"})
    assert 'FARLANE_LEAD_MS is "1.5": it must be a whole number of milliseconds' in wrong.stderr


def test_without(guest: Guest, scenarios: str) -> None:
    plain = guest.run([scenarios, "plain", "60"], "calls")
    off = guest.run([scenarios, "plain", "60"], "loops", extra={"FARLANE_LOOPS": "off"})
    assert (off.stdout, off.report.round_trips) == (plain.stdout, plain.report.round_trips)
    wrong = guest.run([scenarios, "plain", "60"], "loops", extra={"FARLANE_LOOPS": "on"})
    assert 'FARLANE_LOOPS is "on": it must be auto, off or verify' in wrong.stderr


def test_a_loop_without_an_end_is_interrupted(guest: Guest, scenarios: str) -> None:
    environment = guest.environment(scenarios, "loops")
    with subprocess.Popen([scenarios, "endless", "0"], env=environment, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "under way\n"  # what it has seen, it shows
            process.terminate()
            assert process.wait(10) == -signal.SIGTERM
        finally:
            process.kill()
    # The host is free for others.
    assert guest.run([scenarios, "plain", "10"], "loops", timeout=20).status == 0
