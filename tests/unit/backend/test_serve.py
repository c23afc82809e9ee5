"""`farlane serve` and `farlane devices` as processes: starting, saying so, stopping, and what a user is told when it cannot be."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import grpc
import pytest
from farlane.backend.commands import devices
from farlane.backend.commands.sizes import parse_bytes
from farlane.v1 import admin_pb2
from waiting import eventually

Start = Callable[..., "subprocess.Popen[str]"]


def arguments(*more: str) -> list[str]:
    return [sys.executable, "-m", "farlane.backend.commands.serve", "--device", "null", *more]


@pytest.fixture
def start() -> Iterator[Start]:
    started: list[subprocess.Popen[str]] = []

    def starting(*more: str) -> subprocess.Popen[str]:
        started.append(subprocess.Popen(arguments(*more), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
        return started[-1]

    yield starting
    for process in started:
        process.kill()
        process.communicate()


def listening(process: subprocess.Popen[str]) -> str:
    """The endpoint that the process says it listens on."""
    assert process.stdout
    line = process.stdout.readline()
    assert line.startswith("farlane: listening on "), (line, process.communicate())
    return line.split()[3]


def describe(target: str) -> admin_pb2.DescribeReply:
    with grpc.insecure_channel(target, options=[("grpc.default_authority", "localhost")]) as channel:
        reply: admin_pb2.DescribeReply = channel.unary_unary(
            "/farlane.v1.AdminService/Describe",
            request_serializer=admin_pb2.DescribeRequest.SerializeToString,
            response_deserializer=admin_pb2.DescribeReply.FromString,
        )(admin_pb2.DescribeRequest(), timeout=10)
    return reply


def test_any_free_port_and_a_socket_at_once(start: Start, tmp_path: Path) -> None:
    process = start("--listen", "grpc://127.0.0.1:0", "--listen", f"unix://{tmp_path}/s", "--sessions", "3")
    endpoints = [listening(process), listening(process)]
    assert endpoints[1] == f"unix://{tmp_path}/s"
    port = int(endpoints[0].rpartition(":")[2])
    assert port > 0
    assert describe(f"127.0.0.1:{port}").session_limit == 3
    assert describe(endpoints[1]).devices[0].backend == "null"


@pytest.mark.parametrize("address", ["0.0.0.0", "[::]", "gpu-host.example"])
def test_other_machines_do_not_come_without_tls(start: Start, address: str) -> None:
    _, errors = start("--listen", f"grpc://{address}:0").communicate(timeout=30)
    assert "farlane host init" in errors
    assert f"farlane+tls://{address}:0" in errors
    assert "--insecure" in errors
    assert errors.count("\n") == 1


def test_insecure_is_for_those_who_mean_it(start: Start) -> None:
    process = start("--listen", "grpc://0.0.0.0:0", "--insecure")
    endpoint = listening(process)
    assert describe(f"127.0.0.1:{endpoint.rpartition(':')[2]}").devices[0].backend == "null"


def test_tls_needs_the_folder(start: Start, tmp_path: Path) -> None:
    process = start("--listen", "farlane+tls://127.0.0.1:0", "--folder", str(tmp_path))
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 1
    assert f"`farlane host init --folder {tmp_path}` makes them" in errors


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signals_stop_it(start: Start, tmp_path: Path, number: signal.Signals) -> None:
    process = start("--listen", f"unix://{tmp_path}/s", "--log-level", "info")
    listening(process)
    process.send_signal(number)
    _, errors = process.communicate(timeout=10)
    assert process.returncode == 0, errors
    assert "stopping" in errors
    assert not (tmp_path / "s").exists()


def test_a_signal_that_another_thread_gets(tmp_path: Path) -> None:
    """As one does that comes when the main thread is just about to sleep: nothing interrupts its sleep."""
    more = """
import os, signal, time
serve.END_SECONDS = serve.REPORT_SECONDS = 20
serve.Edge.stop = lambda self, grace: None
def end():
    while not os.path.exists(sys.argv[-1].removeprefix("unix://")):
        time.sleep(0.01)
    time.sleep(0.3)
    signal.pthread_kill(threading.get_ident(), signal.SIGTERM)
