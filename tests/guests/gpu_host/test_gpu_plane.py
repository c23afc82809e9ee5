"""Who calls the driver: a guest, a host with the GPU device, Farlane's own driver below it, and the simulated device behind that.

The session's report has what the plane of the session's process has done by itself (`Direct.counts`); tests/guests/gpu/test_plane.py
has the same record by record, and `calls` of the driver beside it.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from farlane.frontend.devtools.programs import Build, compile_program
from farlane.frontend.devtools.toolchain import Toolchain

from .test_gpu_host import BUILD, OPTIONS, gpu_host

pytestmark = pytest.mark.guests

PROGRAM = Path(__file__).parents[1] / "programs/plane_records.cu"
LAUNCHES, ROUNDS = 10_000, 100
SECONDS = 30
IN_ORDER = OPTIONS | {"FARLANE_TEST": "windows-stay"}


@pytest.fixture(scope="module")
def program(toolchain: Callable[[str], Toolchain]) -> list[str]:
    return [str(compile_program(toolchain("13.0"), [PROGRAM], "plane_records", Build(architecture=BUILD.architecture)))]


def done_by_the_plane(
    folder: Path, program: list[str], mode: str, options: Mapping[str, str] = IN_ORDER
) -> tuple[dict[str, int], dict[str, int]]:
    """What a run's session report says of the plane and of the GPU. The program's output has been checked."""
    reports = folder / "reports"
    reports.mkdir()
    with gpu_host(folder, options | {"FARLANE_SESSION_REPORTS": str(reports)}) as guest:
        outcome = guest.run(program, mode)
        assert (outcome.status, outcome.stdout) == (0, "the same\n"), outcome.stderr
        ends = time.monotonic() + SECONDS
        while not (found := list(reports.iterdir())):
            assert time.monotonic() < ends
            time.sleep(0.05)
        sections = json.loads(found[0].read_text())
    return sections["plane"], sections["gpu"]


@pytest.mark.parametrize("options", [IN_ORDER, OPTIONS], ids=["in order", "late"])
def test_records_one_by_one(program: list[str], tmp_path: Path, options: Mapping[str, str]) -> None:
    """All but the first two of the launches, which Python issues and lays out."""
    plane, _ = done_by_the_plane(tmp_path, program, "calls", options)
    assert plane["launches"] == LAUNCHES - 2
    wanted = dict.fromkeys(("sets", "copies", "records", "waits", "reads"), ROUNDS) | {"writes": ROUNDS + 1}
    assert {name: plane[name] for name in wanted} == wanted
    assert plane["synchronizations"] >= ROUNDS
    assert plane["graphs"] == 0


def test_loops_as_graphs(program: list[str], tmp_path: Path) -> None:
    """The loop of launches comes as a REPEAT: its iterations are graphs, and the rest of them launches; Python issues neither."""
    plane, gpu = done_by_the_plane(tmp_path, program, "loops", IN_ORDER | {"FARLANE_GPU_GRAPHS": "on"})
    assert plane["graphs"] == gpu["graph_launches"] > 5
    assert gpu["graphs_given_up"] == 0
    assert plane["launches"] + gpu["graph_iterations"] >= LAUNCHES - 20


def workers(host: int) -> set[int]:
    """The processes of sessions under a process."""
    found, waiting = set(), [host]
    while waiting:
        process = waiting.pop()
        try:
            for children in Path(f"/proc/{process}/task").glob("*/children"):
                waiting += map(int, children.read_text().split())
            if b"farlane.backend.workers.process" in Path(f"/proc/{process}/cmdline").read_bytes():
                found.add(process)
        except OSError:
            continue  # it has ended
    return found


def test_a_guest_that_goes_during_a_wait_ends_its_session(program: list[str], tmp_path: Path) -> None:
    """The plane waits in the driver for a kernel that does not end, without Python's lock: the session's process hears of it, and ends."""
    with gpu_host(tmp_path, IN_ORDER) as guest:
        environment = guest.environment(program[0], "calls")
        before = workers(os.getpid())
        with subprocess.Popen([*program, "spin"], env=environment, stdout=subprocess.PIPE, text=True) as waiting:
            assert waiting.stdout is not None
            assert waiting.stdout.readline() == "waiting\n"
            time.sleep(0.5)
            serving = before & workers(os.getpid())
            assert serving
            waiting.send_signal(signal.SIGKILL)
        started = time.monotonic()
        while serving <= workers(os.getpid()):
            assert time.monotonic() < started + 2, "the session's process goes on"
            time.sleep(0.02)
        assert guest.run(program, "calls").stdout == "the same\n"
