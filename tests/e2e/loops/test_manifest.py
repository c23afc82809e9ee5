"""Manifests in use: what each permission saves, exactly, and that the program cannot tell.

The manifests are written here by hand, for one loop of one scenario of programs/manifest_loops.cu at a time. The call sites are taken from a
trace of the program, which is a test of the trace; the conditions are over the program's global `left`. So no analysis is
needed and none is tested.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from farlane.analyzer.manifest.embed import embed
from farlane.analyzer.manifest.model import Flag, IdentityKind, Loop, Manifest, Permission, Site
from farlane.analyzer.manifest.writer import write
from farlane.analyzer.postfix import BINARY, CONSTANT, END, GLOBAL, instruction
from farlane.frontend.devtools.guest import Guest, Outcome
from farlane.frontend.devtools.programs import Build, compile_program
from farlane.frontend.devtools.toolchain import Toolchain
from waiting import eventually

pytestmark = pytest.mark.native

SOURCE = Path(__file__).parent / "programs" / "manifest_loops.cu"
# The handshake and the synchronization before the scenario.
START = 2
MANY = 200


@pytest.fixture(scope="module")
def program(toolchain: Callable[[str], Toolchain]) -> str:
    return str(compile_program(toolchain("13.0"), [SOURCE], "manifest_loops", Build()))


@dataclass(frozen=True)
class Call:
    """A call of the trace."""

    object: str
    site: int
    function: str
    line: dict[str, object]


def trace(guest: Guest, program: str, scenario: str, count: int, folder: Path) -> list[Call]:
    """The calls of the scenario, without those of the program's start."""
    path = folder / "trace.json"
    outcome = guest.run([program, scenario, str(count)], "calls", extra={"FARLANE_TRACE": str(path)})
    assert outcome.status in (0, 1), outcome.stderr
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    calls = [Call(line["object"], line["site"], line["function"], line) for line in lines]
    first = next(index for index, call in enumerate(calls) if call.function == "cudaDeviceSynchronize")
    return calls[first + 1 :]


def address_of(program: str, symbol: str) -> int:
    lines = subprocess.run(["nm", program], check=True, capture_output=True, text=True).stdout.splitlines()
    return next(int(line.split()[0], 16) for line in lines if line.split()[-1] == symbol)


def remaining(program: str, symbol: str = "left") -> bytes:
    return instruction(GLOBAL, address_of(program, symbol), 8) + instruction(END)


def more(program: str) -> bytes:
    compare = instruction(CONSTANT, 0) + instruction(BINARY["ne"]) + instruction(END)
    return instruction(GLOBAL, address_of(program, "left"), 8) + compare


def loop_sites(calls: list[Call]) -> list[Call]:
    """The calls that are made at least three times from one place (two threads may make the others twice): those of the loop, in the order of its body."""
    seen: dict[int, int] = {}
    for call in calls:
        seen[call.site] = seen.get(call.site, 0) + 1
    firsts: dict[int, Call] = {}
    for call in calls:
        if seen[call.site] > 2:
            firsts.setdefault(call.site, call)
    return list(firsts.values())


def manifest_for(calls: list[Call], permissions: dict[str, Permission], **fields: bytes) -> Manifest:
    """One loop with the calls; `permissions` by function."""
    sites = []
    for position, call in enumerate(loop_sites(calls)):
        permitted = permissions.get(call.function, Permission.NONE)
        site = Site(
            call.site, 0, position, call.function, launch=call.function == "cudaLaunchKernel", permissions=permitted
        )
        sites.append(replace(site, proof="by hand" if permitted else None, **fields))
    sites.sort(key=lambda site: site.return_address)
    loop = Loop(0x1000, 0x1000, "scenario", body=len(sites))
    return Manifest(IdentityKind.BUILD_ID, bytes.fromhex(calls[0].object), Flag.NONE, tuple(sites), (loop,))


