"""A host that other machines may use, by its commands: TLS, tokens, client certificates, and what a user is told.

Every host here is a process, and its certificates are real. Guests come by loopback, where TLS is the same.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent import futures
from pathlib import Path

import grpc
import pytest
from farlane.backend.security import certificates, tokens
from farlane.frontend.devtools import registry
from farlane.frontend.devtools.programs import Build, compile_program
from farlane.frontend.devtools.toolchain import Toolchain
from farlane.frontend.hosts import parse_url
from farlane.hosturl.channel import open_channel
from farlane.v1 import session_pb2 as pb
from secured_host import Host, done, farlane, refused

pytestmark = [pytest.mark.native, pytest.mark.xdist_group("security")]

NATIVE = Path(__file__).parents[2] / "native"
OPEN = "/farlane.v1.SessionService/Open"
Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="module", params=["thread", "process"])
def host(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    started = Host(tmp_path_factory.mktemp("security"), "--workers", request.param)
    yield started
    started.close()


@pytest.fixture(scope="module")
def vecadd(toolchain: Callable[[str], Toolchain]) -> str:
    entries = {entry.name: entry for entry in registry.load(NATIVE / "registry.toml")}
    return entries["vecadd"].compiled(toolchain("13.0"), Build(architecture="sm_75"))[0]


@pytest.fixture
def run(host: Host, vecadd: str) -> Run:
    def running(name: str = "localhost", **environment: str) -> subprocess.CompletedProcess[str]:
        return farlane("run", "--host", host.url(name), "--", vecadd, **environment)

    return running


def test_a_program_runs(host: Host, run: Run) -> None:
    outcome = run(**host.access())
    assert (outcome.returncode, outcome.stdout.splitlines()[-1:]) == (0, ["PASS"]), outcome.stderr
    granted, ended = host.audit()[-2:]
    assert (granted["event"], granted["who"], granted["program"]) == ("granted", "first", "vecadd")
    assert (ended["event"], ended["why"], ended["session"]) == ("ended", "goodbye", granted["session"])
    assert host.token not in host.folder.audit.read_text()


def test_a_token_file_and_the_options(host: Host, vecadd: str, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(f"{host.token}\n")
    options = ["--ca", str(host.folder.authority), "--token-file", str(file)]
    assert "PASS" in done("run", "--host", host.url(), *options, "--", vecadd)
    assert "simulated device" in done(
        "devices", "--host", host.url(), FARLANE_CA=str(host.folder.authority), FARLANE_TOKEN_FILE=str(file)
    )


def test_no_token(host: Host, run: Run) -> None:
    refused(run(**host.access("")), "shows no token")
    outcome = farlane("devices", "--host", host.url(), **host.access(""))
    assert outcome.returncode == 1
    assert "refused the guest: the guest shows no token" in outcome.stderr


def test_a_wrong_token(host: Host, run: Run) -> None:
    refused(run(**host.access("farlane-guess")), "does not know the guest's token")


def test_a_token_that_is_none_is_not_sent(host: Host, run: Run, tmp_path: Path) -> None:
    refused(run(**host.access("two words")), "FARLANE_TOKEN holds no token")
    (tmp_path / "large").write_bytes(b"x" * (2 << 20))
    access = host.access("") | {"FARLANE_TOKEN_FILE": str(tmp_path / "large")}
    refused(run(**access), "is larger than")


def test_an_expired_token(host: Host, run: Run) -> None:
    digest = tokens.digest_of(b"farlane-old")
    tokens.create(host.folder, tokens.Entry("old", digest, "token", 0.0, expires=time.time() - 1))
    refused(run(**host.access("farlane-old")), "(old) has expired")


def test_a_token_is_made_and_revoked_while_the_host_runs(host: Host, run: Run) -> None:
    token = done("token", "create", "eve", "--folder", str(host.folder.path)).strip()
    assert "PASS" in run(**host.access(token)).stdout
    done("token", "revoke", "eve", "--folder", str(host.folder.path))
    refused(run(**host.access(token)), "(eve) was revoked")
    shown = done("token", "list", "--folder", str(host.folder.path))
    assert re.search("^eve +token +revoked", shown, re.MULTILINE)
    assert token not in shown


LONG = r"""
#include <cstdio>
#include <unistd.h>
__global__ void work(unsigned *data) { data[threadIdx.x] += threadIdx.x; }
__global__ void endless(volatile unsigned *data) { while (!data[64]); }
int main(int, char **arguments) {
    unsigned *data;
    cudaMalloc(&data, 65 * sizeof *data);
    cudaMemset(data, 0, 65 * sizeof *data);
    bool is_endless = arguments[1][0] == 'e';
    for (bool first = true; first || !is_endless; first = false) {
        work<<<1, 64>>>(data);
        cudaError_t error = cudaDeviceSynchronize();
        if (error != cudaSuccess) return (int)error;
        if (first) puts("runs"), fflush(stdout);
        usleep(1000);
    }
    endless<<<1, 1>>>(data);
    return (int)cudaDeviceSynchronize();
}
"""


@pytest.fixture(scope="module")
def long(toolchain: Callable[[str], Toolchain], tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("long")
    (folder / "long.cu").write_text(LONG)
    return str(compile_program(toolchain("13.0"), [folder / "long.cu"], "long", Build(architecture="sm_75")))


@contextlib.contextmanager
def running(host: Host, program: str, how: str, token: str) -> Iterator[subprocess.Popen[str]]:
    """The program, once its first kernel has run."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("FARLANE_")}
    command = [sys.executable, "-m", "farlane.frontend.cli", "run", "--host", host.url(), "--", program, how]
    with subprocess.Popen(
        command, env=clean | host.access(token), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "runs\n", process.stderr and process.stderr.read()
            yield process
        finally:
            process.kill()


def last_words(process: subprocess.Popen[str]) -> list[str]:
    assert process.stderr is not None
    return [line for line in process.stderr.read().splitlines() if line.startswith("farlane: ")]


@pytest.mark.parametrize("how", ["busy", "endless"])
def test_a_token_that_is_revoked_ends_its_sessions(host: Host, long: str, how: str, run: Run) -> None:
    token = done("token", "create", how, "--folder", str(host.folder.path)).strip()
    with running(host, long, how, token) as process, running(host, long, "busy", host.token) as other:
        tokens.revoke(host.folder, how)
        revoked = time.monotonic()
        assert process.wait(20) == 46
        assert time.monotonic() - revoked < 3, "it takes a second on an idle machine"
        (line,) = last_words(process)
        assert f"the guest's token ({how}) was revoked" in line
        assert other.poll() is None, "another guest's session goes on"
    assert "PASS" in run(**host.access()).stdout
    (ended,) = [each for each in host.audit() if each["event"] == "ended" and each["who"] == how]
    assert ended["why"] == f"the guest's token ({how}) was revoked"


def test_a_token_that_expires_ends_its_sessions(host: Host, long: str) -> None:
    expires = time.time() + 8
    tokens.create(host.folder, tokens.Entry("short", tokens.digest_of(b"farlane-short"), "token", 0.0, expires=expires))
    with running(host, long, "busy", "farlane-short") as process:
        assert process.wait(20) == 46
        assert expires <= time.time() < expires + 3
        (line,) = last_words(process)
        assert "the guest's token (short) has expired" in line


def test_a_session_that_waits_for_its_guest_ends_with_its_token(host: Host, long: str) -> None:
    """Its connection has broken, and it cannot be resumed any more."""
    token = done("token", "create", "broken", "--folder", str(host.folder.path)).strip()
    with running(host, long, "busy", token) as process:
        (program,) = children(process.pid) or [process.pid]
        os.kill(program, signal.SIGKILL)
        process.wait(20)
        time.sleep(0.5)
        assert not [each for each in host.audit() if each["event"] == "ended" and each["who"] == "broken"], "it waits"
        tokens.revoke(host.folder, "broken")
        deadline = time.monotonic() + 3
        ended: list[dict[str, object]] = []
        while not ended and time.monotonic() < deadline:
            time.sleep(0.05)
            ended = [each for each in host.audit() if each["event"] == "ended" and each["who"] == "broken"]
        assert ended[0]["why"] == "the guest's token (broken) was revoked"


def children(pid: int) -> list[int]:
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_a_host_that_nobody_vouches_for(host: Host, run: Run, tmp_path: Path) -> None:
    refused(run(FARLANE_TOKEN=host.token), "signed by no authority that this guest trusts")
    done("host", "init", "--folder", str(tmp_path / "other"))
    refused(run(**host.access() | {"FARLANE_CA": str(tmp_path / "other/ca.pem")}), "signed by no authority")


def test_another_name_and_a_new_certificate_for_it(host: Host, run: Run) -> None:
    """The host takes the new one up without a restart."""
    name = "127.0.0.2" if len(host.audit()) % 2 else "127.0.0.3"
    refused(run(name, **host.access()), "its certificate is not for the name")
    assert name in done("host", "renew", "--folder", str(host.folder.path), "--name", name)
    assert "PASS" in run(name, **host.access()).stdout


def test_a_certificate_that_has_expired_or_is_none(host: Host, run: Run) -> None:
    before = host.folder.certificate.read_bytes()
    host.folder.certificate.write_text("nothing")
    assert "PASS" in run(**host.access()).stdout, "the one before stays in use"
    host.folder.certificate.write_bytes(before)
    certificates.create_host(host.folder, ["localhost"], 0)
    time.sleep(1)
    refused(run(**host.access()), "its certificate has expired")
    done("host", "renew", "--folder", str(host.folder.path))
    assert "PASS" in run(**host.access()).stdout


def test_a_client_certificate(host: Host, run: Run, tmp_path: Path) -> None:
    base = tmp_path / "carol"
    done("token", "create", "carol", "--certificate", str(base), "--folder", str(host.folder.path))
    files = {"FARLANE_CERTIFICATE": f"{base}.pem", "FARLANE_KEY": f"{base}.key"}
    assert "PASS" in run(**host.access("") | files).stdout
    assert host.audit()[-1]["who"] == "carol"
    done("token", "revoke", "carol", "--folder", str(host.folder.path))
    refused(run(**host.access("") | files), "(carol) was revoked")


def test_the_container_sets_itself_up(tmp_path: Path) -> None:
    """docker/serve.sh, without a container; a second start keeps what is there."""
    script = Path(__file__).parents[3] / "docker/serve.sh"
    access = {"FARLANE_CA": str(tmp_path / "ca.pem"), "FARLANE_TOKEN_FILE": str(tmp_path / "token")}
    environment = (
        os.environ
        | access
        | {
            "FARLANE_HOST_FOLDER": str(tmp_path / "host"),
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        }
    )
    shown = set()
    for _ in range(2):
        command = ["sh", str(script), "--device", "null", "--listen", "farlane+tls://127.0.0.1:0"]
        with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            while not (line := process.stdout.readline()).startswith("farlane: listening on "):
                assert line, "it ended"
            url = line.split()[3]
            assert "null" in done("devices", "--host", url, **access)
            shown.add((tmp_path / "token").read_text())
            process.terminate()
    assert len(shown) == 1


def test_a_host_without_tls(host: Host, vecadd: str) -> None:
    outcome = farlane("run", "--host", f"grpc://localhost:{host.port}", "--", vecadd, **host.access())
    refused(outcome, "does not answer as a Farlane host")


@contextlib.contextmanager
def session(host: Host, monkeypatch: pytest.MonkeyPatch, token: str) -> Iterator[pb.HostMessage]:
    """A session that says nothing further; what the host has said first."""
    for name, value in host.access(token).items():
        monkeypatch.setenv(name, value)
    hello = pb.Hello(tape_version_min=5, tape_version_max=5, mode="calls", comes_again=True)
    over = threading.Event()

    def messages() -> Iterator[pb.GuestMessage]:
        yield pb.GuestMessage(hello=hello)
        over.wait(60)

    with open_channel(parse_url(host.url())) as channel:
        answers = channel.stream_stream(OPEN, pb.GuestMessage.SerializeToString, pb.HostMessage.FromString)(messages())
        yield next(answers)
        over.set()


def test_what_a_guest_compiles_is_for_itself(vecadd: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FARLANE_CACHE_DIR", str(tmp_path / "cache"))
    host = Host(tmp_path)
    try:
        other = done("token", "create", "other", "--folder", str(host.folder.path)).strip()

        def entries() -> list[tuple[str, str]]:
            return [(each.parent.name, each.name) for each in (tmp_path / "cache/guests").glob("*/*")]

        def run(token: str) -> None:
            assert "PASS" in done("run", "--host", host.url(), "--", vecadd, **host.access(token))

        run(host.token)
        first = entries()
        assert {guest for guest, _ in first} == {tokens.digest_of(host.token.encode())}
        run(host.token)
        assert entries() == first
        run(other)
        added = set(entries()) - set(first)
        assert {guest for guest, _ in added} == {tokens.digest_of(other.encode())}
        assert {name for _, name in added} == {name for _, name in first}
    finally:
        host.close()


def test_limits_of_a_token(host: Host, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    limits = ["--quota", "64M", "--sessions", "1", "--folder", str(host.folder.path)]
    token = done("token", "create", "frank", *limits).strip()
    with session(host, monkeypatch, token) as first:
        assert first.welcome.memory_quota == 64 << 20
        refused(run(**host.access(token)), "frank allows 1 sessions at once")
    other = done("token", "create", "grace", "--devices", "null", "--folder", str(host.folder.path)).strip()
    refused(run(**host.access(other)), "grace is for null; this host has sim")


def test_no_shared_memory(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    with session(host, monkeypatch, host.token) as first:
        assert (first.welcome.rings_ticket, first.welcome.rings_name) == (b"", "")


def test_an_overheard_ticket_opens_nothing(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """The way to a session's process begins without TLS; its process asks for what only the guest has been told."""
    with session(host, monkeypatch, host.token) as first:
        welcome = first.welcome
        if not welcome.process_ticket:
            assert (welcome.process_certificate, welcome.process_token) == (b"", "")
            return
        # What the host takes is not what its processes take.
        assert called(host, welcome, f"Bearer {host.token}") is grpc.StatusCode.UNAUTHENTICATED
    with session(host, monkeypatch, host.token) as first:
        assert called(host, first.welcome, "") is grpc.StatusCode.UNAUTHENTICATED
    with session(host, monkeypatch, host.token) as first:
        assert called(host, first.welcome, f"Bearer {first.welcome.process_token}") is grpc.StatusCode.OK


def called(host: Host, welcome: pb.Welcome, authorization: str) -> grpc.StatusCode:
    """How a call of the session's process ends."""
    with socket.create_server(("127.0.0.1", 0)) as listener, futures.ThreadPoolExecutor(3) as pool:

        def carry(source: socket.socket, target: socket.socket) -> None:
            with contextlib.suppress(OSError):
                while data := source.recv(65536):
                    target.sendall(data)
            with contextlib.suppress(OSError):
                target.shutdown(socket.SHUT_WR)

        def lead() -> None:
            near, _ = listener.accept()
            far = socket.create_connection(("127.0.0.1", host.port))
            with near, far:
                far.sendall(b"FARLANE\0" + welcome.process_ticket)
                done = [pool.submit(carry, near, far), pool.submit(carry, far, near)]
                futures.wait(done, 30)

        pool.submit(lead)
        pem = pem_of(welcome.process_certificate)
        options = [("grpc.ssl_target_name_override", "farlane-session")]
        target = f"127.0.0.1:{listener.getsockname()[1]}"
        with grpc.secure_channel(target, grpc.ssl_channel_credentials(pem), options) as channel:
            method = channel.stream_stream(OPEN, pb.GuestMessage.SerializeToString, pb.HostMessage.FromString)
            metadata = [("authorization", authorization)] if authorization else []
            try:
                next(method(iter([]), metadata=metadata, timeout=20))
            except StopIteration:
                return grpc.StatusCode.OK
            except grpc.RpcError as error:
                code: grpc.StatusCode = error.code()
                return code
    raise AssertionError("the process sends a message")


def pem_of(der: bytes) -> bytes:
    import ssl

    return ssl.DER_cert_to_PEM_cert(der).encode()
