"""The Python client against a host that says what it should not."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from concurrent import futures
from pathlib import Path

import grpc
import pytest
from farlane.limits.generated import RECORD_BYTES
from farlane.v1 import session_pb2 as pb
from tape_client import generated_operations as operations
from tape_client.client import Client, CudaFailure
from tape_client.connection import ConnectionLost, Refused

GOLDEN = Path(__file__).resolve().parents[3] / "protos/golden"
RESULTS = json.loads((GOLDEN / "results.json").read_text(encoding="utf-8"))["records"]
LIMIT = RECORD_BYTES
WELCOME = pb.HostMessage(
    welcome=pb.Welcome(tape_version=operations.TAPE_VERSION, credit_bytes=LIMIT, message_bytes=LIMIT)
)


def result(kind: str, **fields: object) -> bytes:
    return next(
        bytes.fromhex(v["record"])
        for v in RESULTS
        if v["result"] == kind and all(v["fields"][name] == value for name, value in fields.items())
    )


OK = result("STATUS", slot=1)


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Callable[[Sequence[pb.HostMessage]], str]]:
    """Starts a host that answers the first message, and every group, with the next of these messages; gives its URL."""
    threads = futures.ThreadPoolExecutor(2)
    server = grpc.server(threads)
    answers: list[pb.HostMessage] = []

    def serve(messages: Iterator[pb.GuestMessage], _: grpc.ServicerContext) -> Iterator[pb.HostMessage]:
        left = iter(answers)
        for message in messages:
            if message.WhichOneof("kind") == "hello" or message.tape.last:
                answer = next(left, None)
                if answer is None:
                    return
                yield answer

    method = grpc.stream_stream_rpc_method_handler(serve, pb.GuestMessage.FromString, pb.HostMessage.SerializeToString)
    handler = grpc.method_handlers_generic_handler("farlane.v1.SessionService", {"Open": method})
    server.add_generic_rpc_handlers((handler,))
    url = f"unix://{tmp_path}/fake.sock"
    server.add_insecure_port(url)
    server.start()

    def start(messages: Sequence[pb.HostMessage]) -> str:
        answers[:] = messages
        return url

    yield start
    server.stop(0).wait()
    threads.shutdown()


def reply(results: bytes = b"", *, group: int = 1, **fields: object) -> pb.HostMessage:
    return pb.HostMessage(reply=pb.Reply(group=group, results=results, last=True, **fields))  # type: ignore[arg-type]


Host = Callable[[Sequence[pb.HostMessage]], str]


@pytest.mark.parametrize(
    ("answer", "what"),
    [
        (reply(), "without its result"),
        (reply(OK, group=2), "a reply to group 2"),
        (reply(OK[:8]), "truncated"),
        (reply(OK + OK), "several answers"),
        (reply(result("STATUS", slot=2)), "slot 2"),
        (reply(result("DATA", slot=5)), "slot 5"),
        (WELCOME, "something else than a reply"),
        (pb.HostMessage(), "something else than a reply"),
    ],
)
def test_a_broken_reply_ends_the_session(host: Host, answer: pb.HostMessage, what: str) -> None:
    client = Client(host([WELCOME, answer]))
    with pytest.raises(ConnectionLost, match=what):
        client.request(operations.device_synchronize)
    with pytest.raises(ConnectionLost, match="closed"):
        client.request(operations.device_synchronize)


@pytest.mark.parametrize(
    ("offsets", "what"), [((0,), "3 bytes of data instead of 6"), ((0, 0), "out of order"), ((0, 3, 6), "instead of 6")]
)
def test_data_that_was_not_asked_for(host: Host, offsets: Sequence[int], what: str) -> None:
    record = bytearray(result("DATA", slot=5, data="112233"))
    record[8:12] = (1).to_bytes(4, "little")
    records = b"".join(bytes(record[:16]) + o.to_bytes(8, "little") + bytes(record[24:]) for o in offsets)
    with pytest.raises(ConnectionLost, match=what):
        Client(host([WELCOME, reply(records)])).read(0, 6)


def test_the_host_ends_the_session(host: Host) -> None:
    client = Client(host([WELCOME]))
    with pytest.raises(ConnectionLost, match="the host ended the session"):
        client.synchronize()


def test_errors_are_told_as_the_page_says(host: Host) -> None:
    client = Client(host([WELCOME, reply(OK, error=17), reply(result("STATUS", error=-1), group=2, sticky=True)]))
    with pytest.raises(CudaFailure) as failure:
        client.synchronize()
    assert (failure.value.code, failure.value.sticky, client.sticky) == (17, False, 0)
    with pytest.raises(CudaFailure) as failure:
        client.synchronize()
    assert (failure.value.code, failure.value.sticky, client.sticky) == (-1, True, -1)


def test_refusals_and_welcomes_of_no_use(host: Host) -> None:
    refusal = pb.Refusal(reason=pb.Refusal.BUSY, message="eight sessions are open: try later")
    with pytest.raises(Refused, match="eight sessions are open: try later"):
        Client(host([pb.HostMessage(refusal=refusal)]))
    with pytest.raises(Refused, match=f"tape version {operations.TAPE_VERSION + 1}"):
        Client(host([pb.HostMessage(welcome=pb.Welcome(tape_version=operations.TAPE_VERSION + 1))]))
    with pytest.raises(ConnectionLost, match="longest record"):
        Client(
            host(
                [
                    pb.HostMessage(
                        welcome=pb.Welcome(tape_version=operations.TAPE_VERSION, credit_bytes=LIMIT, message_bytes=4096)
                    )
                ]
            )
        )
    with pytest.raises(ConnectionLost, match="no welcome"):
        Client(host([reply()]))


def test_a_host_that_says_nothing(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """Opening ends in time: here the Hello never arrives."""
    monkeypatch.setattr("tape_client.connection.Connection.send", lambda self, message: None)
    with pytest.raises(ConnectionLost, match="cancelled"):
        Client(host([WELCOME]), timeout=0.2)
