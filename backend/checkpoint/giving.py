"""A session given away: the host's side of a Save, in the process that has the session.

Owns the order of messages. Memory is sent ahead while the session runs; then the session is held until the other side
has everything. A caller that goes away leaves the session as it was.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from farlane.backend.checkpoint.blobs import Offers, Reader
from farlane.backend.checkpoint.carrying import Sender, pieces
from farlane.backend.checkpoint.pausing import Pausing
from farlane.backend.checkpoint.saving import capture, send_ahead
from farlane.backend.checkpoint.talk import ROUND_SECONDS, Talk, digests, request
from farlane.backend.device.saved import Unsaveable
from farlane.backend.host.session import Session
from farlane.backend.plane import Call
from farlane.v1 import checkpoint_pb2 as pb

_ROUNDS = 16  # of memory that is sent ahead, at most


class Source(NamedTuple):
    """A session that is given away."""

    session: Session
    call: Call
    pausing: Pausing


def give(
    talk: Talk,
    begin: pb.SaveRequest.Begin,
    source: Source,
    complete: Callable[[pb.SavedSession], None] = lambda saved: None,
    leave: Callable[[], None] = lambda: None,
) -> None:
    """Everything behind `begin`. Raises Malformed, and what the talk raises.

    Args:
        complete: adds whose session it is.
        leave: is called when the other side has everything, and the session leaves.
    """
    known: list[bytes] = []
    while (asked := request(talk, "have", "start")).WhichOneof("kind") == "have":
        known += digests(asked.have)
    try:
        paused = _send(talk, begin, source, known, complete, leave)
    except Unsaveable as error:
        talk.send(pb.SavePart(refused=str(error)).SerializeToString())
    else:
        talk.send(pb.SavePart(paused=paused).SerializeToString())


def _send(
    talk: Talk,
    begin: pb.SaveRequest.Begin,
    source: Source,
    known: list[bytes],
    complete: Callable[[pb.SavedSession], None],
    leave: Callable[[], None],
) -> float:
    """Gives for how long the session was held. Raises Unsaveable."""
    session, call, pausing = source
    sender = Sender(lambda blobs: talk.send(pb.SavePart(blobs=blobs).SerializeToString()))
    offers = Offers(sender.add, known)
    rounds = min(begin.rounds, _ROUNDS) if session.resources.context.reads_ahead else 0
    reader = Reader(offers, keeps=rounds > 0)
    for _ in range(rounds):
        before = offers.pages
        send_ahead(session, reader)
        sender.flush()
        if offers.pages == before:
            break
        talk.send(pb.SavePart(round=True).SerializeToString())
        request(talk, "taken", seconds=ROUND_SECONDS)
    ahead = offers.pages
    with pausing.held(begin.wait_seconds):
        captured = capture(session, call, offers, reader)
        sender.flush()
        complete(captured.session)
        for piece in pieces(captured.session.SerializeToString()):
            talk.send(pb.SavePart(session=piece).SerializeToString())
        figures = pb.SavePart.Figures(pages=captured.pages, sent=offers.pages, sent_ahead=ahead)
        talk.send(pb.SavePart(figures=figures).SerializeToString())
        if begin.leave:
            request(talk, "kept")
            leave()
            pausing.leave()
    return pausing.seconds
