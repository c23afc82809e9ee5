"""A saved session as bytes, and what of bytes is believed before anything is made of it.

Owns the bounds of a saved session and the checks of its form. What its parts mean is restoring.py's to check.
"""

from __future__ import annotations

from collections.abc import Iterator

from farlane.backend.checkpoint.blobs import DIGEST_BYTES, PAGE
from farlane.backend.checkpoint.saving import VERSION
from farlane.backend.device.base import Window
from farlane.backend.device.saved import Blocks, Piece, SavedContext, Unsaveable
from farlane.backend.host.session import SavedReplay
from farlane.v1 import checkpoint_pb2 as pb
from google.protobuf.message import DecodeError

SESSION_BYTES = 1 << 30  # 128 GiB of memory, none of it zero
SECRET_BYTES = 32
_ADDRESSES = 1 << 63
_PIECE = 256  # pages that are written at once


def read(data: bytes) -> pb.SavedSession:
    """Raises Unsaveable: it is none that this version reads."""
    try:
        session = pb.SavedSession.FromString(data)
    except DecodeError:
        raise Unsaveable("what was saved is damaged: it is no saved session") from None
    check(session)
    return session


def check(session: pb.SavedSession) -> None:
    """Raises Unsaveable."""
    if session.version != VERSION:
        raise Unsaveable(
            f"it was saved by Farlane {session.host_version[:64] or '?'} in form {session.version}, and this one reads form {VERSION}"
        )
    if len(session.secret) != SECRET_BYTES or not session.session:
        raise _damaged("a session without a name or a secret")
    if session.replay.group < 1:
        raise _damaged("a session whose groups are not numbered")
    if any(len(digest) != DIGEST_BYTES for digest in blobs_of(session)):
        raise _damaged("a digest of another length")
    end = 0
    for run in session.pages:
        size = len(run.digests) // DIGEST_BYTES * PAGE
        if len(run.digests) % DIGEST_BYTES or not size or run.address % PAGE or not end <= run.address < _ADDRESSES:
            raise _damaged(f"pages at {run.address:#x} that are out of order")
        end = run.address + size


def _damaged(what: str) -> Unsaveable:
    return Unsaveable(f"what was saved is damaged: {what}")


def blobs_of(session: pb.SavedSession) -> Iterator[bytes]:
    """The digests that it names, pages excepted."""
    yield from session.messages.unconfirmed
    yield from (image.blob for image in session.images)
    yield from (payload.blob for payload in session.payloads)


def needed(session: pb.SavedSession) -> set[bytes]:
    """All digests that it names."""
    return {*blobs_of(session), *(digest for _, digests in pieces_of(session) for digest in digests)}


def pieces_of(session: pb.SavedSession) -> Iterator[tuple[int, list[bytes]]]:
    """Addresses, and the digests of the pages from there on."""
    for run in session.pages:
        for first in range(0, len(run.digests), _PIECE * DIGEST_BYTES):
            digests = run.digests[first : first + _PIECE * DIGEST_BYTES]
            each = [digests[at : at + DIGEST_BYTES] for at in range(0, len(digests), DIGEST_BYTES)]
            yield run.address + first // DIGEST_BYTES * PAGE, each


def context_of(session: pb.SavedSession) -> SavedContext:
    device = session.device
    heap = None
    if device.HasField("heap"):
        used, free = ([(each.start, each.end) for each in ranges] for ranges in (device.heap.blocks, device.heap.free))
        heap = Blocks(device.heap.base, device.heap.size, used, free)
    return SavedContext(
        Window(device.base, device.size),
        [(each.address, each.size) for each in device.allocations],
        {
            area.base: [Piece(part.address, part.size, part.label, part.writable) for part in area.parts]
            for area in device.areas
        },
        dict(device.limits),
        heap,
        device.workspace,
        device.launches,
        device.nanoseconds,
    )


def replay_of(session: pb.SavedSession) -> SavedReplay:
    replay = session.replay
    return SavedReplay(
        replay.group,
        replay.context if replay.HasField("context") else None,
        list(replay.records),
        [(each.template, each.columns, each.next) for each in replay.continuing],
        (replay.decided_slice, replay.decided_answer) if replay.HasField("decided_slice") else None,
    )
