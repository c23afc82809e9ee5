"""Connections that break while a program runs: it goes on as if nothing had been, or learns once that its session is gone."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import grpc
import pytest
from farlane.frontend.devtools import registry
from farlane.frontend.devtools.cutting import CuttingProxy
from farlane.frontend.devtools.guest import Guest, Outcome
from farlane.frontend.devtools.programs import Build
from farlane.frontend.devtools.toolchain import Toolchain
from farlane.frontend.embedded import EmbeddedHost
from farlane.frontend.hosts import parse_url
from farlane.hosturl.channel import open_channel
from farlane.v1 import admin_pb2
from farlane.v1 import session_pb2 as pb
from ports import free_port
from waiting import eventually

pytestmark = [pytest.mark.native, pytest.mark.xdist_group("resuming")]

NATIVE = Path(__file__).parents[2] / "native"
GRPC = {"FARLANE_TRANSPORT": "grpc"}
OPEN = "/farlane.v1.SessionService/Open"
ROUNDS = "12"


class Ways(NamedTuple):
    """A host's ports, and what its guests by TLS need."""

    host: EmbeddedHost
    tcp: int
    tls: int
    access: dict[str, str]
    workers: str

    def guest(self, way: str, port: int) -> Guest:
        if way == "tcp":
            return Guest(f"grpc://127.0.0.1:{port}", "grpc")
        return Guest(f"farlane+tls://127.0.0.1:{port}", "grpc", self.access)

    def port(self, way: str) -> int:
        return self.tcp if way == "tcp" else self.tls

    def sessions(self) -> admin_pb2.DescribeReply:
        return described(self.host.url)


def described(url: str) -> admin_pb2.DescribeReply:
    with open_channel(parse_url(url)) as channel:
        ask = channel.stream_stream(
            "/farlane.v1.AdminService/Describe", response_deserializer=admin_pb2.DescribeReply.FromString
        )
        return next(ask(iter([b""])))


@pytest.fixture(scope="module", params=["thread", "process"])
def ways(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ways]:
    folder = tmp_path_factory.mktemp("resuming")
    init = ["host", "init", "--folder", str(folder / "host"), "--token-file", str(folder / "token")]
    subprocess.run([sys.executable, "-m", "farlane.frontend.cli", *init], check=True, stdout=subprocess.DEVNULL)
    access = {"FARLANE_CA": str(folder / "host/ca.pem"), "FARLANE_TOKEN_FILE": str(folder / "token")}
    tcp, tls = free_port(), free_port()
    listen = ("--listen", f"grpc://127.0.0.1:{tcp}", "--listen", f"farlane+tls://127.0.0.1:{tls}")
    with EmbeddedHost("sim", extra=(*listen, "--folder", str(folder / "host"), "--workers", request.param)) as host:
        yield Ways(host, tcp, tls, access, request.param)


@pytest.fixture(scope="module")
def programs(toolchain: Callable[[str], Toolchain]) -> dict[str, str]:
    entries = {entry.name: entry for entry in registry.load(NATIVE / "registry.toml")}
    build = Build(architecture="sm_75")
    return {name: entries[name].compiled(toolchain("13.0"), build)[0] for name in ("counted", "patient", "big_copy")}


def lines(outcome: Outcome | str) -> list[str]:
    text = outcome if isinstance(outcome, str) else outcome.stderr
    return [line for line in text.splitlines() if line.startswith("farlane: ")]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("mode", ["none", "calls", "loops"])
@pytest.mark.parametrize("way", ["tcp", "tls"])
def test_nothing_is_lost_and_nothing_is_done_twice(ways: Ways, programs: dict[str, str], way: str, mode: str) -> None:
    """The program's output depends on each launch and each copy, and on their order."""
    whole = ways.guest(way, ways.port(way)).run([programs["counted"], ROUNDS], mode)
    assert (whole.status, whole.stdout.endswith("PASS\n"), whole.stderr) == (0, True, ""), whole.stdout
    # A session with a process of its own needs two connections, and waits for a moment for the host's last words.
    cuts = None if ways.workers == "thread" else 12
    seed = 3 * ["tcp", "tls"].index(way) + ["none", "calls", "loops"].index(mode)  # other places of the cuts each time
    with CuttingProxy(ways.port(way), seed, openings=2, cuts=cuts) as proxy:
        outcome = ways.guest(way, proxy.port).run([programs["counted"], ROUNDS], mode)
    assert (outcome.stdout, outcome.status) == (whole.stdout, 0), outcome.stderr
    assert proxy.cuts >= 2, "the connection was cut"
    told = lines(outcome)
    assert told
    assert all(re.search("and was resumed after|trying to resume it", line) for line in told), outcome.stderr
    eventually(lambda: not ways.sessions().sessions)


