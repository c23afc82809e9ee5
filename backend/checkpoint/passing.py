"""A session of a process of its own, saved and restored: the host passes the messages on between its caller and the process.

Owns what the host adds and believes: the process runs what a guest wants, so whose session it is, and what it may have, the host says.
"""

from __future__ import annotations

from collections.abc import Callable

from farlane.backend.checkpoint import form
from farlane.backend.checkpoint.carrying import pieces
from farlane.backend.checkpoint.talk import ROUND_SECONDS, SILENCE_SECONDS, Malformed, Talk, request, restored_part
from farlane.backend.device.saved import Unsaveable
from farlane.v1 import checkpoint_pb2 as pb
from google.protobuf.message import DecodeError


def pass_save(
    caller: Talk,
    process: Talk,
    begin: pb.SaveRequest.Begin,
    complete: Callable[[pb.SavedSession], None],
    leave: Callable[[], None],
) -> float:
    """Everything behind `begin`, as `giving.give`. Gives for how long the session was held.

    Raises:
        Unsaveable: it is not saved, or the process says what is no session.
        Malformed, and what both talks raise.
    """
    process.send(pb.SaveRequest(begin=begin).SerializeToString())
    while (asked := request(caller, "have", "start")).WhichOneof("kind") == "have":
        process.send(asked.SerializeToString())
    process.send(asked.SerializeToString())
    session = bytearray()
    while True:
        data = process.receive(ROUND_SECONDS)
        try:
            part = pb.SavePart.FromString(data)
        except DecodeError:
            raise Unsaveable("its process says what is no part of a session") from None
        match part.WhichOneof("kind"):
            case "session":
                session += part.session
                if len(session) > form.SESSION_BYTES:
                    raise Unsaveable("its process says more than a session is")
            case "figures":
                _send_session(caller, bytes(session), complete)
                caller.send(data)
                if begin.leave:
                    kept = request(caller, "kept")
                    leave()
                    process.send(kept.SerializeToString())
            case "round":
                caller.send(data)
                process.send(request(caller, "taken", seconds=ROUND_SECONDS).SerializeToString())
            case "blobs":
                caller.send(data)
            case "refused":
                raise Unsaveable(part.refused[:1024])
            case "paused":
                caller.send(data)
                return part.paused
            case _:
                raise Unsaveable("its process says what is no part of a session")


def _send_session(caller: Talk, data: bytes, complete: Callable[[pb.SavedSession], None]) -> None:
    """Raises Unsaveable."""
    try:
        saved = pb.SavedSession.FromString(data)
    except DecodeError:
        raise Unsaveable("its process says what is no session") from None
    complete(saved)
    for piece in pieces(saved.SerializeToString()):
        caller.send(pb.SavePart(session=piece).SerializeToString())


def pass_restore(caller: Talk, process: Talk, check: Callable[[pb.SavedSession], None]) -> pb.SavedSession:
    """What comes of a session goes to its process; the session, whose pages this process need not know.

    Args:
        check: raises Unsaveable: it is not for this host. The process then does not make it.

    Raises:
        Unsaveable, Malformed, and what both talks raise.
    """
    session = bytearray()
    while True:
        data = caller.receive(SILENCE_SECONDS)
        part = restored_part(data)
        if part.end:
            saved = form.read(bytes(session))
            check(saved)
            process.send(data)
            del saved.pages[:]
            return saved
        session += part.session
        if len(session) > form.SESSION_BYTES:
            raise Unsaveable("it is larger than sessions are")
        process.send(data)
        if part.ask:
            caller.send(_taken(process))


def _taken(process: Talk) -> bytes:
    data = process.receive(ROUND_SECONDS)
    if not pb.RestoreReply.FromString(data).taken:
        raise Malformed("another answer than `taken`")
    return data
