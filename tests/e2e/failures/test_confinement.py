"""What a session's process can reach, should its guest take it over: nothing of others. And what it needs works all the same."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from farlane.frontend.devtools import registry
from farlane.frontend.devtools.programs import Build, compile_program
from farlane.frontend.devtools.toolchain import Toolchain

DOUBLES = Path(__file__).parents[2] / "doubles" / "workers"
NATIVE = Path(__file__).parents[2] / "native"
MARK = "taken over: "

# Everything in root's home folder is hidden but this folder.
KEPT = """
kept=$1; shift
case $kept in /root/*)
    place=$(mktemp -d); mount --bind "$kept" "$place"; mount -t tmpfs -o mode=755 none /root
    mkdir -p "$kept"; mount --move "$place" "$kept"; rmdir "$place";;
esac
exec "$@"
"""

LONG = r"""
#include <cstdio>
#include <ctime>
#include <unistd.h>
__global__ void work(unsigned *data, unsigned rounds) {
    unsigned value = data[threadIdx.x] + threadIdx.x;
    for (unsigned i = 0; i < rounds; ++i) value = value * 1664525u + (value >> 7) + i;
    data[threadIdx.x] = value;
}
int main(int, char **arguments) {
    unsigned *data, found[64];
    cudaMalloc(&data, sizeof found);
    cudaMemset(data, 0, sizeof found);
    time_t start = time(nullptr);
    do {
        work<<<1, 64>>>(data, 20000);
        cudaDeviceSynchronize();
    } while (!cudaPeekAtLastError() && time(nullptr) < start + 60 && access(arguments[1], F_OK));
    cudaMemcpy(found, data, sizeof found, cudaMemcpyDeviceToHost);
    printf("%s\n", cudaGetErrorString(cudaGetLastError()));
}
"""


class Host:
    """A host whose sessions are processes, on a Unix socket."""

    def __init__(self, folder: Path, *arguments: str, prefix: Sequence[str] = (), **environment: str) -> None:
        self.url = f"unix://{folder / 'h'}"
        self._log = (folder / "log").open("w+")
        read, write = os.pipe()
        command = [*prefix, sys.executable, "-m", "farlane.backend.commands.serve", "--listen", self.url]
        command += ["--workers", "process", "--ready-fd", str(write), *arguments]
        self.process = subprocess.Popen(
            command, pass_fds=[write], stdout=subprocess.PIPE, stderr=self._log, env=os.environ | environment, text=True
        )
        os.close(write)
        with os.fdopen(read) as ready:
            assert ready.readline(), self.log
        assert self.process.stdout
        self.said = self.process.stdout.readline()

    @property
    def log(self) -> str:
        return Path(self._log.name).read_text()

    def processes(self, module: str) -> list[Path]:
        """Those that the host has started with this module."""
        found = []
        for each in Path("/proc").iterdir():
            if each.name.isdecimal():
                try:
                    parent = (each / "stat").read_text().rpartition(")")[2].split()[1]
                    if int(parent) == self.process.pid and f"\0{module}\0" in (each / "cmdline").read_text() + "\0":
                        found.append(each)
                except OSError:
                    continue
        return found

    def close(self) -> None:
        self.process.terminate()
        self.process.wait(30)
        self._log.close()


def run(host: Host, *program: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "farlane.frontend.cli", "run", "--host", host.url, "--", *program]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


@pytest.fixture(scope="module")
def vecadd(toolchain: Callable[[str], Toolchain]) -> str:
    entries = {entry.name: entry for entry in registry.load(NATIVE / "registry.toml")}
    return entries["vecadd"].compiled(toolchain("13.0"), Build(architecture="sm_75"))[0]


@pytest.fixture
def others(tmp_path: Path) -> Iterator[dict[str, str]]:
    """Files, sockets and a process of others, as the environment of what tries to reach them."""
    folder = tmp_path / "others"
    folder.mkdir()
    (folder / "secret").write_text("a secret")
    (folder / "old").write_text("to be kept")
    name = f"farlane-test-{os.getpid()}"
    with (
        socket.create_server(("127.0.0.1", 0)) as tcp,
        socket.socket(socket.AF_UNIX) as unix,
        socket.socket(socket.AF_UNIX) as abstract,
        subprocess.Popen(["sleep", "300"]) as process,
    ):
        for end, address in ((unix, str(folder / "socket")), (abstract, "\0" + name)):
            end.bind(address)
            end.listen()
        wanted = {
            "read": [str(folder / "secret"), "/etc/passwd", "/proc/1/cmdline"], "list": str(folder), "remove": str(folder / "old"),
            "write": str(folder / "new"), "tcp": tcp.getsockname(), "unix": str(folder / "socket"), "abstract": name,
        }  # fmt: skip
        yield {
            "PYTHON_TAKEN_OVER": json.dumps(wanted),
            "PYTHON_TAKEN_OVER_PID": str(process.pid),
            "PYTHONPATH": str(DOUBLES),
            "PYTHON_DOUBLE": "taken_over",
        }
        process.kill()


def succeeded(text: str) -> set[str]:
    found = re.findall(f"^{MARK}(.*)$", text, re.M)
    assert len(found) == 1, text
    return set(json.loads(found[0]))


@pytest.fixture
def everyones() -> list[str]:
    """What to begin a command with so that every user can run this interpreter, which may lie in root's home folder."""
    kept = ["unshare", "--mount", "sh", "-ec", KEPT, "sh", sys.base_prefix]
    command = [*kept, sys.executable, "-c", "import os; os.setuid(70000); os.stat(os.path.realpath(os.sys.executable))"]
    if os.geteuid() or subprocess.run(command, capture_output=True).returncode:
        pytest.skip("needs root, and namespaces of its own for mounts")
    return kept


def test_a_process_that_was_taken_over_reaches_nothing_of_others(
    tmp_path: Path, others: dict[str, str], vecadd: str
) -> None:
    taken_over(Host(tmp_path, "--worker-user", "off", **others), vecadd)


def test_a_process_of_a_user_of_its_own_that_was_taken_over_reaches_nothing_of_others(
    tmp_path: Path, others: dict[str, str], vecadd: str, everyones: list[str]
) -> None:
    host = Host(tmp_path, prefix=everyones, **others)
    assert "users 1879048192 to 1879049215" in host.said, host.log
    taken_over(host, vecadd)


def taken_over(host: Host, vecadd: str) -> None:
    try:
        assert "a confined process for each session" in host.said
        outcome = run(host, vecadd)
        assert (outcome.returncode, outcome.stdout.splitlines()[-1:]) == (0, ["PASS"]), outcome.stderr + host.log
        deadline = time.monotonic() + 30
        while MARK not in host.log and time.monotonic() < deadline:
            time.sleep(0.05)
        assert succeeded(host.log) == set()
    finally:
        host.close()


def test_an_ordinary_process_would_reach_it(others: dict[str, str]) -> None:
    """What the test above tries is possible here, but for what this system itself refuses."""
    program = DOUBLES / "taken_over.py"
    environment = {**os.environ, **others, "PYTHONPATH": ""}
    outcome = subprocess.run([sys.executable, program], capture_output=True, text=True, env=environment, timeout=60)
    found = succeeded(outcome.stderr)
    refused_by_systems = {"make keys", "make a ring", "trace", "read memory"}  # containers' filters, Yama
    assert len(found) >= 12, found
    everything = {name for name in found if not name.startswith("read /")} | refused_by_systems
    assert everything >= {
        "write", "remove", "list", "connect by TCP", "connect by a Unix socket", "connect by an abstract socket", "signal",
        "be signalled for", "start a program", "fork", "look at the environment", "hold a process",
    }  # fmt: skip


def test_the_environment_has_no_secrets(tmp_path: Path) -> None:
    host = Host(tmp_path, FARLANE_TOKEN="a secret", SOME_KEY="another one")
    try:
        (worker,) = host.processes("farlane.backend.workers.start")
        variables = (worker / "environ").read_text()
        assert "PATH=" in variables
        assert "secret" not in variables
        assert "another one" not in variables
    finally:
        host.close()


def test_kernels_that_run_long_are_compiled_better_by_a_confined_process(
    tmp_path: Path, toolchain: Callable[[str], Toolchain]
) -> None:
    (tmp_path / "long.cu").write_text(LONG)
    program = str(compile_program(toolchain("13.0"), [tmp_path / "long.cu"], "long", Build(architecture="sm_75")))
    host = Host(tmp_path, FARLANE_CACHE_DIR=str(tmp_path / "cache"))
    try:
        outcomes: list[subprocess.CompletedProcess[str]] = []
        enough = tmp_path / "enough"
        thread = threading.Thread(target=lambda: outcomes.append(run(host, program, str(enough))))
        thread.start()
        seen: set[str] = set()
        while thread.is_alive():
            if "Seccomp:\t2" in seen:
                enough.touch()
            for each in host.processes("farlane.backend.workers.compiling"):
                try:
                    status = (each / "status").read_text()
                except OSError:
                    continue
                seen |= {line for line in status.splitlines() if line.startswith(("Seccomp:", "NoNewPrivs:"))}
            time.sleep(0.02)
        assert (outcomes[0].returncode, outcomes[0].stdout) == (0, "no error\n"), outcomes[0].stderr + host.log
        assert {"NoNewPrivs:\t1", "Seccomp:\t2"} <= seen
        assert "stays in tier 1" not in host.log
        deadline = time.monotonic() + 10
        while host.processes("farlane.backend.workers.compiling") and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not host.processes("farlane.backend.workers.compiling")
    finally:
        host.close()


def users_of(process: Path) -> list[list[str]]:
    """User, group and further groups: real, effective, saved, of files."""
    lines = (process / "status").read_text().splitlines()
    return [line.split()[1:] for line in lines if line.startswith(("Uid:", "Gid:", "Groups:"))]


def test_processes_of_users_of_their_own(
    tmp_path: Path, toolchain: Callable[[str], Toolchain], everyones: list[str]
) -> None:
    (tmp_path / "long.cu").write_text(LONG)
    program = str(compile_program(toolchain("13.0"), [tmp_path / "long.cu"], "long", Build(architecture="sm_75")))
    enough = tmp_path / "enough"
    host = Host(
        tmp_path, "--worker-user", "70000-70003", "--warm", "1", prefix=everyones, FARLANE_CACHE_DIR=str(tmp_path / "cache")
    )  # fmt: skip
    try:
        with starting(host, program, str(enough)) as one, starting(host, program, str(enough)) as other:
            seen: list[tuple[str, ...]] = []
            compiling: set[str] = set()
            deadline = time.monotonic() + 60
            while (len(seen) < 2 or not compiling) and time.monotonic() < deadline:
                found = [Path(f"/proc/{pid}") for pid in workers_with_guests(host)]
                seen = [(*users, *groups, *further) for users, groups, further in map(users_of, found)]
                with contextlib.suppress(OSError):
                    compiling |= {users_of(each)[0][0] for each in host.processes("farlane.backend.workers.compiling")}
                time.sleep(0.02)
            enough.touch()
            assert (one.wait(60), other.wait(60)) == (0, 0)
            assert one.stdout
            assert one.stdout.read() == "no error\n"
        assert len(set(seen)) == 2, "each has one of its own"
        assert all(len(set(numbers)) == 1 and 70000 <= int(numbers[0]) <= 70003 for numbers in seen), seen
        assert compiling
        assert compiling <= {numbers[0] for numbers in seen}, "it has its session's"
        for _ in range(4):  # users come again
            assert run(host, program, str(enough)).stdout == "no error\n", host.log
    finally:
        host.close()


def test_a_user_that_cannot_read_farlane(tmp_path: Path) -> None:
    if os.geteuid():
        pytest.skip("needs root, and namespaces of its own for mounts")
    hidden = tmp_path / "hidden"
    hidden.mkdir(mode=0o700)
    (hidden / "venv").symlink_to(sys.prefix)
    command = [str(hidden / "venv/bin/python"), "-m", "farlane.backend.commands.serve", "--workers", "process"]
    command += ["--listen", f"unix://{tmp_path / 'h'}", "--worker-user", "70000"]
    outcome = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert outcome.returncode == 1
    assert "farlane: --worker-user cannot be used: " in outcome.stderr
    assert "Permission denied" in outcome.stderr


def starting(host: Host, *program: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "farlane.frontend.cli", "run", "--host", host.url, "--", *program]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.parametrize("how", ["memory", "file"])
def test_a_process_that_takes_too_much_memory_is_ended(
    tmp_path: Path, how: str, toolchain: Callable[[str], Toolchain]
) -> None:
    (tmp_path / "long.cu").write_text(LONG)
    program = str(compile_program(toolchain("13.0"), [tmp_path / "long.cu"], "long", Build(architecture="sm_75")))
    enough = tmp_path / "enough"
    host = Host(
        tmp_path, "--quota", "64M", "--worker-memory", "256M", "--warm", "2",
        PYTHONPATH=str(DOUBLES), PYTHON_DOUBLE="greedy", PYTHON_GREEDY=how,
    )  # fmt: skip
    try:
        with starting(host, program, str(enough)) as other, starting(host, program, str(enough)) as one:
            deadline = time.monotonic() + 60
            while len(workers_with_guests(host)) < 2 and time.monotonic() < deadline:
                time.sleep(0.1)
            victim, _ = sorted(workers_with_guests(host))
            os.kill(victim, signal.SIGUSR1)
            first = ended_first(one, other, deadline)
            assert first.stderr
            assert first.stdout
            said = first.stderr.read()
            assert re.search(r"its process takes \d+ MiB of the host's memory, and may take 320", said), said + host.log
            assert first.stdout.read() == "CUDA-capable device(s) is/are busy or unavailable\n"
            enough.touch()
            survivor = other if first is one else one
            assert survivor.wait(60) == 0
            assert survivor.stdout
            assert survivor.stdout.read() == "no error\n", "another session goes on"
        assert re.search(r"session s\d is ended: its process takes", host.log)
        assert run(host, program, str(enough)).stdout == "no error\n"
    finally:
        host.close()


def workers_with_guests(host: Host) -> list[int]:
    """Their system calls are restricted."""
    found = host.processes("farlane.backend.workers.start")
    return [int(each.name) for each in found if "Seccomp:\t2" in (each / "status").read_text()]


def ended_first(one: subprocess.Popen[str], other: subprocess.Popen[str], deadline: float) -> subprocess.Popen[str]:
    while time.monotonic() < deadline:
        for each in (one, other):
            if each.poll() is not None:
                return each
        time.sleep(0.05)
    raise AssertionError("neither session is ended")


def kept(cache: Path) -> dict[str, int]:
    """The code that the host keeps for guests, by folder and name: when it was used last."""
    return {str(each.relative_to(cache)): each.stat().st_mtime_ns for each in sorted(cache.glob("guests/*/*"))}


