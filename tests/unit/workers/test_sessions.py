"""A process for each session: what one does to its process, no other notices; images are shared; processes are bounded, reaped, and never outlive the host."""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from farlane.backend.device.base import MemoryMap
from farlane.backend.device.registry import DeviceUnavailable
from farlane.backend.handlers.generated_operations import encode
from farlane.backend.host.greeting import TAPE_VERSION_MAX
from farlane.backend.host.host import Host
from farlane.backend.objects.images import digest_of
from farlane.backend.server.edge import Edge
from farlane.backend.server.endpoint import parse
from farlane.backend.server.messages import describe_host
from farlane.backend.workers import control
from farlane.backend.workers import session as sessions
from farlane.backend.workers.pool import WorkerPool
from farlane.backend.workers.processes import SessionProcesses
from farlane.v1 import admin_pb2
from farlane.v1 import session_pb2 as pb
from waiting import eventually

OPEN = "/farlane.v1.SessionService/Open"
TIMEOUT = 60

IMAGE = b"""
.version 7.5
.target sm_75
.address_size 64
.visible .entry spin(.param .u64 flag)
{
    .reg .pred %p<2>; .reg .b32 %r<2>; .reg .b64 %rd<2>;
    ld.param.u64 %rd1, [flag];
AGAIN:
    ld.volatile.global.u32 %r1, [%rd1];
    setp.eq.u32 %p1, %r1, 0;
    @%p1 bra AGAIN;
    ret;
}
"""


