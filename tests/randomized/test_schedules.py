"""Random schedules of sessions that share too little device memory, in threads and in processes: each reads what it reads alone.

    pytest tests/randomized/test_schedules.py --schedule-sessions 20 --schedule-steps 150 --schedule-seed 7

schedules/sessions.py says what a session does, schedules/processes.py how it is a process. A schedule that fails names its seed.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from farlane.backend.device.sim import SimDevice

sys.path.insert(0, str(Path(__file__).parent))
from schedules.processes import digests
from schedules.sessions import GRANULE, Session, shared

SWITCH_SECONDS = 0.0005  # as a host's


class Schedule(NamedTuple):
    seed: int
    steps: int
    sessions: list[int]  # their seeds
    alone: list[str]  # what each reads alone

    @property
    def name(self) -> str:
        return f"--schedule-seed {self.seed}"


@pytest.fixture(scope="module")
def schedule(pytestconfig: pytest.Config) -> Schedule:
    count, steps, seed = (pytestconfig.getoption(f"--schedule-{each}") for each in ("sessions", "steps", "seed"))
    sessions = [1000 * seed + number for number in range(count)]
    alone = []
    for each in sessions:
        device = SimDevice(threads=2, total_memory=1 << 30)
        alone.append(Session(device, each, steps).run())
        device.close()
    return Schedule(seed, steps, sessions, alone)


@pytest.fixture(autouse=True)
def as_a_host() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_SECONDS)
    yield
    sys.setswitchinterval(before)


def in_threads(schedule: Schedule) -> tuple[list[str], dict[str, int]]:
    device = shared(len(schedule.sessions))
    try:
        found: dict[int, str] = {}
        sessions = [Session(device, each, schedule.steps) for each in schedule.sessions]

        def run(number: int) -> None:
            found[number] = sessions[number].run()

        threads = [threading.Thread(target=run, args=(number,)) for number in range(len(sessions))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(600)
            assert not thread.is_alive(), f"{schedule.name}: a session hangs"
        [counts] = device.report().values()
    finally:
        device.close()
    return [found[number] for number in range(len(sessions))], counts


def in_processes(schedule: Schedule) -> tuple[list[str], dict[str, int]]:
    return digests(schedule.sessions, schedule.steps, len(schedule.sessions))


@pytest.mark.parametrize("run", [in_threads, in_processes])
def test_each_session_reads_what_it_reads_alone(
    run: Callable[[Schedule], tuple[list[str], dict[str, int]]], schedule: Schedule, capsys: pytest.CaptureFixture[str]
) -> None:
    found, counts = run(schedule)
    with capsys.disabled():
        print(f"\n{len(schedule.sessions)} sessions {run.__name__}: {counts}")
    assert found == schedule.alone, schedule.name
    assert counts["switches"], "no session had to give way"
    assert min(counts["bytes_saved"], counts["bytes_restored"]) > 0
    assert counts["bytes_saved"] <= counts["granules"] * GRANULE
