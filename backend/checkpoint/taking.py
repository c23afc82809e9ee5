"""A session taken: what comes of one that was saved, in the process that makes it."""

from __future__ import annotations

from farlane.backend.checkpoint import form
from farlane.backend.checkpoint.blobs import digest_of
from farlane.backend.checkpoint.carrying import Receiver
from farlane.backend.checkpoint.restoring import Blobs
from farlane.backend.checkpoint.talk import SILENCE_SECONDS, Talk, restored_part
from farlane.backend.device.saved import Unsaveable
from farlane.v1 import checkpoint_pb2 as pb

_BESIDE_BYTES = 2 << 30  # of content that is not memory


def take(talk: Talk, quota: int, silence: float = SILENCE_SECONDS) -> tuple[pb.SavedSession, Blobs]:
    """A session and its content. Raises Unsaveable, Malformed, and what the talk raises.

    Args:
        quota: of device memory, that sessions have here.
    """
    session, blobs, receiver, size = bytearray(), dict[bytes, bytes](), Receiver(), 0
    most = 2 * quota + _BESIDE_BYTES
    while not (part := restored_part(talk.receive(silence))).end:
        if part.ask:
            talk.send(pb.RestoreReply(taken=True).SerializeToString())
        session += part.session
        size += len(part.session)
        for data in receiver.take(part.blobs):
            blobs[digest_of(data)] = data
            size += len(data)
        if size > most or len(session) > form.SESSION_BYTES:
            raise Unsaveable(f"it is larger than this host's sessions are ({most} bytes)")
    return form.read(bytes(session)), Blobs(blobs)
