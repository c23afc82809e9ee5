"""The reading of the hot message without protobuf agrees with protobuf."""

from __future__ import annotations

from farlane.backend.host.greeting import Greeting, Reason, Refused
from farlane.backend.host.manifests import GuestObject
from farlane.backend.plane import read_tape
from farlane.backend.server import messages
from farlane.v1 import session_pb2 as pb
from hypothesis import example, given
from hypothesis import strategies as st

u64 = st.integers(0, 2**64 - 1)


def varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*out, value))


@given(group=u64, records=st.binary(max_size=300), last=st.booleans())
@example(group=0, records=b"", last=False)
@example(group=1, records=bytes(70_000), last=True)
def test_tapes(group: int, records: bytes, last: bool) -> None:
    data = pb.GuestMessage(tape=pb.Tape(group=group, records=records, last=last)).SerializeToString()
    tape = read_tape(data)
    assert tape is not None
    assert (tape.group, tape.records, tape.last) == (group, records, last)
    assert messages.read_guest(data) == messages.TapePart(group, records, last)


@given(st.binary(max_size=64))
def test_anything_else_is_protobufs(data: bytes) -> None:
    """Whatever arrives, the plane says what protobuf says, or leaves it to protobuf."""
    tape, message = read_tape(data), messages.read_guest(data)
    try:
        parsed = pb.GuestMessage.FromString(data)
    except Exception:
        assert isinstance(message, messages.Malformed)
        assert tape is None
        return
    if parsed.WhichOneof("kind") == "tape":
        expected = parsed.tape.group, parsed.tape.records, parsed.tape.last
        assert message == messages.TapePart(*expected)
        assert tape is None or (tape.group, tape.records, tape.last) == expected
    else:
        assert tape is None
        assert not isinstance(message, messages.TapePart)


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just(b"\x08"), u64), st.tuples(st.just(b"\x18"), u64), st.tuples(st.just(b"\x12"), st.binary(max_size=9))
        ),
        max_size=5,
    )
)  # fmt: skip
def test_fields_in_any_order_and_number(fields: list[tuple[bytes, int | bytes]]) -> None:
    body = b""
    for tag, value in fields:
        if isinstance(value, int):
            body += tag + varint(value)
        else:
            body += tag + varint(len(value)) + value
    data = b"\x12" + varint(len(body)) + body
    expected = pb.GuestMessage.FromString(data).tape
    assert messages.read_guest(data) == messages.TapePart(expected.group, expected.records, expected.last)
    tape = read_tape(data)
    assert tape is None or (tape.group, tape.records, tape.last) == (expected.group, expected.records, expected.last)


def test_objects() -> None:
    hello = pb.Hello(tape_version_min=1, tape_version_max=2, mode="loops")
    hello.objects.add(identity=b"id", size=70, has_manifest=True)
    greeting = messages.read_guest(pb.GuestMessage(hello=hello).SerializeToString())
    assert isinstance(greeting, Greeting)
    assert greeting.objects == (GuestObject(b"id", 70, True),)
    part = pb.GuestMessage(object_part=pb.ObjectPart(identity=b"id", data=b"bytes", last=True))
    assert messages.read_guest(part.SerializeToString()) == messages.ObjectPart(b"id", b"bytes", True)


def test_other_messages() -> None:
    hello = pb.Hello(
        tape_version_min=1,
        tape_version_max=2,
        program="p",
        pid=3,
        mode="none",
        module_digests=[bytes(32)],
        checks=["race"],
    )
    greeting = messages.read_guest(pb.GuestMessage(hello=hello).SerializeToString())
    assert greeting == Greeting(1, 2, "", "p", 3, "none", [bytes(32)], checks=("race",))
    goodbye = messages.read_guest(pb.GuestMessage(goodbye=pb.Goodbye()).SerializeToString())
    assert isinstance(goodbye, messages.Goodbye)
    assert isinstance(messages.read_guest(b""), messages.Malformed)
    assert isinstance(messages.read_guest(b"\xff\xff"), messages.Malformed)


def test_refusals_keep_their_reason() -> None:
    for reason in Reason:
        parsed = pb.HostMessage.FromString(messages.write_refusal(Refused(reason, "why"))).refusal
        assert pb.Refusal.Reason.Name(parsed.reason) == reason.name
        assert parsed.message == "why"