def test_more_data_than_the_host_keeps(ways: Ways, programs: dict[str, str]) -> None:
    """A copy of 64 MiB to the host is one group: the host waits for the guest's confirmations in the middle of it."""
    cuts = None if ways.workers == "thread" else 12  # there each resumption waits for a moment (see above)
    for most in (None, 64 << 20):
        with CuttingProxy(ways.tcp, 3, openings=2, most=most or 1, cuts=cuts if most else 0) as proxy:
            outcome = ways.guest("tcp", proxy.port).run([programs["big_copy"]])
        assert (outcome.status, outcome.stdout) == (0, "big_copy d2b4807f65dd0134\nPASS\n"), outcome.stderr
        assert (proxy.cuts > 1) == bool(most)


def test_a_kernel_runs_on_while_the_connection_is_broken(ways: Ways, programs: dict[str, str]) -> None:
    """One cut, while the guest waits for a kernel's end or reads: one line says so."""
    with CuttingProxy(ways.tcp, 0, cuts=0) as proxy:
        guest = ways.guest("tcp", proxy.port)
        process = start(guest, programs["patient"], "200")
        proxy.cut()
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    assert len(lines(errors)) == 1, errors
    assert "broke (" in errors
    assert "was resumed after" in errors


def start(guest: Guest, program: str, *arguments: str) -> subprocess.Popen[str]:
    """A patient program that has done three rounds."""
    environment = guest.environment(program, "calls")
    pipe = subprocess.PIPE
    process = subprocess.Popen([program, *arguments], env=environment, stdout=pipe, stderr=pipe, text=True)
    assert process.stdout is not None
    assert [process.stdout.readline() for _ in range(3)] == ["round 1\n", "round 2\n", "round 3\n"]
    return process


@pytest.mark.parametrize("way", ["tcp", "tls"])
def test_another_guest_cannot_resume_it(ways: Ways, programs: dict[str, str], way: str) -> None:
    """It knows the session's name, and has a token of its own where one is needed; it has not the secret."""
    process = start(ways.guest(way, ways.port(way)), programs["patient"], "100000")
    url = ways.guest(way, ways.port(way)).url
    name = ways.sessions().open[0].name
    metadata = ()
    if way == "tls":
        metadata = (("authorization", f"Bearer {Path(ways.access['FARLANE_TOKEN_FILE']).read_text().strip()}"),)
    for secret in (b"", bytes(32), os.urandom(32)):
        answer = resumed(url, ways.access, metadata, pb.Resume(session=name, secret=secret))
        assert answer.refusal.reason == pb.Refusal.GONE, answer
    assert process.poll() is None
    process.kill()
    process.communicate()
    assert process.returncode == -9


def resumed(url: str, access: dict[str, str], metadata: object, resume: pb.Resume) -> pb.HostMessage:
    host, port = url.rpartition("//")[2].split(":")
    if url.startswith("farlane+tls"):
        credentials = grpc.ssl_channel_credentials(Path(access["FARLANE_CA"]).read_bytes())
        channel = grpc.secure_channel(f"{host}:{port}", credentials)
    else:
        channel = grpc.insecure_channel(f"{host}:{port}")
    with channel:
        call = channel.stream_stream(OPEN, response_deserializer=pb.HostMessage.FromString)
        answer: pb.HostMessage = next(
            call(iter([pb.GuestMessage(resume=resume).SerializeToString()]), metadata=metadata, timeout=20)
        )
        return answer


