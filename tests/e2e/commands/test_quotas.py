"""What all sessions of one token may have together: device memory, kept payloads, images."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from farlane.frontend.devtools.programs import Build, compile_program
from farlane.frontend.devtools.toolchain import Toolchain
from secured_host import Host, done, farlane, refused

pytestmark = [pytest.mark.native, pytest.mark.xdist_group("security")]

# Allocates so many MiB, says what came of it, and stays until its input ends.
PROGRAM = r"""
#include <cstdio>
#include <cstdlib>
__global__ void work(int *data) { *data = 7; }
int main(int, char **arguments) {
    int *data = nullptr, found = 0;
    cudaError_t error = cudaMalloc(&data, size_t(atoi(arguments[1])) << 20);
    if (!error) {
        work<<<1, 1>>>(data);
        error = cudaMemcpy(&found, data, sizeof found, cudaMemcpyDeviceToHost);
    }
    size_t left, total;
    if (!error) error = cudaMemGetInfo(&left, &total);
    printf("%d %d %zu\n", (int)error, found, total >> 20);
    fflush(stdout);
    while (getchar() != EOF) {}
    return (int)error;
}
"""


@pytest.fixture(scope="module", params=["thread", "process"])
def host(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    started = Host(tmp_path_factory.mktemp("quotas"), "--workers", request.param)
    yield started
    started.close()


@pytest.fixture(scope="module")
def program(toolchain: Callable[[str], Toolchain], tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("program")
    (folder / "quotas.cu").write_text(PROGRAM)
    return str(compile_program(toolchain("13.0"), [folder / "quotas.cu"], "quotas", Build(architecture="sm_75")))


def token(host: Host, name: str, *options: str) -> str:
    return done("token", "create", name, "--folder", str(host.folder.path), *options).strip()


@contextlib.contextmanager
def running(host: Host, program: str, access: str, mebibytes: int) -> Iterator[list[int]]:
    """The program while it stays: its error, what its kernel wrote, the device memory that it sees, in MiB."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("FARLANE_")}
    command = [sys.executable, "-m", "farlane.frontend.cli", "run", "--host", host.url(), "--", program, str(mebibytes)]
    with subprocess.Popen(
        command, env=clean | host.access(access), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        said = list(map(int, process.stdout.readline().split()))
        yield said
        process.stdin.close()
        assert process.wait(60) == said[0]


def run(host: Host, program: str, access: str, mebibytes: int) -> subprocess.CompletedProcess[str]:
    return farlane("run", "--host", host.url(), "--", program, str(mebibytes), **host.access(access))


def listed(host: Host, name: str) -> list[str]:
    shown = done("token", "list", "--folder", str(host.folder.path))
    (line,) = [line for line in shown.splitlines() if line.startswith(f"{name} ")]
    return line.split()


def test_device_memory_of_all_sessions_together(host: Host, program: str) -> None:
    access = token(host, "memory", "--total-memory", "96M", "--quota", "64M")
    with running(host, program, access, 48) as first, running(host, program, access, 24) as second:
        assert (first, second) == ([0, 7, 64], [0, 7, 32]), "the second has what is left"
        refused(run(host, program, access, 1), "the token memory allows its sessions 100663296 bytes of device memory")
        deadline = time.monotonic() + 10
        while (used := listed(host, "memory"))[4] != "2/-" and time.monotonic() < deadline:
            time.sleep(0.1)
        assert (used[4], used[6]) == ("2/-", "100663296/100663296")
        assert re.fullmatch(r"[1-9]\d*/-", used[8]), "images"
    with running(host, program, access, 33) as again:
        assert again == [0, 7, 64], "they have given it back"


def test_images_of_all_sessions_together(host: Host, program: str) -> None:
    access = token(host, "images", "--images", "64")
    with running(host, program, access, 1) as outcome:
        assert outcome[0] != 0, "the kernel's image is larger than that"


def test_payloads_of_all_sessions_together(host: Host, program: str) -> None:
    access = token(host, "payloads", "--payloads", "65M")
    with running(host, program, access, 1), running(host, program, access, 1):
        deadline = time.monotonic() + 10
        while (used := listed(host, "payloads"))[7] != f"{65 << 20}/{65 << 20}" and time.monotonic() < deadline:
            time.sleep(0.1)
        assert used[7] == f"{65 << 20}/{65 << 20}"
        with running(host, program, access, 1) as third:
            assert third[0] == 0, "it keeps none, and works all the same"


def test_a_host_that_has_gone_uses_nothing(tmp_path: Path, program: str) -> None:
    own = Host(tmp_path, "--workers", "thread")
    try:
        access = token(own, "bob")
        with contextlib.suppress(AssertionError), running(own, program, access, 1) as outcome:
            assert outcome[0] == 0
            deadline = time.monotonic() + 10
            while listed(own, "bob")[4] != "1/-" and time.monotonic() < deadline:
                time.sleep(0.1)
            assert listed(own, "bob")[4] == "1/-"
            own.process.kill()
            own.process.wait(30)
            assert list(own.folder.path.glob("usage-*.json")), "its file is there still"
        assert listed(own, "bob")[4] == "0/-"
    finally:
        own.close()