def gone(pid: int) -> bool:
    """Whether the process has ended, as seen by who is not its parent."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):  # it may end between the opening and the reading
        return True


def stopped_wholly(pid: str) -> bool:
    """Whether all threads of it are: only then does the system let it go on when its group is an orphan."""
    return all("State:\tT" in (each / "status").read_text() for each in Path(f"/proc/{pid}/task").iterdir())


def pump(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(1 << 16):
            target.sendall(data)
    for each in (source, target):
        with contextlib.suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)


class Way:
    """A socket that a gRPC library connects to; what it says there goes on to the host, behind the ticket."""

    def __init__(self, host: str, path: str, ticket: bytes) -> None:
        self.target = f"unix:{path}"
        self._host, self._ticket = host, ticket
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(path)
        self._listener.listen()
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        ours, _ = self._listener.accept()
        self._listener.close()
        theirs = socket.socket(socket.AF_UNIX)
        theirs.connect(self._host)
        theirs.sendall(b"FARLANE\0" + self._ticket)
        threading.Thread(target=pump, args=(theirs, ours), daemon=True).start()
        pump(ours, theirs)


class Stream:
    """One call of SessionService.Open."""

    def __init__(self, target: str) -> None:
        options = [("grpc.default_authority", "localhost"), ("grpc.use_local_subchannel_pool", 1)]
        self._channel = grpc.insecure_channel(target, options=options)
        self._outgoing: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self.call = self._channel.stream_stream(OPEN, response_deserializer=pb.HostMessage.FromString)(
            iter(self._outgoing.get, None), timeout=TIMEOUT
        )

    def send(self, **kind: Any) -> None:
        self._outgoing.put(pb.GuestMessage(**kind).SerializeToString())

    def end(self) -> tuple[grpc.StatusCode, str]:
        """How the host ends it."""
        with contextlib.suppress(grpc.RpcError):
            for _ in self.call:
                pass
        return self.call.code(), self.call.details()

    def close(self) -> None:
        self._outgoing.put(None)
        self._channel.close()


class Refused(Exception):
    pass


class Guest:
    """A guest without a shim: `admission` is its call with the host, `stream` the one with its process."""

    numbers = iter(range(1000))

    def __init__(self, hosted: Hosted, digests: tuple[bytes, ...], mode: str = "calls") -> None:
        self.admission = Stream(f"unix:{hosted.path}")
        self.admission.send(
            hello=pb.Hello(
                tape_version_min=1, tape_version_max=TAPE_VERSION_MAX, program="test", mode=mode,
                module_digests=digests, comes_again=True,
            )
        )  # fmt: skip
        first = next(self.admission.call)
        if first.HasField("refusal"):
            self.admission.close()
            raise Refused(first.refusal.message)
        self.welcome = first.welcome
        self.base = self.welcome.window_base
        self.group = 0
        self.session: Any = hosted.host._open[self.welcome.session]
        self.ticket = self.welcome.process_ticket
        self.stream = Stream(Way(hosted.path, f"{hosted.path}.{next(self.numbers)}", self.ticket).target)

    def submit(self, *records: bytes) -> pb.Reply:
        """One group; its replies joined."""
        self.group += 1
        self.stream.send(tape=pb.Tape(group=self.group, records=b"".join(records), last=True))
        whole = pb.Reply()
        for message in self.stream.call:
            reply = message.reply
            whole.MergeFrom(pb.Reply(error=reply.error, sticky=reply.sticky, error_message=reply.error_message))
            whole.results += reply.results
            if reply.last:
                break
        return whole

    def write_and_read(self, data: bytes) -> bytes:
        size = len(data)
        reply = self.submit(
            encode("WRITE", self.base, size, size, 1, 1, size, tail=data),
            encode("READ", self.base, size, size, 1, 1, 7),
        )
        assert reply.error == 0
        return bytes(reply.results[32 : 32 + size])

    def leave(self) -> None:
        self.stream.send(goodbye=pb.Goodbye())
        assert self.admission.end() == (grpc.StatusCode.OK, "")
        self.close()

    def close(self) -> None:
        self.stream.close()
        self.admission.close()


class Hosted:
    def __init__(self, folder: Path, device: str, **options: Any) -> None:
        self.pool = WorkerPool(device, **options)
        self.host = Host(SessionProcesses(self.pool), quota=64 << 20)
        self.edge = Edge(self.host)
        self.path = str(folder / "h")
        _, tcp = self.edge.listen([parse(f"unix://{self.path}"), parse("grpc://127.0.0.1:0")])
        self.tcp = tcp.target

    def guest(self, *digests: bytes) -> Guest:
        return Guest(self, digests)

    def describe_host(self) -> admin_pb2.DescribeReply:
        return admin_pb2.DescribeReply.FromString(describe_host(self.host))

    def close(self) -> None:
        eventually(lambda: self.host.sessions == 0)
        self.edge.stop(5)
        self.host.close()


@pytest.fixture(scope="module")
def null(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosted]:
    hosted = Hosted(tmp_path_factory.mktemp("null"), "null", warm=1, limit=2)
    yield hosted
    hosted.close()
    assert hosted.pool.waiting == hosted.pool.busy == 0


def test_a_lost_process_ends_its_session_alone(tmp_path: Path) -> None:
    """Two sessions with memory of their own; a kernel that never ends goes with its guest; a killed process with its session."""
    hosted = Hosted(tmp_path, "sim", warm=0)
    first, second = hosted.guest(), hosted.guest()
    try:
        pids = {first.session.pid, second.session.pid, os.getpid()}
        assert len(pids) == 3
        for guest, value in ((first, b"first..."), (second, b"second..")):
            assert guest.submit(encode("ALLOCATE", guest.base, 4096)).error == 0
            assert guest.write_and_read(value) == value
        assert hosted.describe_host().memory_used == 2 * 4096
        digest = digest_of(IMAGE)
        opened = first.submit(
            encode("MODULE_BEGIN", len(IMAGE), digest), encode("MODULE_CHUNK", len(IMAGE), 0, tail=IMAGE),
            encode("MODULE_END", digest), encode("MODULE_OPEN", 16, 0, digest),
            encode("FUNCTION_OPEN", 17, 16, 4, 0, tail=b"spin"), encode("MEMSET", first.base, 8, 8, 1, 0, 1, 1, 0),
        )  # fmt: skip
        assert opened.error == 0
        launch = encode("LAUNCH", 17, 1, 1, 1, 1, 1, 1, 1, 0, 8, tail=struct.pack("<Q", first.base))
        thread = threading.Thread(target=first.stream.end)
        first.stream.send(
            tape=pb.Tape(group=first.group + 1, records=launch + encode("DEVICE_SYNCHRONIZE", 1, 0), last=True)
        )
        thread.start()
        thread.join(1)
        assert thread.is_alive(), "the kernel ended by itself"
        assert second.write_and_read(b"meantime") == b"meantime"
        first.close()
        thread.join(30)
        assert not thread.is_alive()
        eventually(lambda: gone(first.session.pid))
        eventually(lambda: hosted.pool.busy == 1)
        assert second.write_and_read(b"after it") == b"after it"
        os.kill(second.session.pid, signal.SIGKILL)
        code, details = second.admission.end()
        assert (code, "SIGKILL" in details) == (grpc.StatusCode.INTERNAL, True), details
        eventually(lambda: hosted.pool.busy == 0)
        assert hosted.describe_host().memory_used == 0
        assert hosted.describe_host().busy_nanoseconds > 0, "what ended sessions used is forgotten"
    finally:
        first.close()
        second.close()
        hosted.close()


def test_what_workers_count(null: Hosted) -> None:
    """The host asks them; what they have counted stays when they end; their memory map comes as it is."""
    eventually(lambda: null.pool.busy == 0)
    before = dict(null.describe_host().counts)
    guest = null.guest()
    name = guest.welcome.session
    for _ in range(3):
        assert guest.submit(encode("FENCE", 1, 0)).error == 0
    assert guest.submit(encode("ALLOCATE", guest.base, 4096)).error == 0
    session = next(each for each in null.describe_host().open if each.name == name)
    assert (session.program, session.memory_used, session.memory_quota) == ("test", 4096, 64 << 20)
    assert (session.counts["groups"], session.counts["round_trips"], session.counts["records"]) == (4, 3, 4)
    assert null.host.memory_map(name) == MemoryMap([], [])
    assert null.host.memory_map("s999") is None
    opened, ended = null.describe_host().opened, null.describe_host().ended["goodbye"]
    guest.leave()
    eventually(lambda: null.host.sessions == 0)
    after = null.describe_host()
    assert after.counts["groups"] - before.get("groups", 0) == 4
    assert (after.opened, after.ended["goodbye"]) == (opened, ended + 1)
    lost = null.guest()
    os.kill(lost.session.pid, signal.SIGKILL)
    eventually(lambda: null.describe_host().ended["lost"] == after.ended.get("lost", 0) + 1)
    lost.close()


def test_where_a_worker_s_memory_is(tmp_path: Path) -> None:
    hosted = Hosted(tmp_path, "sim", warm=0)
    guest = hosted.guest()
    try:
        assert guest.submit(encode("ALLOCATE", guest.base, 4096)).error == 0
        found = hosted.host.memory_map(guest.welcome.session)
        assert found is not None
        assert list(found.allocations) == [(guest.base, 4096, "allocation")]
    finally:
        guest.leave()
        hosted.close()


@pytest.mark.parametrize(
    "said",
    [[], {"a": "x"}, {str(number): 1 for number in range(1000)}, None, {"a": {}}],
    ids=lambda said: str(said)[:20],
)
def test_counts_that_are_none(said: Any) -> None:
    """A guest may have taken its worker over."""
    with pytest.raises((ValueError, TypeError)):
        sessions._counts(said)


def test_counts_stay_within_what_can_be_sent() -> None:
    assert sessions._counts({"a": -1, "b": 1 << 80}) == {"a": 0, "b": (1 << 64) - 1}


@pytest.mark.parametrize(
    "data", [b"", b"[]", b"[[], 1]", b"[[[1]], []]", b"[[], []" + b" " * (1 << 20) + b"]", b"\xff"]
)
def test_maps_that_are_none(data: bytes) -> None:
    with pytest.raises((ValueError, TypeError)):
        control.read_map(data)


def test_a_lost_process_is_replaced(null: Hosted) -> None:
    """Its guest reads why; another session goes on, and a new one finds a process."""
    eventually(lambda: null.pool.busy == 0)
    other, lost = null.guest(), null.guest()
    assert lost.submit(encode("FENCE", 1, 0)).error == 0
    os.kill(lost.session.pid, signal.SIGKILL)
    code, details = lost.admission.end()
    assert code is grpc.StatusCode.INTERNAL
    assert details == f"session {lost.welcome.session} is ended: its process ended: signal SIGKILL"
    lost.close()
    assert other.submit(encode("FENCE", 1, 0)).error == 0
    eventually(lambda: null.pool.busy == 1)
    eventually(lambda: null.pool.waiting == 1)
    new = null.guest()
    assert new.submit(encode("FENCE", 1, 0)).error == 0
    new.leave()
    other.leave()


def test_a_process_that_ended_while_it_waited(null: Hosted) -> None:
    """No session gets it."""
    eventually(lambda: null.pool.busy == 0)
    eventually(lambda: null.pool.waiting == 1)
    (waiting,) = null.pool._places[0].warm
    os.kill(waiting.pid, signal.SIGKILL)
    eventually(lambda: not waiting.alive)  # its first thread is a zombie before the others have ended
    guest = null.guest()
    assert guest.session.pid != waiting.pid
    assert guest.submit(encode("FENCE", 1, 0)).error == 0
    guest.leave()


def test_a_process_that_does_not_end_keeps_no_other_sessions_place(monkeypatch: pytest.MonkeyPatch) -> None:
    pool, ends = WorkerPool("null", warm=2), threading.Event()
    try:
        stuck, other = pool.take(), pool.take()
        end = stuck.end
        monkeypatch.setattr(stuck, "end", lambda: (ends.wait(), end()))
        pool.release(stuck)
        pool.release(other)
        eventually(lambda: pool.busy == 1)
        assert stuck.alive
        assert not other.alive
    finally:
        ends.set()
        pool.close()
    assert pool.busy == 0


def test_images_are_shared(null: Hosted) -> None:
    image = b"any image: the null device looks into none"
    digest = digest_of(image)
    eventually(lambda: null.pool.busy == 0)
    first = null.guest(digest)
    assert list(first.welcome.known_modules) == []
    uploaded = first.submit(
        encode("MODULE_BEGIN", len(image), digest), encode("MODULE_CHUNK", len(image), 0, tail=image),
        encode("MODULE_END", digest),
    )  # fmt: skip
    assert uploaded.error == 0
    first.leave()
    second = null.guest(digest)
    assert list(second.welcome.known_modules) == [digest]
    assert second.submit(encode("MODULE_OPEN", 16, 0, digest)).error == 0
    second.leave()
    eventually(lambda: null.host.sessions == 0)
    assert all(entry.pins == 0 for entry in null.host.images._entries.values())


class Objects:
    """What a host does with the objects of one guest: it keeps them."""

    found: tuple[tuple[bytes, bytes], ...] = ((b"known", b"its manifest"),)
    wanted = (b"unknown",)

    def __init__(self) -> None:
        self.parts: list[tuple[bytes, bytes, bool]] = []

    def open(self, peer: str, objects: Any) -> Objects:
        return self

    def part(self, identity: bytes, data: bytes, last: bool) -> None:
        self.parts.append((identity, data, last))

    def close(self) -> None:
        pass


def test_objects_come_to_the_host(null: Hosted, monkeypatch: pytest.MonkeyPatch) -> None:
    """The host says which it wants, and the process that gets them sends them on."""
    eventually(lambda: null.pool.busy == 0)
    objects = Objects()
    monkeypatch.setattr(null.host, "manifests", objects)
    guest = Guest(null, (), mode="loops")
    assert [each.content for each in guest.welcome.manifests] == [b"its manifest"]
    assert list(guest.welcome.wanted_objects) == [b"unknown"]
    whole = bytes(range(256)) * 4096
    for data, last in ((whole, False), (b"", False), (b"end", True)):
        guest.stream.send(object_part=pb.ObjectPart(identity=b"unknown", data=data, last=last))
    assert guest.submit(encode("FENCE", 1, 0)).error == 0
    eventually(lambda: len(objects.parts) == 3)
    assert objects.parts == [(b"unknown", whole, False), (b"unknown", b"", False), (b"unknown", b"end", True)]
    guest.leave()


def test_there_are_so_many_and_no_more(null: Hosted) -> None:
    eventually(lambda: null.pool.busy == 0)
    first, second = null.guest(), null.guest()
    with pytest.raises(Refused, match="--workers-per-gpu"):
        null.guest()
    pid = first.session.pid
    first.leave()
    eventually(lambda: null.pool.busy == 1)
    assert gone(pid)
    eventually(lambda: null.pool.waiting == 1)  # one is ready again
    second.stream.send(tape=pb.Tape(group=1, records=struct.pack("<IHH", 8, 0xFFFF, 0), last=True))
    for ends in (second.stream.end, second.admission.end):
        code, details = ends()
        assert code is grpc.StatusCode.INTERNAL
        assert "unknown operation" in details
    second.close()


def test_a_ticket_is_good_once_and_no_other_is(null: Hosted) -> None:
    eventually(lambda: null.pool.busy == 0)
    guest = null.guest()
    assert guest.submit(encode("FENCE", 1, 0)).error == 0
    assert len(guest.ticket) == 16
    for said in (guest.ticket, guest.welcome.rings_ticket, bytes(16)):
        with socket.socket(socket.AF_UNIX) as stranger:
            stranger.settimeout(TIMEOUT)
            stranger.connect(null.path)
            stranger.sendall(b"FARLANE\0" + said)
            assert stranger.recv(1) == b""
    with socket.socket(socket.AF_UNIX) as stranger:
        stranger.settimeout(TIMEOUT)
        stranger.connect(null.path)
        stranger.sendall(b"FARLANE?" + guest.ticket)
        assert stranger.recv(1) == b""
    assert guest.submit(encode("FENCE", 1, 0)).error == 0
    guest.leave()


def test_a_session_has_one_connection(null: Hosted) -> None:
    """The two tickets of a Welcome lead to one process, which takes messages from one of them."""
    eventually(lambda: null.pool.busy == 0)
    guest = null.guest()
    assert guest.submit(encode("FENCE", 1, 0)).error == 0
    with socket.socket(socket.AF_UNIX) as rings:
        rings.settimeout(TIMEOUT)
        rings.connect(f"{null.path}.rings")
        rings.sendall(guest.welcome.rings_ticket)
        while rings.recv(64):
            pass
    assert guest.submit(encode("FENCE", 1, 0)).error == 0
    guest.leave()


def test_a_guest_that_does_not_come_again(null: Hosted) -> None:
    """An old one: the host refuses it by TCP, offers it rings, and ends it when its messages come to the host."""
    eventually(lambda: null.pool.busy == 0)
    old = pb.Hello(tape_version_min=1, tape_version_max=5, mode="calls")
    by_tcp = Stream(null.tcp)
    by_tcp.send(hello=old)
    refusal = next(by_tcp.call).refusal
    assert refusal.reason == pb.Refusal.VERSION
    assert "upgrade it" in refusal.message
    by_tcp.close()
    beside = Stream(f"unix:{null.path}")
    beside.send(hello=old)
    welcome = next(beside.call).welcome
    assert (len(welcome.rings_ticket), welcome.process_ticket) == (16, b"")
    beside.send(tape=pb.Tape(group=1, records=encode("FENCE", 1, 0), last=True))
    code, details = beside.end()
    assert code is grpc.StatusCode.INTERNAL
    assert "process of its own" in details
    beside.close()


def test_a_guest_that_goes_before_it_comes(null: Hosted) -> None:
    eventually(lambda: null.pool.busy == 0)
    guest = Stream(f"unix:{null.path}")
    guest.send(hello=pb.Hello(tape_version_min=1, tape_version_max=5, mode="calls", comes_again=True))
    assert len(next(guest.call).welcome.process_ticket) == 16
    assert null.pool.busy == 1
    guest.close()
    eventually(lambda: null.host.sessions == 0)
    eventually(lambda: null.pool.busy == 0)


@pytest.mark.parametrize(
    ("before", "stopped"), [([], False), ([], True), (["nohup"], True)], ids=["running", "stopped", "ignoring-hangups"]
)
def test_no_process_outlives_the_host(tmp_path: Path, before: list[str], stopped: bool) -> None:
    """One that the sharing of the device's time has stopped does not either."""
    command = [
        *before,
        sys.executable,
        "-m",
        "farlane.backend.commands.serve",
        "--device",
        "null",
        "--workers",
        "process",
    ]
    host = subprocess.Popen([*command, "--listen", f"unix://{tmp_path}/s"], stdout=subprocess.PIPE, text=True)
    try:
        assert host.stdout is not None
        assert "a confined process for each session" in host.stdout.readline()
        children = Path(f"/proc/{host.pid}/task/{host.pid}/children").read_text().split()
        assert children
        for child in children if stopped else []:
            eventually(lambda child=int(child): os.getpgid(child) == child)  # one is stopped once it has its session
            os.kill(int(child), signal.SIGSTOP)
            eventually(lambda child=child: stopped_wholly(child))
    finally:
        host.kill()
        host.communicate()
    for child in children:
        eventually(lambda child=int(child): gone(child))


def test_a_device_that_is_not_there() -> None:
    if any(Path("/dev").glob("nvidia[0-9]*")):
        pytest.skip("there is a GPU here")
    with pytest.raises(DeviceUnavailable, match=r"pip install 'farlane\[gpu\]'|no NVIDIA driver"):
        WorkerPool("cupy", gpus=[0])
