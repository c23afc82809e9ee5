"""The gRPC edge, with a raw gRPC guest: handshake, groups, and every way a session can end."""

from __future__ import annotations

import contextlib
import queue
import random
import socket
import struct
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from farlane.backend import control
from farlane.backend.device.base import CudaError
from farlane.backend.device.null import NullContext, NullDevice
from farlane.backend.handlers.generated_operations import encode
from farlane.backend.host.greeting import TAPE_VERSION_MAX, TAPE_VERSION_MIN
from farlane.backend.host.host import Host
from farlane.backend.host.session import CREDIT_BYTES, MESSAGE_BYTES
from farlane.backend.objects.images import digest_of
from farlane.backend.server import edge as edge_module
from farlane.backend.server import service
from farlane.backend.server.edge import Edge
from farlane.backend.server.endpoint import EndpointError, parse
from farlane.v1 import admin_pb2
from farlane.v1 import session_pb2 as pb
from waiting import eventually

FENCE = encode("FENCE", 7, 0)
HELLO = pb.Hello(tape_version_min=1, tape_version_max=1, client_version="test", program="test", pid=1, mode="calls")


class Wire:
    """One stream to the host, message by message."""

    def __init__(self, target: str, channel: grpc.Channel | None = None) -> None:
        self.channel = channel or grpc.insecure_channel(
            target,
            options=[
                ("grpc.use_local_subchannel_pool", 1),
                ("grpc.max_receive_message_length", -1),
                ("grpc.default_authority", "localhost"),
            ],
        )
        self._outgoing: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self.call = self.channel.stream_stream(
            "/farlane.v1.SessionService/Open", response_deserializer=pb.HostMessage.FromString
        )(iter(self._outgoing.get, None))
        self.group = 0

    def send(self, **message: Any) -> None:
        self._outgoing.put(pb.GuestMessage(**message).SerializeToString())

    def send_raw(self, data: bytes) -> None:
        self._outgoing.put(data)

    def receive(self) -> pb.HostMessage:
        message: pb.HostMessage = next(self.call)
        return message

    def open(self, hello: pb.Hello = HELLO) -> pb.Welcome:
        self.send(hello=hello)
        message = self.receive()
        assert message.WhichOneof("kind") == "welcome", message
        return message.welcome

    def submit(self, *records: bytes) -> list[pb.Reply]:
        self.group += 1
        self.send(tape=pb.Tape(group=self.group, records=b"".join(records), last=True))
        replies = []
        while not replies or not replies[-1].last:
            replies.append(self.receive().reply)
            assert replies[-1].group == self.group
        return replies

    def half_close(self) -> None:
        self._outgoing.put(None)

    def ended(self) -> tuple[grpc.StatusCode, str]:
        with contextlib.suppress(grpc.RpcError):
            for _ in self.call:
                pass
        return self.call.code(), self.call.details()

    def close(self) -> None:
        self.call.cancel()
        self.half_close()
        self.channel.close()


class Served:
    def __init__(self, host: Host, edge: Edge, targets: list[str]) -> None:
        self.host = host
        self.edge = edge
        self.targets = targets
        self.contexts: list[Any] = []
        self._wires: list[Wire] = []
        device, open_context = host.device, host.device.open_context

        def opening(quota: int) -> Any:
            context = open_context(quota)
            self.contexts.append(context)
            return context

        device.open_context = opening  # type: ignore[method-assign]

    def wire(self, transport: int = 0) -> Wire:
        self._wires.append(Wire(self.targets[transport]))
        return self._wires[-1]

    def all_released(self) -> None:
        eventually(lambda: self.host.sessions == 0)
        eventually(lambda: all(context.closed for context in self.contexts))
        assert all(entry.pins == 0 for entry in self.host.images._entries.values())

    def close(self) -> None:
        for wire in self._wires:
            wire.close()


@contextlib.contextmanager
def serving(host: Host, *urls: str) -> Iterator[Served]:
    edge = Edge(host)
    served = Served(host, edge, [endpoint.target for endpoint in edge.listen([parse(url) for url in urls])])
    yield served
    served.close()
    edge.stop(5)
    host.close()
    served.all_released()


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    with serving(Host(NullDevice(), session_limit=24), "grpc://127.0.0.1:0", f"unix://{tmp_path}/host.sock") as served:
        yield served
    assert not (tmp_path / "host.sock").exists()