class Case:
    """One scenario, run with and without a manifest."""

    def __init__(self, guest: Guest, program: str, folder: Path, scenario: str, count: int = MANY) -> None:
        self.guest, self.program, self.folder, self.count = guest, program, folder, count
        self.command = [program, scenario, str(count)]
        self.calls = trace(guest, program, scenario, min(count, 8), folder)
        self.plain = guest.run(self.command, "calls")

    def use(self, manifest: Manifest | bytes, **extra: str) -> Outcome:
        content = manifest if isinstance(manifest, bytes) else write(manifest)
        (self.folder / f"{self.calls[0].object}.manifest").write_bytes(content)
        return self.guest.run(self.command, "loops", extra={"FARLANE_MANIFESTS": str(self.folder), **extra})

    def same(self, outcome: Outcome) -> None:
        """The program's own output and end are those of mode calls."""
        assert (outcome.status, outcome.stdout) == (self.plain.status, self.plain.stdout), outcome.stderr


@pytest.fixture
def case(guest: Guest, program: str, tmp_path: Path) -> Callable[..., Case]:
    return lambda scenario, count=MANY: Case(guest, program, tmp_path, scenario, count)


def counts(outcome: Outcome) -> dict[str, int]:
    return outcome.report.sections["manifest"]


READ = {"cudaMemcpy": Permission.DEFER_READ}
READ_AT_CALL = {"cudaMemcpy": Permission.DEFER_READ | Permission.COMPLETE_AT_CALL}
SYNC = {"cudaDeviceSynchronize": Permission.LOCAL_SYNC, "cudaStreamSynchronize": Permission.LOCAL_SYNC}


def test_the_trace_shows_arguments_registers_and_frames(guest: Guest, program: str, tmp_path: Path) -> None:
    calls = trace(guest, program, "reads", 5, tmp_path)
    assert [call.function for call in calls] == ["cudaLaunchKernel", "cudaMemcpy"] * 5
    assert len({call.site for call in calls}) == 2
    for index, (launch, copy) in enumerate(zip(calls[::2], calls[1::2], strict=True)):
        assert launch.line["grid"] == launch.line["block"] == [1, 1, 1]
        assert launch.line["parameters"][1] == index.to_bytes(4, "little").hex()
        assert copy.line["arguments"][2] == 4
        assert copy.line["arguments"][3] & 0xFFFFFFFF == 2
        # Up to the end of the stack, which is near.
        assert 64 <= len(copy.line["frame"]) <= 2048
        assert copy.line["registers"]["rsp"] % 16 == 0


@pytest.mark.parametrize("count", [1, 100, 10_000])
def test_copies_of_a_loop_arrive_in_one_round_trip(case: Callable[..., Case], count: int) -> None:
    reads = case("reads", max(count, 3))
    manifest = manifest_for(reads.calls, READ, more=more(reads.program), remaining=remaining(reads.program))
    reads.count, reads.command = count, [*reads.command[:2], str(count)]
    reads.plain = reads.guest.run(reads.command, "calls")
    outcome = reads.use(manifest)
    reads.same(outcome)
    assert reads.plain.report.round_trips == START + count
    assert outcome.report.round_trips == START + 1
    expected = {
        "deferred_reads": count - 1,
        "completed": int(count > 1),
        "predicted": 2 * (count - 1),
        "mispredicted": 0,
    }
    assert {name: counts(outcome)[name] for name in expected} == expected
    assert {name: counts(outcome)[name] for name in ("objects", "loops", "sites")} == {
        "objects": 1,
        "loops": 1,
        "sites": 2,
    }


def test_bytes_of_a_loop_of_copies_do_not_depend_on_the_trip_count(case: Callable[..., Case]) -> None:
    """Longer loops are sent in parts while they run: of at most 48 bytes each, and none waits for an answer."""
    reads = case("reads", 3)
    manifest = manifest_for(reads.calls, READ, more=more(reads.program), remaining=remaining(reads.program))
    bytes_up = {}
    for count in (100, 10_000, 100_000):
        reads.command[2] = str(count)
        outcome = reads.use(manifest)
        assert (outcome.status, outcome.stderr) == (0, "")
        assert outcome.report.round_trips == START + 1
        assert counts(outcome)["deferred_reads"] == count - 1
        bytes_up[count] = outcome.report.bytes_up - 48 * outcome.report.groups
        total = 0
        for value in range(count):
            total = (total * 31 + 3 * value + 1) & (2**64 - 1)
        assert outcome.stdout == f"{total}\n"
    assert max(bytes_up.values()) - min(bytes_up.values()) <= 1024


