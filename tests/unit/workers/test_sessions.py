"""A process for each session: what one does to its process, no other notices; images are shared; processes are bounded, reaped, and never outlive the host."""

from __future__ import annotations

import os
import signal
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from farlane.backend.device.registry import DeviceUnavailable
from farlane.backend.errors import DeadTransport, ProtocolError, SessionLost
from farlane.backend.handlers.generated_operations import encode
from farlane.backend.host.host import TAPE_VERSION_MAX, Admission, Greeting, Host, Reason, Refused
from farlane.backend.objects.images import digest_of
from farlane.backend.server.edge import Edge
from farlane.backend.server.endpoint import parse
from farlane.backend.workers.pool import WorkerPool
from farlane.backend.workers.session import SessionProcesses
from farlane.v1 import session_pb2 as pb
from waiting import eventually

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


class Guest:
    def __init__(self, admission: Admission) -> None:
        self.admission = admission
        self.session: Any = admission.session
        self.base = admission.window.base
        self.group = 0

    def submit(self, *records: bytes) -> pb.Reply:
        """One group; its replies joined."""
        self.group += 1
        data, whole = b"".join(records), pb.Reply()
        for message in self.session.submit(self.group, data, True):
            reply = pb.HostMessage.FromString(message).reply
            whole.MergeFrom(pb.Reply(error=reply.error, sticky=reply.sticky, error_message=reply.error_message))
            whole.results += reply.results
        return whole

    def write_and_read(self, data: bytes) -> bytes:
        size = len(data)
        reply = self.submit(
            encode("WRITE", self.base, size, size, 1, 1, size, tail=data),
            encode("READ", self.base, size, size, 1, 1, 7),
        )
        assert reply.error == 0
        return bytes(reply.results[32 : 32 + size])


class Hosted:
    def __init__(self, device: str, **options: Any) -> None:
        self.pool = WorkerPool(device, **options)
        self.host = Host(SessionProcesses(self.pool), quota=64 << 20)

    def guest(self, *digests: bytes) -> Guest:
        return Guest(self.host.admit(Greeting(1, TAPE_VERSION_MAX, program="test", module_digests=digests)))

    def end(self, *guests: Guest) -> None:
        for guest in guests:
            self.host.end(guest.session, "the test is over")

    def close(self) -> None:
        assert self.host.sessions == 0
        self.host.close()


@pytest.fixture(scope="module")
def null() -> Iterator[Hosted]:
    hosted = Hosted("null", warm=1, limit=2)
    yield hosted
    hosted.close()
    assert hosted.pool.waiting == hosted.pool.busy == 0


def test_a_lost_process_ends_its_session_alone() -> None:
    """Two sessions with memory of their own; a kernel that never ends goes with its guest; a killed process with its session."""
    hosted = Hosted("sim", warm=0)
    first, second = hosted.guest(), hosted.guest()
    try:
        pids = {first.session.pid, second.session.pid, os.getpid()}
        assert len(pids) == 3
        for guest, value in ((first, b"first..."), (second, b"second..")):
            assert guest.submit(encode("ALLOCATE", guest.base, 4096)).error == 0
            assert guest.write_and_read(value) == value
        digest = digest_of(IMAGE)
        opened = first.submit(
            encode("MODULE_BEGIN", len(IMAGE), digest), encode("MODULE_CHUNK", len(IMAGE), 0, tail=IMAGE),
            encode("MODULE_END", digest), encode("MODULE_OPEN", 16, 0, digest),
            encode("FUNCTION_OPEN", 17, 16, 4, 0, tail=b"spin"), encode("MEMSET", first.base, 8, 8, 1, 0, 1, 1, 0),
        )  # fmt: skip
        assert opened.error == 0
        raised: list[BaseException] = []

        def run() -> None:
            try:
                launch = encode("LAUNCH", 17, 1, 1, 1, 1, 1, 1, 1, 0, 8, tail=struct.pack("<Q", first.base))
                first.submit(launch, encode("DEVICE_SYNCHRONIZE", 1, 0))
            except BaseException as error:
                raised.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        thread.join(1)
        assert thread.is_alive(), "the kernel ended by itself"
        assert second.write_and_read(b"meantime") == b"meantime"
        first.session.interrupt()
        thread.join(30)
        assert [type(error) for error in raised] == [DeadTransport]
        hosted.end(first)
        eventually(lambda: gone(first.session.pid))
        os.kill(second.session.pid, signal.SIGKILL)
        with pytest.raises(SessionLost, match="SIGKILL"):
            second.write_and_read(b"too late")
        hosted.end(second)
        eventually(lambda: hosted.pool.busy == 0)
    finally:
        hosted.end(first, second)
        hosted.close()