@pytest.mark.parametrize("transport", [0, 1], ids=["tcp", "unix"])
class TestBothTransports:
    def test_welcome(self, served: Served, transport: int) -> None:
        welcome = served.wire(transport).open()
        assert welcome.tape_version == 1
        assert welcome.session
        assert (welcome.credit_bytes, welcome.message_bytes) == (CREDIT_BYTES, MESSAGE_BYTES)
        assert welcome.memory_quota == 16 << 30
        (device,) = welcome.devices
        assert (device.backend, device.compute_major, device.attributes[10]) == ("null", 12, 32)

    def test_memory_and_launches(self, served: Served, transport: int) -> None:
        wire = served.wire(transport)
        base = wire.open().window_base
        image = b"image"
        digest = digest_of(image)
        launch = encode("LAUNCH", 16, 1, 1, 1, 1, 32, 1, 1, 0, 16, tail=bytes(16))
        (reply,) = wire.submit(
            encode("MODULE_BEGIN", len(image), digest),
            encode("MODULE_CHUNK", len(image), 0, tail=image),
            encode("MODULE_END", digest),
            encode("MODULE_OPEN", 16, 0, digest),
            encode("FUNCTION_OPEN", 16, 16, 1, 0, tail=b"k"),
            encode("ALLOCATE", base, 4096),
            encode("WRITE", base, 0, 5, 1, 1, 5, tail=b"hello"),
            *[launch] * 1000,
            encode("READ", base, 0, 5, 1, 1, 1),
        )
        assert (reply.error, reply.sticky) == (0, False)
        assert reply.results[32:37] == bytes(5)
        assert served.contexts[0].launches == 1000

    def test_large_reads_and_writes(self, served: Served, transport: int) -> None:
        wire = served.wire(transport)
        base = wire.open().window_base
        size = 24 << 20
        wire.submit(encode("ALLOCATE", base, size))
        wire.group += 1
        data = bytes(1 << 20)
        for at in range(0, size, 1 << 20):
            record = encode("WRITE", base + at, 0, len(data), 1, 1, len(data), tail=data)
            wire.send(tape=pb.Tape(group=wire.group, records=record, last=at + len(data) == size))
        assert wire.receive().reply.error == 0
        replies = wire.submit(encode("READ", base, 0, size, 1, 1, 9))
        total = 0
        for reply in replies:
            at = 0
            while at < len(reply.results):
                length, kind, _, slot, error, offset, count, _ = struct.unpack_from("<IHHIiQII", reply.results, at)
                assert (kind, slot, error, offset) == (3, 9, 0, total)
                total += count
                at += length
        assert total == size

    def test_describe(self, served: Served, transport: int) -> None:
        served.wire(transport).open()
        with grpc.insecure_channel(
            served.targets[transport], options=[("grpc.default_authority", "localhost")]
        ) as channel:
            reply = channel.unary_unary(
                "/farlane.v1.AdminService/Describe",
                request_serializer=admin_pb2.DescribeRequest.SerializeToString,
                response_deserializer=admin_pb2.DescribeReply.FromString,
            )(admin_pb2.DescribeRequest(), timeout=5)
        assert (reply.sessions, reply.session_limit, reply.devices[0].backend) == (1, 24, "null")
        assert (reply.tape_version_min, reply.tape_version_max) == (TAPE_VERSION_MIN, TAPE_VERSION_MAX)