threading.Thread(target=end, daemon=True).start()
"""
    assert subprocess.run(hanging(tmp_path / "s", more), stdout=subprocess.DEVNULL, timeout=60).returncode == 0


def test_a_killed_hosts_socket_does_not_stop_the_next(start: Start, tmp_path: Path) -> None:
    first = start("--listen", f"unix://{tmp_path}/s")
    listening(first)
    first.kill()
    first.wait()
    assert (tmp_path / "s").exists()
    assert listening(start("--listen", f"unix://{tmp_path}/s"))


def test_ready_fd(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    process = subprocess.Popen(
        arguments("--listen", f"unix://{tmp_path}/s", "--ready-fd", str(writer)),
        pass_fds=(writer,),
        stdout=subprocess.DEVNULL,
    )
    try:
        os.close(writer)
        with os.fdopen(reader) as ready:
            assert ready.read() == f"unix://{tmp_path}/s\n"
        assert describe(f"unix://{tmp_path}/s")
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("abstract", [False, True])
def test_a_service_manager_learns_that_it_listens(tmp_path: Path, abstract: bool) -> None:
    address = f"\0farlane-test-{os.getpid()}" if abstract else f"{tmp_path}/notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(address)
        manager.settimeout(60)
        process = subprocess.Popen(
            arguments("--listen", f"unix://{tmp_path}/s"),
            stdout=subprocess.DEVNULL,
            env={**os.environ, "NOTIFY_SOCKET": address.replace("\0", "@", 1)},
        )
        try:
            assert manager.recv(100) == b"READY=1"
            assert describe(f"unix://{tmp_path}/s")
        finally:
            process.kill()
            process.wait()


STARTS = """
import os, subprocess
process = subprocess.Popen([*{arguments!r}, "--die-with-parent", str(os.getpid())], stdout=subprocess.PIPE)
"""


def test_dies_with_its_parent(tmp_path: Path) -> None:
    path = tmp_path / "s"
    code = (
        f"import time\n{STARTS.format(arguments=arguments('--listen', f'unix://{path}'))}"
        "process.stdout.readline()\n"
        "print(process.pid, flush=True)\n"
        "time.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout
        child = int(parent.stdout.readline())
        assert path.exists()
        parent.kill()
    eventually(lambda: not path.exists() and not _alive(child))


def test_its_parent_is_what_a_container_begins_with(tmp_path: Path) -> None:
    """Process 1 of its space. The host stays, and ends with it."""
    path = tmp_path / "s"
    within = ["unshare", "--pid", "--fork", "--kill-child"]
    if subprocess.run([*within, "true"], capture_output=True, check=False).returncode:
        pytest.skip("needs root, and namespaces of its own for mounts and processes")
    code = (
        f"{STARTS.format(arguments=arguments('--listen', f'unix://{path}'))}"
        "process.stdout.readline()\n"
        "try: process.wait(1)\n"
        "except subprocess.TimeoutExpired: print(os.getpid(), 'stays')\n"
    )
    outcome = subprocess.run([*within, sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert outcome.stdout == "1 stays\n", outcome.stderr
    eventually(lambda: not _listens(path))


def _listens(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as connection:
        return connection.connect_ex(str(path)) == 0


def hanging(path: Path, more: str = "") -> list[str]:
    """Arguments of a host that does not end."""
    code = (
        "import sys, threading\n"
        "from farlane.backend.commands import serve\n"
        "serve.END_SECONDS, serve.REPORT_SECONDS = 0.2, 0.2\n"
        "serve.Edge.stop = lambda self, grace: threading.Event().wait()\n"
        f"{more}\n"
        "sys.exit(serve.main(sys.argv[1:]))\n"
    )
    return [sys.executable, "-c", code, "--device", "null", "--listen", f"unix://{path}"]


def test_what_hangs_does_not_keep_the_host_that_nobody_listens_to(tmp_path: Path) -> None:
    with subprocess.Popen(
        hanging(tmp_path / "s", "serve.REPORT_SECONDS = 50"), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout
        assert process.stderr
        process.stdout.readline()
        process.stderr.close()
        process.terminate()
        assert process.wait(60) == 1


def test_a_host_whose_memory_model_is_at_work_is_not_ended(tmp_path: Path) -> None:
    """Its report is still to come: it lasts longer here than everything else may."""
    more = "serve.Edge.stop = lambda self, grace: threading.Event().wait(1.0)"
    process = subprocess.Popen(
        hanging(tmp_path / "s", more), stdout=subprocess.PIPE, env={**os.environ, "FARLANE_SIM_MODEL": "settings.json"}
    )
    with process:
        assert process.stdout
        process.stdout.readline()
        process.terminate()
        assert process.wait(60) == 0


def test_what_hangs_without_python_does_not_keep_the_host(tmp_path: Path) -> None:
    """The interpreter's lock is never given back: no thread of Python's can end the process."""
    more = "serve.Edge.stop = lambda self, grace: __import__('ctypes').PyDLL(None).pause()"
    with subprocess.Popen(hanging(tmp_path / "s", more), stdout=subprocess.PIPE) as process:
        assert process.stdout
        process.stdout.readline()
        process.terminate()
        assert process.wait(60) == -signal.SIGALRM


def test_what_hangs_does_not_keep_the_host(tmp_path: Path) -> None:
    command = hanging(tmp_path / "s", "serve.REPORT_SECONDS = 50")
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout
        process.stdout.readline()
        process.terminate()
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "did not end" in errors
    assert "in stop" in errors or "<lambda>" in errors, "where it hangs is told"


def _alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


class TestErrors:
    def message(self, *more: str) -> str:
        done = subprocess.run(arguments(*more), capture_output=True, text=True, timeout=60)
        assert done.returncode != 0
        assert "Traceback" not in done.stderr
        return done.stderr

    def test_port_in_use(self) -> None:
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            endpoint = f"grpc://127.0.0.1:{taken.getsockname()[1]}"
            message = self.message("--listen", endpoint)
        assert message.startswith(f"farlane: cannot listen on {endpoint}: the port is in use by another process")

    def test_malformed_endpoint(self) -> None:
        assert "farlane: 'tcp://h:1' is no host URL" in self.message("--listen", "tcp://h:1")

    def test_unknown_device(self) -> None:
        assert "farlane: there is no device 'gpu'" in self.message("--device", "gpu")

    @pytest.mark.parametrize(
        "more", [("--quota", "much"), ("--quota", "0"), ("--sessions", "0"), ("--log-level", "loud")]
    )
    def test_bad_values(self, more: tuple[str, str]) -> None:
        assert "error: argument" in self.message(*more)


@pytest.mark.parametrize(
    ("text", "size"), [("4096", 4096), ("512M", 512 << 20), ("2g", 2 << 30), ("1GiB", 1 << 30), ("3 KB", 3 << 10)]
)
def test_sizes(text: str, size: int) -> None:
    assert parse_bytes(text) == size


class TestDevices:
    def test_of_this_machine(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert devices.main([]) == 0
        text = capsys.readouterr().out
        assert "null: Farlane Null Device" in text
        assert "compute capability 12.0, 16 GiB of memory" in text
        assert "cupy: not available" in text

    def test_of_a_host(self, start: Start, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        process = start("--listen", f"unix://{tmp_path}/s", "--sessions", "5")
        assert devices.main(["--host", listening(process)]) == 0
        text = capsys.readouterr().out
        assert "null: Farlane Null Device" in text
        assert "0 of 5 sessions open" in text

    def test_of_no_host(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert devices.main(["--host", f"unix://{tmp_path}/none"]) == 1
        assert "Is `farlane serve` running there" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--device", "sim", "--device-memory", "3M"], "a device memory of 3145728 bytes is no multiple of 2 MiB"),
        (
            ["--device", "null", "--device-memory", "4M"],
            "--device-memory is for the simulated device; the device is null",
        ),
        (["--device", "null", "--shared-memory", "4M"], "--shared-memory is for the simulated device"),
        (["--shared-memory", "3M"], "a device memory of 3145728 bytes is no multiple of 2 MiB"),
        (
            ["--shared-memory", "4M", "--device-memory", "2M"],
            "sessions that share device memory have none of their own",
        ),
        (["--shared-memory", "3M", "--workers", "process"], "a device memory of 3145728 bytes is no multiple of 2 MiB"),
    ],
)
def test_memory_options_that_mean_nothing(options: list[str], told: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "farlane.backend.commands.serve", *options, "--listen", "grpc://127.0.0.1:0"],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert told in done.stderr


def test_the_admin_port(start: Start, tmp_path: Path) -> None:
    process = start("--listen", f"unix://{tmp_path}/s", "--admin", "0", "--log-level", "info", "--log-format", "json")
    assert process.stdout
    line = process.stdout.readline()
    assert line.startswith("farlane: the host shows itself at http://127.0.0.1:"), line
    assert listening(process)
    with urllib.request.urlopen(f"{line.split()[-1]}metrics", timeout=10) as answer:
        assert b"farlane_sessions_limit 64.0" in answer.read()
    process.terminate()
    _, errors = process.communicate(timeout=10)
    assert process.returncode == 0, errors
    assert [json.loads(each)["message"] for each in errors.splitlines()] == ["stopping: 0 sessions open"]


def test_the_admin_port_is_not_for_other_machines(start: Start, tmp_path: Path) -> None:
    more = ("--listen", f"unix://{tmp_path}/s", "--folder", str(tmp_path / "none"), "--admin", "0.0.0.0:0")
    refused = start(*more)
    _, errors = refused.communicate(timeout=30)
    assert refused.returncode == 1
    assert "farlane host init" in errors
    assert errors.count("\n") == 1
    insecure = start(*more, "--insecure")
    assert insecure.stdout
    assert "http://0.0.0.0:" in insecure.stdout.readline()


@pytest.mark.parametrize("place", ["", "x", "127.0.0.1", "127.0.0.1:70000", "unix:///s", "http://127.0.0.1:1"])
def test_no_place_for_an_admin_port(start: Start, place: str) -> None:
    process = start("--admin", place)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 2
    assert "HOST:PORT" in errors
