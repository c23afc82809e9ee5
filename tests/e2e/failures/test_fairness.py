"""Sessions that share the device's time: in threads and in processes, and a process that takes what it was not given."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from farlane import hosturl
from farlane.frontend.devtools.programs import Build, compile_program
from farlane.frontend.devtools.toolchain import Toolchain
from farlane.frontend.hosts import describe
from farlane.v1 import admin_pb2

DOUBLES = Path(__file__).parents[2] / "doubles" / "workers"
SECONDS = 90
SERVED = 2e7  # nanoseconds: while other programs fill the machine, a session waits for others for some 5 ms in a second

# Launches of many blocks, each waited for, until a file is there; then whether each block has counted each launch.
PROGRAM = r"""
#include <cstdio>
#include <unistd.h>
__global__ void work(unsigned *data, unsigned rounds) {
    unsigned value = data[blockIdx.x];
    for (unsigned i = 0; i < rounds; ++i) value = value * 1664525u + (value >> 7) + i;
    if (threadIdx.x == 0) data[blockIdx.x] += value == 0 ? 2 : 1;
}
int main(int, char **arguments) {
    unsigned *data, found[64], launches = 0, wrong = 0, seen = 0;
    cudaMalloc(&data, sizeof found);
    cudaMemset(data, 0, sizeof found);
    for (; seen <= 2 * launches && access(arguments[1], F_OK); ++launches) {
        work<<<64, 32>>>(data, 50000);
        cudaMemcpy(&seen, data, sizeof seen, cudaMemcpyDeviceToHost);
    }
    cudaMemcpy(found, data, sizeof found, cudaMemcpyDeviceToHost);
    for (unsigned value : found) wrong += value < launches || value > 2 * launches;
    printf("%s, %u wrong\n", cudaGetErrorString(cudaGetLastError()), wrong);
}
"""


class Host:
    """A host whose device runs one session at once."""

    def __init__(self, folder: Path, *arguments: str, **environment: str) -> None:
        self.url = f"unix://{folder / 'h'}"
        read, write = os.pipe()
        command = [sys.executable, "-m", "farlane.backend.commands.serve", "--listen", self.url]
        command += ["--ready-fd", str(write), *arguments]
        self.process = subprocess.Popen(
            command,
            pass_fds=[write],
            stdout=subprocess.DEVNULL,
            env=os.environ | {"FARLANE_SIM_THREADS": "1"} | environment,
        )
        os.close(write)
        self._guests: list[subprocess.Popen[str]] = []
        with os.fdopen(read) as ready:
            assert ready.readline()

    def start(self, *program: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "farlane.frontend.cli", "run", "--host", self.url, "--", *program]
        pipe = subprocess.PIPE
        guest = subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, start_new_session=True)
        self._guests.append(guest)
        return guest

    def wait(self, condition: Callable[[admin_pb2.DescribeReply], bool]) -> admin_pb2.DescribeReply:
        deadline = time.monotonic() + SECONDS
        while not condition(found := describe(hosturl.parse(self.url))):
            assert time.monotonic() < deadline, found
            time.sleep(0.05)
        return found

    def close(self) -> None:
        for guest in self._guests:
            if guest.poll() is None:  # the test has failed: the program would go on for ever
                os.killpg(guest.pid, signal.SIGKILL)
                guest.communicate()
        self.process.terminate()
        self.process.wait(SECONDS)


@pytest.fixture(scope="module")
def program(toolchain: Callable[[str], Toolchain], tmp_path_factory: pytest.TempPathFactory) -> str:
    source = tmp_path_factory.mktemp("fairness") / "program.cu"
    source.write_text(PROGRAM)
    return str(compile_program(toolchain("13.0"), [source], "fairness_test", Build()))


def ended(guests: list[subprocess.Popen[str]]) -> None:
    for each in guests:
        output, errors = each.communicate(timeout=SECONDS)
        assert (each.returncode, output) == (0, "no error, 0 wrong\n"), errors


@pytest.mark.parametrize("workers", ["thread", "process"])
def test_all_are_served_and_launches_go_on_where_they_stopped(tmp_path: Path, program: str, workers: str) -> None:
    host = Host(tmp_path, "--workers", workers)
    try:
        guests = [host.start(program, str(tmp_path / "stop")) for _ in range(3)]
        shared = host.wait(
            lambda now: (
                len(now.open) == 3
                and all(
                    min(each.served.service_nanoseconds, each.served.waited_nanoseconds) > SERVED for each in now.open
                )
            )
        )
        assert {(each.served.priority, each.served.weight) for each in shared.open} == {(0, 1)}
        (tmp_path / "stop").touch()
        ended(guests)
    finally:
        host.close()


def test_a_process_that_takes_what_it_was_not_given_is_stopped(tmp_path: Path, program: str) -> None:
    double = {
        "PYTHONPATH": str(DOUBLES),
        "PYTHON_DOUBLE": "without_place",
        "PYTHON_DOUBLE_FIRST": str(tmp_path / "first"),
    }
    host = Host(tmp_path, "--workers", "process", **double)
    try:
        guests = [host.start(program, str(tmp_path / "stop"))]
        host.wait(lambda now: len(now.open) == 1)
        guests.append(host.start(program, str(tmp_path / "stop")))
        found = host.wait(
            lambda now: (
                len(now.open) == 2
                and now.open[0].served.stopped > 2
                and now.open[1].served.service_nanoseconds > SERVED
            )
        )
        # What it did not say was charged all the same.
        assert found.open[0].served.service_nanoseconds > 0
        (tmp_path / "stop").touch()
        ended(guests)
    finally:
        host.close()


def test_a_full_host_tells_a_guest_its_place(tmp_path: Path, program: str) -> None:
    host = Host(tmp_path, "--sessions", "1")
    try:
        first = host.start(program, str(tmp_path / "stop"))
        host.wait(lambda now: len(now.open) == 1)
        second = host.start(program, str(tmp_path / "stop"))
        host.wait(lambda now: now.waiting == 1)
        gives_up = host.start(program, str(tmp_path / "stop"))
        host.wait(lambda now: now.waiting == 2)
        os.killpg(gives_up.pid, signal.SIGKILL)
        gives_up.communicate()
        host.wait(lambda now: now.waiting == 1)
        (tmp_path / "stop").touch()
        output, errors = second.communicate(timeout=SECONDS)
        assert (second.returncode, output) == (0, "no error, 0 wrong\n"), errors
        assert "waiting for the host: place 1 of 1" in errors
        ended([first])
    finally:
        host.close()


def test_no_queue(tmp_path: Path, program: str) -> None:
    host = Host(tmp_path, "--sessions", "1", "--queue", "0")
    try:
        first = host.start(program, str(tmp_path / "stop"))
        host.wait(lambda now: len(now.open) == 1)
        second = host.start(program, str(tmp_path / "refused"))
        (tmp_path / "refused").touch()
        _, errors = second.communicate(timeout=SECONDS)
        assert "the host serves 1 sessions already" in errors
        (tmp_path / "stop").touch()
        ended([first])
    finally:
        host.close()