def test_without_permission_a_manifest_changes_nothing(case: Callable[..., Case]) -> None:
    reads = case("reads")
    outcome = reads.use(manifest_for(reads.calls, {}, more=more(reads.program), remaining=remaining(reads.program)))
    reads.same(outcome)
    assert outcome.report.round_trips == START + MANY
    assert counts(outcome)["deferred_reads"] == 0


def test_in_the_other_modes_a_manifest_is_not_looked_at(case: Callable[..., Case]) -> None:
    reads = case("reads")
    reads.use(b"no manifest")
    for mode in ("none", "calls"):
        outcome = reads.guest.run(reads.command, mode, extra={"FARLANE_MANIFESTS": str(reads.folder)})
        reads.same(outcome)
        assert outcome.stderr == ""
        assert "manifest" not in outcome.report.sections


@pytest.mark.parametrize(
    ("scenario", "extra"),
    [
        # A fence, and nothing for the cudaFree itself.
        ("reads_then_free", 1),
        # The synchronization brings the copies: no fence.
        ("reads_then_synchronize", 1),
    ],
)
def test_copies_are_completed_at_a_call_from_elsewhere(case: Callable[..., Case], scenario: str, extra: int) -> None:
    reads = case(scenario)
    outcome = reads.use(manifest_for(reads.calls, READ_AT_CALL))
    reads.same(outcome)
    assert outcome.report.round_trips == START + extra
    assert (counts(outcome)["deferred_reads"], counts(outcome)["completed"]) == (MANY, 1)


def test_a_launch_waits_for_a_copy_to_what_the_kernel_is_passed(case: Callable[..., Case]) -> None:
    loop = case("passed_on", 50)
    outcome = loop.use(manifest_for(loop.calls, READ, more=more(loop.program)))
    loop.same(outcome)
    assert outcome.report.round_trips == loop.plain.report.round_trips
    assert counts(outcome)["deferred_reads"] == 49


def test_a_copy_from_a_deferred_destination_waits_for_it(case: Callable[..., Case]) -> None:
    both = case("there_and_back", 50)
    outcome = both.use(manifest_for(both.calls, READ, more=more(both.program)))
    both.same(outcome)
    # Each copy back waits for the one before; the last one to the host waits itself.
    assert outcome.report.round_trips == both.plain.report.round_trips
    assert counts(outcome)["deferred_reads"] == 49


def test_synchronizations_are_answered_locally(case: Callable[..., Case]) -> None:
    loop = case("synchronizations")
    outcome = loop.use(manifest_for(loop.calls, SYNC, remaining=remaining(loop.program)))
    loop.same(outcome)
    assert loop.plain.report.round_trips == START + MANY + 1
    assert outcome.report.round_trips == START + 1
    assert counts(outcome)["local_syncs"] == MANY


def test_a_query_does_not_belie_a_synchronization(case: Callable[..., Case]) -> None:
    loop = case("queries", 20)
    outcome = loop.use(manifest_for(loop.calls, SYNC))
    loop.same(outcome)
    assert outcome.stdout == "20\n"
    assert counts(outcome)["local_syncs"] == 20


def test_copies_to_pinned_memory_are_waited_for(case: Callable[..., Case]) -> None:
    loop = case("pinned", 30)
    outcome = loop.use(manifest_for(loop.calls, SYNC))
    loop.same(outcome)
    assert counts(outcome)["local_syncs"] == 0


