"""Loops that decide by what they read, led by a host with the GPU device: two round trips for a loop, as on the simulated device.

The plane makes each call that the slice decides, and each READ waits for its stream; Farlane's own driver is below it.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from farlane.frontend.devtools import registry
from farlane.frontend.devtools.guest import Guest
from farlane.frontend.devtools.toolchain import Toolchain

from .test_gpu_host import BUILD, FARLANE, OPTIONS, REGISTRY, gpu_host

pytestmark = pytest.mark.guests

ENTRIES = {entry.name: entry for entry in registry.load(REGISTRY)}
# Round trips besides the loop's: the handshake, and what the program reads before and behind it.
BESIDES = {
    "annealing": 2,
    "bisection": 1,
    "cg_device": 2,
    "cg_host": 3,
    "jacobi": 2,
    "kmeans": 2,
    "levels": 2,
    "pagerank": 2,
    "power_iteration": 2,
}
OF_A_LOOP = 2


@pytest.fixture(scope="module", params=["in order", "late"])
def guest(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guest]:
    options = OPTIONS if request.param == "late" else OPTIONS | {"FARLANE_TEST": "windows-stay"}
    with gpu_host(tmp_path_factory.mktemp("deciding"), options) as guest:
        yield guest


@pytest.mark.parametrize("name", BESIDES)
def test_a_loop_costs_two_round_trips(
    name: str, guest: Guest, toolchain: Callable[[str], Toolchain], tmp_path: Path
) -> None:
    (program,) = ENTRIES[name].compiled(toolchain("13.0"), BUILD)
    analyzed = str(tmp_path / name)
    subprocess.run([FARLANE, "analyze", "--embed", analyzed, program], check=True, timeout=200)
    # Counts do not depend on how fast the machine is where nothing but iterations bounds how far the host leads.
    outcome = guest.run([analyzed], "loops", extra={"FARLANE_LEAD_MS": "0"})
    assert (outcome.status, outcome.stdout, outcome.stderr) == (0, ENTRIES[name].expected, "")
    decided = outcome.report.sections["decided"]
    assert decided["loops"] >= 1
    assert decided["reads"] > 2 * OF_A_LOOP, "a loop with a round trip for each read would not pass"
    assert outcome.report.round_trips <= BESIDES[name] + OF_A_LOOP