class TestRefusals:
    def refusal(self, wire: Wire) -> pb.Refusal:
        message = wire.receive()
        assert message.WhichOneof("kind") == "refusal", message
        assert wire.ended()[0] is grpc.StatusCode.OK
        return message.refusal

    def test_version(self, served: Served) -> None:
        wire = served.wire()
        wire.send(hello=pb.Hello(tape_version_min=TAPE_VERSION_MAX + 1, tape_version_max=99, mode="calls"))
        refusal = self.refusal(wire)
        assert refusal.reason == pb.Refusal.VERSION
        assert "upgrade the host" in refusal.message

    def test_busy(self, served: Served) -> None:
        served.host.session_limit = 1
        served.wire().open()
        wire = served.wire()
        wire.send(hello=HELLO)
        assert self.refusal(wire).reason == pb.Refusal.BUSY

    @pytest.mark.parametrize(
        "data",
        [b"", b"\xff\xff\xff", pb.GuestMessage(goodbye=pb.Goodbye()).SerializeToString(),
         pb.GuestMessage(tape=pb.Tape(group=1)).SerializeToString(),
         pb.GuestMessage(hello=pb.Hello()).SerializeToString()],
        ids=["empty", "garbage", "goodbye", "tape", "empty hello"],
    )  # fmt: skip
    def test_malformed(self, served: Served, data: bytes) -> None:
        wire = served.wire()
        wire.send_raw(data)
        assert self.refusal(wire).reason == pb.Refusal.MALFORMED

    def test_device(self, served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
        def open_context(quota: int) -> Any:
            raise CudaError(2, "no room for another context")

        monkeypatch.setattr(served.host.device, "open_context", open_context)
        wire = served.wire()
        wire.send(hello=HELLO)
        refusal = self.refusal(wire)
        assert refusal.reason == pb.Refusal.DEVICE
        assert "no room for another context" in refusal.message

    def test_silence(self, served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(service, "FIRST_MESSAGE_SECONDS", 0.2)
        assert served.wire().ended()[0] is not grpc.StatusCode.OK

    def test_connection_closed_before_hello(self, served: Served) -> None:
        wire = served.wire()
        wire.half_close()
        assert wire.ended()[0] is grpc.StatusCode.OK


class TestEnds:
    """However a session ends, everything of it is given back."""

    def opened(self, served: Served) -> Wire:
        wire = served.wire()
        base = wire.open().window_base
        image = b"image"
        digest = digest_of(image)
        (reply,) = wire.submit(
            encode("ALLOCATE", base, 1 << 20),
            encode("STREAM_CREATE", 16, 0, 0, 0),
            encode("EVENT_CREATE", 16, 0),
            encode("MODULE_BEGIN", len(image), digest),
            encode("MODULE_CHUNK", len(image), 0, tail=image),
            encode("MODULE_END", digest),
            encode("MODULE_OPEN", 16, 0, digest),
        )
        assert reply.error == 0
        assert served.host.sessions == 1
        return wire

    def test_goodbye(self, served: Served) -> None:
        wire = self.opened(served)
        wire.send(goodbye=pb.Goodbye())
        assert wire.ended()[0] is grpc.StatusCode.OK
        served.all_released()

    def test_half_close(self, served: Served) -> None:
        wire = self.opened(served)
        wire.half_close()
        assert wire.ended()[0] is grpc.StatusCode.OK
        served.all_released()

    def test_cancel(self, served: Served) -> None:
        self.opened(served).call.cancel()
        served.all_released()

    def test_broken_connection(self, served: Served) -> None:
        self.opened(served).channel.close()
        served.all_released()

    def test_the_guest_vanishes_in_the_middle_of_a_group(self, served: Served) -> None:
        wire = self.opened(served)
        wire.send(tape=pb.Tape(group=wire.group + 1, records=FENCE, last=False))
        wire.call.cancel()
        served.all_released()

    def test_the_guest_vanishes_while_its_work_runs(self, served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
        wire = self.opened(served)
        running, go_on = threading.Event(), threading.Event()

        def synchronize(**_: Any) -> None:
            running.set()
            go_on.wait(10)

        served.contexts[0].direct.disable()
        monkeypatch.setattr(served.contexts[0], "synchronize", synchronize)
        wire.send(tape=pb.Tape(group=wire.group + 1, records=encode("DEVICE_SYNCHRONIZE", 1, 0), last=True))
        assert running.wait(10)
        wire.call.cancel()
        assert not served.contexts[0].closed, "not while a call is inside the device"
        go_on.set()
        served.all_released()

    @pytest.mark.parametrize("end", ["the guest goes", "the host stops"])
    def test_work_that_runs_for_nobody_is_interrupted(
        self, served: Served, monkeypatch: pytest.MonkeyPatch, end: str
    ) -> None:
        wire = self.opened(served)
        running, interrupted = threading.Event(), threading.Event()

        def synchronize(**_: Any) -> None:
            running.set()
            assert interrupted.wait(60)
            raise CudaError(719, "interrupted", sticky=True)

        served.contexts[0].direct.disable()
        monkeypatch.setattr(served.contexts[0], "synchronize", synchronize)
        monkeypatch.setattr(served.contexts[0], "interrupt", interrupted.set)
        wire.send(tape=pb.Tape(group=wire.group + 1, records=encode("DEVICE_SYNCHRONIZE", 1, 0), last=True))
        assert running.wait(10)
        if end == "the guest goes":
            wire.call.cancel()
        else:
            served.edge.stop(0.1)
        served.all_released()

    def test_the_guest_vanishes_in_the_middle_of_a_large_read(self, served: Served) -> None:
        wire = self.opened(served)
        size = 512 << 20
        base = served.contexts[0].window.base + (1 << 30)
        wire.send(
            tape=pb.Tape(
                group=wire.group + 1,
                records=encode("ALLOCATE", base, size) + encode("READ", base, 0, size, 1, 1, 5),
                last=True,
            )
        )
        wire.receive()
        wire.call.cancel()
        served.all_released()

    @pytest.mark.parametrize(
        ("records", "why"),
        [(b"\1\2\3", "bytes where a record should begin"), (struct.pack("<IHH", 8, 0x999, 0), "unknown operation"),
         (struct.pack("<IHH", 2**31, 1, 0), "record of"), (encode("STREAM_CREATE", 16, 0, 0, 0), "second time"),
         (encode("STREAM_CREATE", 3, 0, 0, 0), "outside the range"), (encode("FENCE", 1, 9), "reserved")],
    )  # fmt: skip
    def test_malformed_tape(self, served: Served, records: bytes, why: str) -> None:
        wire = self.opened(served)
        wire.send(tape=pb.Tape(group=wire.group + 1, records=records, last=True))
        code, details = wire.ended()
        assert code is grpc.StatusCode.INTERNAL
        assert why in details
        served.all_released()

    @pytest.mark.parametrize(
        "message",
        [pb.GuestMessage(hello=HELLO), pb.GuestMessage(), pb.GuestMessage(tape=pb.Tape(group=7, records=FENCE))],
        ids=["hello", "empty", "group"],
    )
    def test_a_message_out_of_place(self, served: Served, message: pb.GuestMessage) -> None:
        wire = self.opened(served)
        wire.send_raw(message.SerializeToString())
        assert wire.ended()[0] is grpc.StatusCode.INTERNAL
        served.all_released()

    def test_more_than_its_credit(self, served: Served) -> None:
        wire = self.opened(served)
        data = bytes(1 << 20)
        record = encode("WRITE", served.contexts[0].window.base, 0, len(data), 1, 1, len(data), tail=data)
        for _ in range(CREDIT_BYTES // len(record) + 1):
            wire.send(tape=pb.Tape(group=wire.group + 1, records=record))
        code, details = wire.ended()
        assert code is grpc.StatusCode.INTERNAL
        assert "acknowledgement" in details
        served.all_released()

    def test_a_message_too_large(self, served: Served) -> None:
        wire = self.opened(served)
        wire.send(tape=pb.Tape(group=wire.group + 1, records=bytes(4 << 20)))
        assert wire.ended()[0] is grpc.StatusCode.RESOURCE_EXHAUSTED
        served.all_released()

    def test_an_exception_of_ours(
        self, served: Served, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        wire = self.opened(served)
        monkeypatch.setattr(control, "to_cuda", lambda error, operation: 1 // 0)
        wire.send(tape=pb.Tape(group=wire.group + 1, records=encode("FREE", 1), last=True))
        code, details = wire.ended()
        assert (code, "internal error of the host" in details) == (grpc.StatusCode.INTERNAL, True)
        assert "ZeroDivisionError" in caplog.text
        served.all_released()

    def test_an_exception_in_a_handler_ends_no_session(self, served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
        wire = self.opened(served)
        monkeypatch.setattr(served.contexts[0], "allocate", lambda address, size: 1 // 0)
        (reply,) = wire.submit(encode("ALLOCATE", 0, 1), FENCE)
        assert (reply.error, reply.sticky) == (999, True)
        (reply,) = wire.submit(encode("DEVICE_RESET", 1, 0))
        assert (reply.error, reply.sticky) == (0, False)

    def test_the_host_stops(self, served: Served) -> None:
        wire = self.opened(served)
        served.edge.stop(0.1)
        assert wire.ended()[0] is not grpc.StatusCode.OK
        served.all_released()


def test_many_sessions_at_once(served: Served) -> None:
    failures: list[str] = []

    def work(number: int) -> None:
        try:
            wire = served.wire(number % 2)
            base = wire.open().window_base
            for round_ in range(20):
                address = base + round_ * 4096
                replies = wire.submit(
                    encode("ALLOCATE", address, 4096),
                    encode("MEMSET", address, 0, 4096, 1, 1, 1, 1, 0),
                    encode("READ", address, 0, 4096, 1, 1, round_ + 1),
                )
                assert [reply.error for reply in replies] == [0]
                assert len(replies[0].results) == 32 + 4096
            if number % 4 == 3:
                wire.send(tape=pb.Tape(group=99, records=b"", last=True))
                assert wire.ended()[0] is grpc.StatusCode.INTERNAL
            else:
                wire.send(goodbye=pb.Goodbye())
                assert wire.ended()[0] is grpc.StatusCode.OK
        except BaseException as error:
            failures.append(f"{number}: {error!r}")

    threads = [threading.Thread(target=work, args=(number,)) for number in range(24)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not failures
    assert len(served.contexts) == 24
    served.all_released()


def test_a_device_is_told_that_nothing_is_left_to_do(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """Again and again, until it has nothing left to do either; then it is left alone until something comes."""
    looks: list[bool] = []

    def rest(context: NullContext) -> bool:
        looks.append(len(looks) % 3 == 2)
        return looks[-1]

    monkeypatch.setattr(NullContext, "rest", rest)
    wire = served.wire()
    wire.open()
    for groups in (1, 2):
        wire.submit(FENCE)
        eventually(lambda groups=groups: looks[-1:] == [True] and len(looks) >= 3 * groups)
    wire.close()
    served.all_released()
    assert looks == [False, False, True] * (len(looks) // 3)


def test_a_session_that_computes_does_not_hold_up_another(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """A device releases the GIL while it works; another session's round trips go on."""
    busy, free = served.wire(), served.wire(1)
    busy.open()
    release = threading.Event()
    served.contexts[0].direct.disable()
    monkeypatch.setattr(served.contexts[0], "synchronize", lambda **_: release.wait(20))
    free.open()
    busy.send(tape=pb.Tape(group=1, records=encode("DEVICE_SYNCHRONIZE", 1, 0), last=True))
    for _ in range(10):
        free.submit(FENCE)
    release.set()
    assert busy.receive().reply.last


def test_known_modules(served: Served) -> None:
    image = b"known"
    digest = digest_of(image)
    hello = pb.Hello(tape_version_min=1, tape_version_max=1, mode="calls", module_digests=[digest, bytes(32)])
    first = served.wire()
    assert not first.open(hello).known_modules
    first.submit(
        encode("MODULE_BEGIN", len(image), digest),
        encode("MODULE_CHUNK", len(image), 0, tail=image),
        encode("MODULE_END", digest),
    )
    second = served.wire()
    assert list(second.open(hello).known_modules) == [digest]
    (reply,) = second.submit(encode("MODULE_OPEN", 16, 0, digest))
    assert reply.error == 0


class TestListening:
    def test_a_taken_port_is_not_shared(self, served: Served) -> None:
        edge = Edge(served.host)
        with pytest.raises(EndpointError, match="in use"):
            edge.listen([parse(f"grpc://{served.targets[0]}")])
        edge.stop(0)

    def test_a_taken_socket_is_not_stolen(self, served: Served) -> None:
        edge = Edge(served.host)
        with pytest.raises(EndpointError, match="another process"):
            edge.listen([parse(served.targets[1])])
        edge.stop(0)
        served.wire(1).open()


@pytest.mark.parametrize("transport", [0, 1], ids=["tcp", "unix"])
def test_sessions_that_come_and_go(served: Served, transport: int) -> None:
    """Ends of every kind at every moment, many at once; no call, thread or session is left behind."""
    failures: list[str] = []
    large = encode("READ", 0, 0, 8 << 20, 1, 1, 5)

    def live(rng: random.Random) -> None:
        wire = Wire(served.targets[transport])
        try:
            moment = rng.randrange(6)
            if moment == 0:
                return
            wire.send(hello=HELLO)
            if moment == 1:
                return
            base = wire.receive().welcome.window_base
            wire.submit(encode("ALLOCATE", base, 8 << 20))
            end = rng.randrange(5)
            if end == 0:
                wire.send(goodbye=pb.Goodbye())
                assert wire.ended()[0] is grpc.StatusCode.OK
            elif end == 1:
                wire.send(tape=pb.Tape(group=2, records=b"garbage", last=True))
                assert wire.ended()[0] is grpc.StatusCode.INTERNAL
            else:
                record = large[:8] + struct.pack("<Q", base) + large[16:]
                wire.send(tape=pb.Tape(group=2, records=record, last=True))
                if end == 2:
                    wire.receive()
                elif end == 3:
                    time.sleep(rng.random() * 0.01)
        except BaseException as error:
            failures.append(repr(error))
        finally:
            rng.choice([wire.call.cancel, wire.half_close, wire.channel.close])()
            time.sleep(rng.random() * 0.01)
            wire.close()

    def work(seed: int) -> None:
        rng = random.Random(seed)
        for _ in range(12):
            live(rng)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not failures
    served.all_released()
    eventually(lambda: served.edge.calls == 0)
    served.wire(transport).open()


def test_calls_beyond_the_limit_are_turned_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(edge_module, "SPARE_CALLS", 1)
    with serving(Host(NullDevice(), session_limit=2), "grpc://127.0.0.1:0") as served:
        for _ in range(2):
            served.wire().open()
        silent = served.wire()  # takes the spare place without a word
        eventually(lambda: served.edge.calls == 3)
        code, details = served.wire().ended()
        assert (code, "too many calls" in details) == (grpc.StatusCode.RESOURCE_EXHAUSTED, True)
        silent.close()
        eventually(lambda: served.edge.calls == 2)
        wire = served.wire()
        wire.send(hello=HELLO)
        assert wire.receive().refusal.reason == pb.Refusal.BUSY


def test_connections_beyond_the_limit_are_turned_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(edge_module, "SPARE_CALLS", 1)
    monkeypatch.setattr(edge_module, "SPARE_CONNECTIONS", 0)
    with serving(Host(NullDevice(), session_limit=1), "grpc://127.0.0.1:0") as served:
        host, _, port = served.targets[0].rpartition(":")
        silent = [socket.create_connection((host, int(port))) for _ in range(4)]
        code, details = served.wire().ended()
        assert (code, "too many connections" in details) == (grpc.StatusCode.RESOURCE_EXHAUSTED, True)
        for each in silent:
            each.close()
        eventually(lambda: opens(served))


def opens(served: Served) -> bool:
    wire = served.wire()
    wire.send(hello=HELLO)
    with contextlib.suppress(grpc.RpcError):
        return wire.receive().WhichOneof("kind") == "welcome"
    return False


def test_two_sessions_on_one_connection(served: Served) -> None:
    first = served.wire()
    first.open()
    second = Wire(served.targets[0], first.channel)
    second.open()
    for wire in (first, second, first):
        wire.submit(FENCE)
    first.send(goodbye=pb.Goodbye())
    assert first.ended()[0] is grpc.StatusCode.OK
    second.submit(FENCE)


def test_an_unknown_method(served: Served) -> None:
    with grpc.insecure_channel(served.targets[0]) as channel, pytest.raises(grpc.RpcError) as caught:
        channel.unary_unary("/farlane.v1.SessionService/Close")(b"", timeout=10)
    assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED


class Cable:
    """A TCP connection that can be cut without either side being told."""

    def __init__(self, target: str) -> None:
        host, _, port = target.rpartition(":")
        self._upstream = (host, int(port))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.target = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._cut = threading.Event()
        self._sockets: list[socket.socket] = []
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        near, _ = self._listener.accept()
        far = socket.create_connection(self._upstream)
        self._sockets += [near, far]
        for source, sink in ((near, far), (far, near)):
            threading.Thread(target=self._pump, args=(source, sink), daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                if not self._cut.is_set():
                    sink.sendall(data)

    def cut(self) -> None:
        self._cut.set()

    def close(self) -> None:
        for each in (self._listener, *self._sockets):
            each.close()


def test_a_guest_whose_machine_vanishes(monkeypatch: pytest.MonkeyPatch) -> None:
    """No packet says so: only keepalive can tell."""
    monkeypatch.setattr(edge_module, "KEEPALIVE_SECONDS", 1.0)
    monkeypatch.setattr(edge_module, "KEEPALIVE_TIMEOUT_SECONDS", 1.0)
    host = Host(NullDevice())
    edge = Edge(host)
    (bound,) = edge.listen([parse("grpc://127.0.0.1:0")])
    cable = Cable(bound.target)
    wire = Wire(cable.target)
    wire.open()
    wire.submit(FENCE)
    cable.cut()
    assert host.sessions == 1
    eventually(lambda: host.sessions == 0)
    wire.close()
    cable.close()
    edge.stop(1)
    host.close()