def test_registered_memory_forbids_local_synchronizations(case: Callable[..., Case]) -> None:
    loop = case("registered", 30)
    outcome = loop.use(manifest_for(loop.calls, SYNC))
    loop.same(outcome)
    assert (counts(outcome)["local_syncs"], outcome.report.round_trips) == (0, loop.plain.report.round_trips)


def test_managed_variables_forbid_local_synchronizations(case: Callable[..., Case]) -> None:
    loop = case("synchronizations", 30)
    outcome = loop.use(replace(manifest_for(loop.calls, SYNC), flags=Flag.MANAGED))
    loop.same(outcome)
    assert (counts(outcome)["local_syncs"], outcome.report.round_trips) == (0, START + 31)


def test_after_a_failed_call_everything_is_there_and_nothing_is_deferred(case: Callable[..., Case]) -> None:
    loop = case("failing", 40)
    outcome = loop.use(manifest_for(loop.calls, READ, more=more(loop.program)))
    loop.same(outcome)
    assert outcome.stdout.startswith("21 ")
    assert counts(outcome)["deferred_reads"] == 21


def test_a_deferred_failure_surfaces(case: Callable[..., Case]) -> None:
    loop = case("faulting", 40)
    outcome = loop.use(manifest_for(loop.calls, READ, more=more(loop.program)))
    loop.same(outcome)
    assert outcome.stdout == "failed\n"


def test_inner_loops_complete_at_their_own_ends(case: Callable[..., Case]) -> None:
    loop = case("nested", 25)
    plain = manifest_for(loop.calls, READ, more=more(loop.program), remaining=remaining(loop.program))
    outer = Loop(0x1000, 0x1000, "scenario")
    inner = replace(plain.loops[0], parent=0)
    manifest = replace(plain, loops=(outer, inner), sites=tuple(replace(site, loop=1) for site in plain.sites))
    outcome = loop.use(manifest)
    loop.same(outcome)
    assert (loop.plain.report.round_trips, outcome.report.round_trips) == (START + 100, START + 25)
    assert counts(outcome)["completed"] == 25


def test_a_copy_in_an_outer_loop_waits_over_the_inner_one(case: Callable[..., Case]) -> None:
    """Calls from inside a loop complete nothing; here the launch stands in an inner loop of its own."""
    loop = case("reads_then_free", 50)
    plain = manifest_for(loop.calls, READ_AT_CALL)
    inner = replace(plain.loops[0], parent=0)
    sites = tuple(replace(site, loop=1) if site.launch else site for site in plain.sites)
    outcome = loop.use(replace(plain, loops=(plain.loops[0], inner), sites=sites))
    loop.same(outcome)
    assert outcome.report.round_trips == START + 1
    # The other way round, the launch is from outside of the copy's loop.
    sites = tuple(replace(site, loop=0 if site.launch else 1) for site in plain.sites)
    outcome = loop.use(replace(plain, loops=(plain.loops[0], inner), sites=sites))
    loop.same(outcome)
    assert outcome.report.round_trips == START + 50


def test_each_thread_completes_for_itself(case: Callable[..., Case]) -> None:
    loop = case("threads", 100)
    outcome = loop.use(manifest_for(loop.calls, READ_AT_CALL))
    loop.same(outcome)
    assert outcome.report.round_trips == START + 2
    assert (counts(outcome)["deferred_reads"], counts(outcome)["completed"]) == (200, 2)


def test_wrong_predictions_are_counted_and_change_nothing(case: Callable[..., Case]) -> None:
    loop = case("launches")
    wrong = manifest_for(loop.calls, {}, remaining=remaining(loop.program, "always"))
    outcome = loop.use(wrong)
    loop.same(outcome)
    assert counts(outcome)["predicted"] == 0
    # A loop's count is looked at every 64 iterations; behind the last look nothing is counted.
    assert MANY - 1 - 64 <= counts(outcome)["mispredicted"] <= MANY - 1
    assert outcome.report.round_trips == START + 1
    # "The last one", each time.
    never = instruction(CONSTANT, 0) + instruction(END)
    outcome = loop.use(manifest_for(loop.calls, {}, remaining=never, more=never))
    loop.same(outcome)
    assert outcome.report.round_trips == START + 1