def test_a_host_that_was_started_anew_says_so_at_once(programs: dict[str, str]) -> None:
    port = free_port()
    listen = ("--listen", f"grpc://127.0.0.1:{port}")
    with EmbeddedHost("sim", extra=listen) as first:
        process = start(Guest(f"grpc://127.0.0.1:{port}", "grpc"), programs["patient"], "100000")
        assert first._process is not None
        first._process.kill()
        first._process.wait()
        with EmbeddedHost("sim", extra=listen):
            output, errors = process.communicate(timeout=25)  # the grace is 30 s
    assert process.returncode == 3
    assert "46" in output + errors, output
    said = lines(errors)
    assert "refuses to resume the session: it has no such session" in said[-1], errors
    assert sum("lost" in line for line in said) == 1, errors


def test_a_guest_that_does_not_come_again_in_time(programs: dict[str, str]) -> None:
    """Its calls fail with one error; the host gives back what it had."""
    port = free_port()
    with EmbeddedHost("sim", extra=("--listen", f"grpc://127.0.0.1:{port}", "--grace", "1.5")) as host:
        with CuttingProxy(port, 0, cuts=0) as proxy:
            process = start(Guest(f"grpc://127.0.0.1:{proxy.port}", "grpc"), programs["patient"], "100000", "4000000")
            proxy.refusing = True
            proxy.cut()
            kept = described(host.url)
            assert (kept.sessions, kept.memory_used >= 4000000) == (1, True), "it is kept, and counted"
            output, errors = process.communicate(timeout=30)
        assert process.returncode == 3
        assert "46" in output + errors, output
        assert "could not be resumed in time" in lines(errors)[-1], errors
        eventually(lambda: described(host.url).sessions == 0)
        assert not described(host.url).memory_used


def test_without_grace_a_session_ends_with_its_connection(programs: dict[str, str]) -> None:
    port = free_port()
    with EmbeddedHost("sim", extra=("--listen", f"grpc://127.0.0.1:{port}", "--grace", "0")) as host:
        with CuttingProxy(port, 0, cuts=0) as proxy:
            process = start(Guest(f"grpc://127.0.0.1:{proxy.port}", "grpc"), programs["patient"], "100000")
            proxy.cut()
            output, errors = process.communicate(timeout=30)
        assert process.returncode == 3
        assert "46" in output + errors, output
        assert len(lines(errors)) == 1, errors
        eventually(lambda: described(host.url).sessions == 0)


def test_a_killed_guest_keeps_its_place_for_the_grace_alone(programs: dict[str, str]) -> None:
    port = free_port()
    with EmbeddedHost("sim", extra=("--listen", f"grpc://127.0.0.1:{port}", "--grace", "2")) as host:
        process = start(Guest(f"grpc://127.0.0.1:{port}", "grpc"), programs["patient"], "100000")
        process.kill()
        process.communicate()
        assert described(host.url).sessions == 1
        eventually(lambda: described(host.url).sessions == 0)
        process = start(Guest(host.url, "grpc"), programs["patient"], "100000")
        process.kill()  # on a Unix socket it has gone
        process.communicate()
        eventually(lambda: described(host.url).sessions == 0, 1.5)


def test_a_host_that_stops_waits_for_no_guest(programs: dict[str, str]) -> None:
    port = free_port()
    host = EmbeddedHost("sim", extra=("--listen", f"grpc://127.0.0.1:{port}"))
    with host, CuttingProxy(port, 0, cuts=0) as proxy:
        process = start(Guest(f"grpc://127.0.0.1:{proxy.port}", "grpc"), programs["patient"], "100000")
        proxy.refusing = True
        proxy.cut()
        assert host._process is not None
        host._process.terminate()
        assert host._process.wait(4) == 0, "a session with a connection has 5 s"
        process.kill()
        process.communicate()


