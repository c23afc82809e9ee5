"""Copies that a manifest permits to be done later, with their destinations out of reach for as long.

A first run under the trace tells at which calls the condition held; in a second one corpus_tools/guard.c makes the destination's pages
inaccessible after each of these, until the program is back at the call. A wrong claim is a crash.
"""

from __future__ import annotations

import subprocess
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import pytest
from corpus_tools import trace
from corpus_tools.cases import CLANG_ROWS, NVCC, Case
from corpus_tools.compare import manifest_of
from farlane.analyzer.loader import elf
from farlane.analyzer.manifest.model import Manifest, Permission
from farlane.frontend.devtools.guest import Guest, Outcome
from farlane.frontend.devtools.toolchain import Toolchain

pytestmark = pytest.mark.native

SOURCE = Path(__file__).parent / "corpus_tools" / "guard.c"
ROUNDS = "9"


@pytest.fixture(scope="module")
def guard(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The preloaded library."""
    output = tmp_path_factory.mktemp("guard") / "libguard.so"
    command = ["gcc", "-O1", "-shared", "-fPIC", "-Wall", "-Werror", "-o", str(output), str(SOURCE), "-ldl"]
    subprocess.run(command, check=True)
    return output


class Bench:
    """Runs one program with guards."""

    def __init__(self, guest: Guest, program: Path, library: Path, folder: Path) -> None:
        self._guest, self._program, self._library, self._folder = guest, program, library, folder
        path = folder / "trace.json"
        self._plain = guest.run([str(program), ROUNDS], "calls", extra={"FARLANE_TRACE": str(path)})
        assert self._plain.status == 0, self._plain.stderr
        self._lines = trace.read(path)

    def permitted(self, manifest: Manifest) -> dict[int, str]:
        """Site -> for each time it is reached, whether the copy may wait."""
        found: dict[int, str] = defaultdict(str)
        for calls in trace.calls_at_sites(self._lines, manifest, elf.load(self._program)).values():
            for call in calls:
                if isinstance(call, trace.Call) and call.site.permissions & Permission.DEFER_READ:
                    completes = call.site.permissions & Permission.COMPLETE_AT_CALL
                    found[call.site.return_address] += "1" if call.more and not completes else "0"
        return dict(found)

    def times(self, site: int, manifest: Manifest) -> int:
        return trace.counts(self._lines, manifest)[site]

    def run(self, table: dict[int, str]) -> tuple[Outcome, int]:
        """How the program ends under guards, and how many were set."""
        guards, report = self._folder / "table", self._folder / "report"
        guards.write_text("".join(f"{site:x} {bits}\n" for site, bits in sorted(table.items())))
        report.unlink(missing_ok=True)
        environment = self._guest.environment(str(self._program), "calls")
        preload = f"{self._library}:{environment['LD_PRELOAD']}"
        extra = {"LD_PRELOAD": preload, "GUARD_TABLE": str(guards), "GUARD_REPORT": str(report)}
        outcome = self._guest.run([str(self._program), ROUNDS], "calls", extra=extra)
        return outcome, int(report.read_text()) if report.exists() else 0

    def same(self, outcome: Outcome) -> bool:
        return (outcome.status, outcome.stdout) == (self._plain.status, self._plain.stdout)


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(case, id=case.id.replace("reads-", ""), marks=pytest.mark.xdist_group(case.id))
        for case in (
            *(Case("reads", row) for row in (*NVCC, CLANG_ROWS[0])),
            *(Case("reads", row, driver=True) for row in NVCC),
        )
    ],
)
def bench(
    request: pytest.FixtureRequest,
    toolchain: Callable[..., Toolchain],
    guest: Guest,
    guard: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[Bench, Manifest]:
    program = request.param.compiled(toolchain)
    return Bench(guest, program, guard, tmp_path_factory.mktemp("bench")), manifest_of(program)


def test_nobody_touches_what_may_wait(bench: tuple[Bench, Manifest]) -> None:
    runner, manifest = bench
    table = runner.permitted(manifest)
    assert sum(bits.count("1") for bits in table.values()) > 50
    outcome, guards = runner.run(table)
    assert runner.same(outcome), outcome.stderr
    assert guards > 40


@pytest.mark.parametrize(
    "function", ["read_at_once", "read_next_time", "copied_on", "overwritten", "freed", "previous_read_in_callee"]
)
def test_a_wrong_claim_is_noticed(bench: tuple[Bench, Manifest], function: str) -> None:
    """The bench itself: what must not be permitted, permitted."""
    runner, manifest = bench
    names = {index: loop.name for index, loop in enumerate(manifest.loops)}
    (site,) = [
        s.return_address
        for s in manifest.sites
        if names[s.loop] == function and s.name in ("cudaMemcpy", "cuMemcpyDtoH")
    ]
    outcome, _ = runner.run({site: "1" * (runner.times(site, manifest) - 1) + "0"})
    assert outcome.status in (-11, -6), outcome.stderr
