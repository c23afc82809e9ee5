"""Guests that share device memory, each in a confined process: the same outputs as alone, also where a process ends or does not keep to the rules."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from farlane import hosturl
from farlane.frontend.devtools.guest import Guest
from farlane.frontend.devtools.programs import Build, compile_program
from farlane.frontend.devtools.toolchain import Toolchain
from farlane.frontend.hosts import describe
from farlane.v1 import admin_pb2

pytestmark = pytest.mark.native

PROGRAM = Path(__file__).parents[1] / "calls" / "programs" / "giving.cu"
DOUBLES = Path(__file__).parents[2] / "doubles" / "workers"
SECONDS = 90
SHORT, LONG = ("6", "5", "6", "0"), ("100000", "5", "6", "0")


class Host:
    """A host with some MiB of device memory for all sessions, which are confined processes."""

    def __init__(self, folder: Path, memory: str = "8M", **environment: str) -> None:
        self.url = f"unix://{folder / 'h'}"
        self._log = (folder / "log").open("w+")
        read, write = os.pipe()
        command = [sys.executable, "-m", "farlane.backend.commands.serve", "--listen", self.url, "--workers", "process"]
        self.process = subprocess.Popen(
            [*command, "--shared-memory", memory, "--ready-fd", str(write)],
            pass_fds=[write], stdout=subprocess.DEVNULL, stderr=self._log, env=os.environ | environment,
        )  # fmt: skip
        os.close(write)
        with os.fdopen(read) as ready:
            assert ready.readline(), self.log

    @property
    def log(self) -> str:
        return Path(self._log.name).read_text()

    def start(self, *program: str, priority: int) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "farlane.frontend.cli", "run", "--host", self.url, "--priority", str(priority)]
        pipe = subprocess.PIPE
        return subprocess.Popen([*command, "--", *program], stdout=pipe, stderr=pipe, text=True)

    def wait(self, condition: Callable[[admin_pb2.DescribeReply], bool]) -> admin_pb2.DescribeReply:
        deadline = time.monotonic() + SECONDS
        while not condition(found := describe(hosturl.parse(self.url))):
            assert time.monotonic() < deadline, (found, self.log)
            time.sleep(0.05)
        return found

    def workers(self) -> list[int]:
        """Those with guests: their system calls are restricted."""
        children = Path(f"/proc/{self.process.pid}/task").glob("*/children")
        found = [int(each) for file in children for each in file.read_text().split()]
        return sorted(each for each in found if "Seccomp:\t2" in Path(f"/proc/{each}/status").read_text())

    def close(self) -> None:
        self.process.terminate()
        self.process.wait(SECONDS)
        self._log.close()


def double(name: str, folder: Path) -> dict[str, str]:
    """An environment for a host whose first session has such a process (tests/doubles/workers)."""
    return {"PYTHONPATH": str(DOUBLES), "PYTHON_DOUBLE": name, "PYTHON_DOUBLE_FIRST": str(folder / "first")}


@pytest.fixture(scope="module")
def giving(toolchain: Callable[[str], Toolchain]) -> str:
    return str(compile_program(toolchain("13.0"), [PROGRAM], "giving", Build()))


@pytest.fixture
def alone(giving: str, guest: Guest) -> str:
    outcome = guest.run([giving, *SHORT])
    assert outcome.status == 0
    return outcome.stdout


def test_confined_processes_give_way_and_one_is_killed(tmp_path: Path, giving: str, alone: str) -> None:
    host = Host(tmp_path)
    try:
        with host.start(giving, *LONG, priority=0) as victim:
            host.wait(lambda now: len(now.open) == 1 and now.open[0].memory_used >= 6 << 20)
            [worker] = host.workers()
            with host.start(giving, *SHORT, priority=5) as high:
                assert high.communicate(timeout=SECONDS)[0] == alone
            [session] = host.wait(lambda now: len(now.open) == 1).open
            assert session.counts["switches"] > 0
            assert 0 < session.counts["bytes_saved"] <= session.counts["granules_saved"] << 21
            assert session.counts["bytes_restored"] > 0
            with host.start(giving, *SHORT, priority=0) as equal:
                host.wait(lambda now: len(now.open) == 2)
                os.kill(worker, signal.SIGKILL)
                assert equal.communicate(timeout=SECONDS)[0] == alone
            assert "signal SIGKILL" in victim.communicate(timeout=SECONDS)[1]
        with host.start(giving, *SHORT, priority=0) as last:  # all of the memory is free again
            assert last.communicate(timeout=SECONDS)[0] == alone
        assert host.log.count("its process ended: signal SIGKILL") == 1
    finally:
        host.close()


def test_a_process_that_keeps_what_it_gave_up_is_ended(tmp_path: Path, giving: str, alone: str) -> None:
    host = Host(tmp_path, **double("keeps_memory", tmp_path))
    try:
        with host.start(giving, *LONG, priority=0) as victim:
            host.wait(lambda now: len(now.open) == 1 and now.open[0].memory_used >= 6 << 20)
            with host.start(giving, *SHORT, priority=5) as high:
                assert high.communicate(timeout=SECONDS)[0] == alone
            said = victim.communicate(timeout=SECONDS)[1]
        assert re.search(r"it holds \d+ KiB of device memory, and has been given \d+", said), said
    finally:
        host.close()


def test_a_process_that_computes_without_the_device_is_stopped_until_its_turn(
    tmp_path: Path, giving: str, guest: Guest
) -> None:
    """It waits for turns as if it had asked; so an honest session has the device meanwhile, and both compute what they do alone."""
    rounds = ("60", "40", "6", "0")
    alone = guest.run([giving, *rounds]).stdout
    host = Host(tmp_path, "64M", **double("without_device", tmp_path))
    guests = [host.start(giving, *rounds, priority=0)]
    try:
        host.wait(lambda now: len(now.open) == 1 and now.open[0].memory_used >= 6 << 20)
        guests.append(host.start(giving, *LONG, priority=0))
        found = host.wait(lambda now: len(now.open) == 2 and now.open[0].counts["process_stops"] > 2)
        kernels = found.open[1].counts["kernels"]
        host.wait(lambda now: now.open[-1].counts["kernels"] > kernels + 20)
        assert guests[0].communicate(timeout=SECONDS)[0] == alone
        assert "is ended" not in host.log
    finally:
        host.close()
        for each in guests:
            each.communicate(timeout=SECONDS)
