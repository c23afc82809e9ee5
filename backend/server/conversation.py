"""A session's messages from its first to its last, whatever ends them.

Owns how a session ends: Goodbye, the end of the stream, a broken one, a guest that breaks the protocol, an exception of
ours, a session that leaves the host. Where it has a process of its own, that has the messages, and the host waits for its end.
"""

from __future__ import annotations

import enum
import logging
from collections.abc import Callable

from farlane.backend.checkpoint.pausing import Left, Pausing
from farlane.backend.errors import DeadTransport, ProtocolError
from farlane.backend.host.accounts import How
from farlane.backend.host.host import Admission
from farlane.backend.host.manifests import Objects
from farlane.backend.host.remote import Ended, RemoteSession
from farlane.backend.host.session import Session
from farlane.backend.plane import Call, CallGone, MessageRefused, Paused, Tape
from farlane.backend.server import messages

log = logging.getLogger("farlane.server")

LEAVING_SECONDS = 10.0  # for a session's process to say how it ended, once the guest has said its last word


class Status(enum.IntEnum):
    """The gRPC status codes in use."""

    OK = 0
    PERMISSION_DENIED = 7
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14
    UNAUTHENTICATED = 16


PROCESSES = "this host gives each session a process of its own, to which a guest must connect anew"
UPGRADE = "the guest's Farlane is too old for that: upgrade it, or start the host with --workers thread"
FAILED = Ended(Status.INTERNAL, "internal error of the host", "the host failed", How.FAILED)
_GOODBYE = "goodbye"


def message_of(data: Tape | bytes) -> Tape | messages.GuestMessage:
    """What a guest sent: the plane has read what is a plain Tape."""
    return messages.read_guest(data) if isinstance(data, bytes) else data


def hold(name: str, talk: Callable[[], str]) -> Ended:
    """Has a session's messages taken until they end, however they do; never raises.

    Args:
        talk: takes them, and gives how the guest has ended the session.
    """
    try:
        why = talk()
        return Ended(Status.OK, "", why, How.GOODBYE if why == _GOODBYE else How.LEFT)
    except Left:
        return Ended(Status.OK, "", "it was saved, and goes on elsewhere", How.MOVED)
    except (CallGone, DeadTransport) as error:
        return Ended(Status.INTERNAL, "", str(error), How.GONE)
    except MessageRefused as refused:
        status, details = refused.args
        return Ended(status, details, f"the guest broke the protocol: {details}", How.PROTOCOL)
    except ProtocolError as error:
        log.error("session %s: the guest broke the protocol: %s", name, error)
        why = f"the guest broke the protocol: {error}"
        return Ended(Status.INTERNAL, f"session {name} is ended: {error}", why, How.PROTOCOL)
    except Exception:
        log.exception("session %s: the host failed", name)
        return FAILED._replace(details=f"session {name} is ended: internal error of the host")


def attend(session: RemoteSession, objects: Objects | None, call: Call) -> Ended:
    """The call of a session in a process of its own: it lasts as long as the session, and says how that ended."""

    def wait() -> str:
        session.attend(call.wake, objects)
        while session.ended is None:
            try:
                data = call.receive()
            except TimeoutError:  # it has been woken
                continue
            if data is None:
                session.wait(LEAVING_SECONDS)  # its last messages may be on their way to the process
                return "the guest ended the stream"
            if isinstance(message_of(data), messages.Goodbye):
                return _GOODBYE
            raise ProtocolError(f"{PROCESSES}, and this message came to the host instead; {UPGRADE}")
        return ""

    ended = hold(session.name, wait)
    if session.ended is not None:
        return session.ended
    session.interrupt()
    return ended


def converse(admission: Admission, call: Call, pausing: Pausing | None = None) -> str:
    """Tapes and replies, until the guest has ended them; gives how it did. Raises Left."""
    session = admission.session
    assert isinstance(session, Session)
    while True:
        try:
            data = session.converse(call)
        except Paused:
            assert pausing is not None
            pausing.pause()
            continue
        if data is None:
            break
        message = messages.read_guest(data)
        if isinstance(message, messages.TapePart):
            for reply in session.submit(*message):
                call.send(reply)
        elif isinstance(message, messages.ObjectPart):
            if admission.manifests is not None:
                admission.manifests.part(*message)
        elif isinstance(message, messages.Goodbye):
            return _GOODBYE
        else:
            raise ProtocolError(
                message.why if isinstance(message, messages.Malformed) else "a second Hello in one session"
            )
    return "the guest ended the stream without a Goodbye"
