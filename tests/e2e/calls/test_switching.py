"""Guests of one host that share too little device memory: each prints what it prints alone, and the host counts who gave way to whom."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from farlane.frontend.devtools.guest import Guest
from farlane.frontend.devtools.programs import Build, compile_program
from farlane.frontend.devtools.toolchain import Toolchain
from farlane.frontend.embedded import EmbeddedHost

pytestmark = pytest.mark.native

PROGRAMS = Path(__file__).parent / "programs"
THREADS = ("--workers", "thread")
PROCESSES = ("--workers", "process")  # confined: the listening process writes their reports


@pytest.fixture(scope="module")
def giving(toolchain: Callable[[str], Toolchain]) -> str:
    return str(compile_program(toolchain("13.0"), [PROGRAMS / "giving.cu"], "giving", Build()))


def counts_of(folder: Path) -> tuple[dict[str, int], dict[int, dict[str, int]]]:
    """The device's counts, and those of sessions by priority."""
    device: dict[str, int] = {}
    sessions = {}
    for file in folder.glob("*.json"):
        sections = json.loads(file.read_text())
        device = sections.get("device: switching", device)
        if found := sections.get("switching"):
            sessions[found["priority"]] = found
    return device, sessions


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("memory", "mode", "workers"),
    [
        (8, "calls", THREADS),
        (64, "calls", THREADS),
        (8, "loops", THREADS),
        (64, "loops", THREADS),
        (8, "calls", PROCESSES),
        (64, "loops", PROCESSES),
    ],
)
def test_a_guest_gives_way_to_one_of_a_higher_priority(
    memory: int, mode: str, workers: tuple[str, ...], giving: str, guest: Guest, tmp_path: Path
) -> None:
    low, high = [giving, "3", "400", "4", "0"], [giving, "12", "3", "6", "5000"]
    alone = [guest.run(command, mode) for command in (low, high)]
    assert all(outcome.status == 0 for outcome in alone)
    options = ("--shared-memory", f"{memory}M", "--session-reports", str(tmp_path), *workers)
    with EmbeddedHost("sim", extra=options) as host, ThreadPoolExecutor(2) as threads:
        together = []
        for command, priority in ((low, "1"), (high, "6")):
            together.append(threads.submit(Guest(host.url).run, command, mode, extra={"FARLANE_PRIORITY": priority}))
            time.sleep(0.3)
        outcomes = [each.result() for each in together]
    assert [(each.status, each.stdout, each.stderr) for each in outcomes] == [(0, each.stdout, "") for each in alone]
    device, sessions = counts_of(tmp_path)
    assert set(sessions) == {1, 6}
    assert device["switches"] == sessions[1]["switches"] > 0
    assert sessions[6]["switches"] == 0
    if memory == 64:
        assert (device["granules"], device["bytes_saved"], device["bytes_restored"]) == (0, 0, 0)
    else:
        assert device["bytes_saved"] > 0
        assert device["bytes_restored"] > 0


def test_guests_of_one_priority_move_nothing_where_they_fit(giving: str, guest: Guest, tmp_path: Path) -> None:
    command = [giving, "3", "60", "2", "1000"]
    alone = guest.run(command, "loops")
    with (
        EmbeddedHost("sim", extra=("--shared-memory", "64M", "--session-reports", str(tmp_path))) as host,
        ThreadPoolExecutor(4) as threads,
    ):
        together = [threads.submit(Guest(host.url).run, command, "loops") for _ in range(4)]
        assert {each.result().stdout for each in together} == {alone.stdout}
    device, _ = counts_of(tmp_path)
    assert device["turns"] >= 4
    assert (device["switches"], device["granules"], device["bytes_saved"]) == (0, 0, 0)


def test_the_host_bounds_what_a_guest_asks_for(giving: str, tmp_path: Path) -> None:
    options = ("--shared-memory", "64M", "--guest-priority", "3", "--session-reports", str(tmp_path))
    with EmbeddedHost("sim", extra=options) as host:
        for priority in ("2", "8"):
            outcome = Guest(host.url).run([giving, "1", "1", "1", "0"], extra={"FARLANE_PRIORITY": priority})
            assert outcome.status == 0
    _, sessions = counts_of(tmp_path)
    assert set(sessions) == {2, 3}