def test_a_confined_session_finds_what_an_earlier_one_has_compiled(tmp_path: Path, vecadd: str) -> None:
    cache = tmp_path / "cache"
    host = Host(tmp_path, FARLANE_CACHE_DIR=str(cache))
    try:
        runs = []
        for _ in range(2):
            outcome = run(host, vecadd)
            assert "PASS" in outcome.stdout, outcome.stderr + host.log
            runs.append(kept(cache))
        first, second = runs
        assert first
        assert all(name.startswith("guests/local/") for name in first), first
        assert first.keys() == second.keys()
        assert all(second[name] > first[name] for name in first), "found, and not made anew"
        for name in first:  # as a worker that was taken over could do
            (cache / name).write_bytes(b"FARLJIT1" + bytes(200))
        assert "PASS" in run(host, vecadd).stdout
        assert (cache / "guests/local").stat().st_mode & 0o777 == 0o700
        assert not list(cache.glob("jit/*")), "nothing that others find"
    finally:
        host.close()


def test_tier_2_code_of_a_confined_session_is_found_again(
    tmp_path: Path, toolchain: Callable[[str], Toolchain]
) -> None:
    (tmp_path / "long.cu").write_text(LONG)
    program = str(compile_program(toolchain("13.0"), [tmp_path / "long.cu"], "long", Build(architecture="sm_75")))
    cache = tmp_path / "cache"
    host = Host(tmp_path, FARLANE_CACHE_DIR=str(cache))
    try:
        outcomes: list[subprocess.CompletedProcess[str]] = []
        enough = tmp_path / "enough"
        thread = threading.Thread(target=lambda: outcomes.append(run(host, program, str(enough))))
        thread.start()
        while thread.is_alive() and len(kept(cache)) < 2:  # of either tier
            time.sleep(0.02)
        enough.touch()
        thread.join()
        assert outcomes[0].stdout == "no error\n", outcomes[0].stderr + host.log
        first = kept(cache)
        assert len(first) == 2
        assert run(host, program, str(enough)).stdout == "no error\n"
        second = kept(cache)
        assert [name for name in first if second[name] > first[name]] != []
        assert first.keys() == second.keys()
    finally:
        host.close()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--workers", "process", "--memory-trace", "trace"], "--memory-trace has each session write a file"),
        (["--workers", "thread", "--confine", "on"], "--confine needs --workers process"),
        (["--workers", "thread", "--worker-memory", "1G"], "--worker-memory needs --workers process"),
    ],
)
def test_what_does_not_go_together(tmp_path: Path, arguments: list[str], words: str) -> None:
    command = [
        sys.executable,
        "-m",
        "farlane.backend.commands.serve",
        "--listen",
        f"unix://{tmp_path / 'h'}",
        *arguments,
    ]
    outcome = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=tmp_path)
    assert outcome.returncode == 1
    assert outcome.stderr.startswith("farlane: ")
    assert words in outcome.stderr