def test_a_lost_process_as_a_guest_sees_it(null: Hosted, tmp_path: Path) -> None:
    """The call ends with INTERNAL and says why; another call goes on."""
    edge = Edge(null.host)
    (endpoint,) = edge.listen([parse(f"unix://{tmp_path}/host.sock")])
    other = null.guest()
    try:
        with grpc.insecure_channel(endpoint.target, options=[("grpc.default_authority", "localhost")]) as channel:
            hello = pb.GuestMessage(hello=pb.Hello(tape_version_min=1, tape_version_max=2, mode="calls"))
            killed = threading.Event()

            def messages() -> Iterator[bytes]:
                yield hello.SerializeToString()
                assert killed.wait(60)
                yield pb.GuestMessage(
                    tape=pb.Tape(group=1, records=encode("FENCE", 1, 0), last=True)
                ).SerializeToString()

            call = channel.stream_stream(
                "/farlane.v1.SessionService/Open", response_deserializer=pb.HostMessage.FromString
            )(messages())
            name = next(call).welcome.session
            session = null.host._open[name]
            os.kill(session.pid, signal.SIGKILL)  # type: ignore[union-attr]
            killed.set()
            with pytest.raises(grpc.RpcError):
                next(call)
            assert call.code() is grpc.StatusCode.INTERNAL
            assert "SIGKILL" in call.details()
        assert other.submit(encode("FENCE", 1, 0)).error == 0
        eventually(lambda: null.host.sessions == 1)
    finally:
        null.end(other)
        edge.stop(5)


def test_images_are_shared(null: Hosted) -> None:
    image = b"any image: the null device looks into none"
    digest = digest_of(image)
    eventually(lambda: null.pool.busy == 0)
    first = null.guest(digest)
    assert first.admission.known_modules == []
    uploaded = first.submit(
        encode("MODULE_BEGIN", len(image), digest), encode("MODULE_CHUNK", len(image), 0, tail=image),
        encode("MODULE_END", digest),
    )  # fmt: skip
    assert uploaded.error == 0
    null.end(first)
    second = null.guest(digest)
    assert list(second.admission.known_modules) == [digest]
    assert second.submit(encode("MODULE_OPEN", 16, 0, digest)).error == 0
    null.end(second)
    assert all(entry.pins == 0 for entry in null.host.images._entries.values())


def test_there_are_so_many_and_no_more(null: Hosted) -> None:
    eventually(lambda: null.pool.busy == 0)
    first, second = null.guest(), null.guest()
    with pytest.raises(Refused, match="--workers-per-gpu") as caught:
        null.guest()
    assert caught.value.reason is Reason.BUSY
    pid = first.session.pid
    null.end(first)
    eventually(lambda: null.pool.busy == 1)
    assert gone(pid)
    eventually(lambda: null.pool.waiting == 1)  # one is ready again
    with pytest.raises(ProtocolError, match="unknown operation"):
        second.submit(struct.pack("<IHH", 8, 0xFFFF, 0))
    null.end(second)
    with pytest.raises(ProtocolError, match="ended"):
        second.submit(encode("FENCE", 1, 0))


def test_no_process_outlives_the_host(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "farlane.backend.commands.serve", "--device", "null", "--workers", "process"]
    host = subprocess.Popen([*command, "--listen", f"unix://{tmp_path}/s"], stdout=subprocess.PIPE, text=True)
    try:
        assert host.stdout is not None
        assert "a process for each session" in host.stdout.readline()
        children = Path(f"/proc/{host.pid}/task/{host.pid}/children").read_text().split()
        assert children
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