@pytest.mark.parametrize(("timing", "extra"), [("", 1), ("faithful", 1), ("throughput", 0)])
def test_clocks(case: Callable[..., Case], timing: str, extra: int) -> None:
    loop = case("timed", 40)
    outcome = loop.use(manifest_for(loop.calls, SYNC), FARLANE_TIMING=timing)
    loop.same(outcome)
    assert counts(outcome)["local_syncs"] == 40
    # Faithful: the first clock after the loop waits for all of it, and the others find nothing owed.
    assert outcome.report.round_trips == START + extra
    assert loop.plain.report.round_trips == START + 40


def test_another_programs_manifest_is_ignored_with_one_warning(case: Callable[..., Case]) -> None:
    loop = case("reads", 30)
    manifest = manifest_for(loop.calls, READ, more=more(loop.program))
    outcome = loop.use(replace(manifest, identity=bytes(range(20))))
    loop.same(outcome)
    assert outcome.report.round_trips == START + 30
    lines = outcome.stderr.splitlines()
    assert len(lines) == 1
    assert "is ignored" in lines[0]
    assert bytes(range(20)).hex() in lines[0]


def test_a_damaged_manifest_is_an_error_that_names_the_rule(case: Callable[..., Case]) -> None:
    loop = case("reads", 30)
    content = bytearray(write(manifest_for(loop.calls, READ, more=more(loop.program))))
    content[100] ^= 1
    outcome = loop.use(bytes(content))
    loop.same(outcome)
    assert outcome.report.round_trips == START + 30
    lines = outcome.stderr.splitlines()
    assert len(lines) == 1
    assert "checksum" in lines[0]
    assert ".manifest" in lines[0]


def test_a_manifest_in_the_program_comes_first(case: Callable[..., Case]) -> None:
    loop = case("reads", 30)
    manifest = write(manifest_for(loop.calls, READ, more=more(loop.program)))
    marked = loop.folder / "marked"
    shutil.copy(loop.program, marked)
    marked.write_bytes(embed(Path(loop.program).read_bytes(), manifest))
    loop.command[0] = str(marked)
    outcome = loop.use(b"not looked at")
    loop.same(outcome)
    assert outcome.stderr == ""
    assert outcome.report.round_trips == START + 1


def test_an_unknown_timing_is_refused(case: Callable[..., Case]) -> None:
    outcome = case("reads", 8).use(b"", FARLANE_TIMING="sometimes")
    assert "FARLANE_TIMING" in outcome.stderr
    assert outcome.status == 1


@pytest.fixture
def analyzing(tmp_path: Path) -> Iterator[Guest]:
    """A guest of a host that analyzes its guests' programs."""
    socket = tmp_path / "host.sock"
    command = [
        sys.executable,
        "-m",
        "farlane.backend.commands.serve",
        "--device",
        "sim",
        "--listen",
        f"unix://{socket}",
    ]
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    with subprocess.Popen([*command, "--log-level", "error"], env=environment) as host:
        try:
            eventually(socket.exists)
            yield Guest(f"unix://{socket}")
        finally:
            host.terminate()


def test_the_host_analyzes_the_program_for_later_sessions(program: str, analyzing: Guest) -> None:
    """The first run sends the program; a later one is given its manifest."""
    first = analyzing.run([program, "launches", "50"], "loops")
    assert counts(first)["objects"] == 0

    def given() -> bool:
        later = analyzing.run([program, "launches", "50"], "loops")
        assert (later.status, later.stdout, later.stderr) == (0, first.stdout, "")
        if not counts(later)["objects"]:
            return False
        assert counts(later)["sites"] > 5
        # The others are never decoded.
        assert 0 < counts(later)["sites_met"] < counts(later)["sites"]
        assert counts(later)["mispredicted"] == 0
        return True

    eventually(given, 90)