def session_command(*arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "farlane.frontend.cli", "session", *arguments],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("way", "workers"), [("started anew", "thread"), ("the same", "thread"), ("started anew", "process")]
)
def test_a_program_goes_on_with_a_restored_session(
    programs: dict[str, str], tmp_path: Path, way: str, workers: str
) -> None:
    port, saved = free_port(), str(tmp_path / "saved")
    listen = ("--listen", f"grpc://127.0.0.1:{port}", "--workers", workers)
    with EmbeddedHost("sim", extra=listen) as first:
        process = start(Guest(f"grpc://127.0.0.1:{port}", "grpc"), programs["patient"], "150", "4000000")
        process.send_signal(signal.SIGSTOP)  # however slow this machine is, the program has not ended yet
        shown = session_command("list", "--host", first.url).splitlines()
        assert [line.split()[0] for line in shown] == ["SESSION", "s1"]
        assert "s1 is saved" in session_command("save", "s1", saved, "--host", first.url, "--leave")
        assert not described(first.url).sessions
        if way == "the same":
            assert "is restored" in session_command("restore", saved, "--host", first.url)
            process.send_signal(signal.SIGCONT)
            output, errors = process.communicate(timeout=60)
        else:
            os.kill(first.pid, signal.SIGKILL)
            with EmbeddedHost("sim", extra=(*listen, "--restore", saved)):
                process.send_signal(signal.SIGCONT)
                output, errors = process.communicate(timeout=60)
    assert (process.returncode, output.endswith("PASS\n")) == (0, True), output + errors
    assert output.count("round") == 150 - 3, "each once"
    assert "was resumed after" in errors


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("way", "workers"), [("tcp", "thread"), ("tls", "thread"), ("tcp", "process"), ("tls", "process")]
)
def test_a_program_moves_to_another_host_and_back(
    programs: dict[str, str], tmp_path: Path, way: str, workers: str
) -> None:
    access: dict[str, str] = {}
    folder: tuple[str, ...] = ()
    if way == "tls":  # both have a certificate of the same authority, and know the guest's token
        init = ["host", "init", "--folder", str(tmp_path / "host"), "--token-file", str(tmp_path / "token")]
        subprocess.run([sys.executable, "-m", "farlane.frontend.cli", *init], check=True, stdout=subprocess.DEVNULL)
        access = {"FARLANE_CA": str(tmp_path / "host/ca.pem"), "FARLANE_TOKEN_FILE": str(tmp_path / "token")}
        folder = ("--folder", str(tmp_path / "host"))
    scheme = "grpc" if way == "tcp" else "farlane+tls"
    urls = [f"{scheme}://127.0.0.1:{free_port()}" for _ in range(2)]
    first, second = (EmbeddedHost("sim", extra=("--listen", url, "--workers", workers, *folder)) for url in urls)
    with first, second:
        process = start(Guest(urls[0], "grpc", access), programs["patient"], "150", "4000000")
        for host, to, url in ((first, second, urls[1]), (second, first, urls[0])):
            process.send_signal(signal.SIGSTOP)
            said = session_command("move", "s1", "--host", host.url, "--to", to.url, "--guests", url)
            assert "it was held for" in said
            eventually(lambda host=host: not described(host.url).sessions)
            assert described(to.url).sessions == 1
            process.send_signal(signal.SIGCONT)
            if to is second:
                assert process.stdout is not None
                assert [process.stdout.readline().split()[0] for _ in range(5)] == ["round"] * 5
        output, errors = process.communicate(timeout=60)
    assert (process.returncode, output.endswith("PASS\n")) == (0, True), output + errors
    assert errors.count("was resumed after") == 2, errors


def test_a_session_moves_to_no_host_of_another_kind(programs: dict[str, str]) -> None:
    """A session in a process is for hosts with processes; where it is refused, it goes on."""
    urls = {kind: f"grpc://127.0.0.1:{free_port()}" for kind in ("process", "thread")}
    first, second = (EmbeddedHost("sim", extra=("--listen", url, "--workers", kind)) for kind, url in urls.items())
    with first, second:
        for host, to, url in ((first, second, urls["process"]), (second, first, urls["thread"])):
            process = start(Guest(url, "grpc"), programs["patient"], "40")
            process.send_signal(signal.SIGSTOP)
            names = (described(host.url).open[0].name, "--host", host.url, "--to", to.url, "--guests", url)
            command = [sys.executable, "-m", "farlane.frontend.cli", "session", "move", *names]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            assert (done.returncode, "start it with --workers" in done.stderr) == (1, True), done.stderr
            process.send_signal(signal.SIGCONT)
            output, errors = process.communicate(timeout=60)
            assert (process.returncode, output.endswith("PASS\n"), errors) == (0, True, "")
