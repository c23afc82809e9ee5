"""The gRPC services: one method that is a session's whole life, one that describes the host.

Owns the order of messages on a session's stream, and the session's end however it comes: Goodbye, the end of the stream, a cancelled
or broken one, a guest that breaks the protocol, an exception of ours. Knows gRPC and `Host`; what a session does is `Session`'s.

The thread that waits for a session's messages also replays them: one thread per session, no hand-off between receiving and
replaying, because on the path of a small round trip each hand-off between Python threads costs tens of microseconds
(benchmarks/host_round_trip.py compares).
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator

import grpc
from farlane.backend.errors import ProtocolError
from farlane.backend.host import TAPE_VERSION_MAX, TAPE_VERSION_MIN, Greeting, Host, Reason, Refused, version
from farlane.backend.server import messages
from farlane.backend.session import Session
from farlane.v1 import admin_pb2

log = logging.getLogger("farlane.server")

HELLO_SECONDS = 10.0  # a connection that says nothing for so long is closed


class Sessions:
    """SessionService."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def open(self, requests: Iterator[messages.GuestMessage], context: grpc.ServicerContext) -> Iterator[bytes]:
        first = self._first(requests, context)
        if first is None:
            return
        try:
            if not isinstance(first, Greeting):
                why = first.why if isinstance(first, messages.Malformed) else type(first).__name__
                raise Refused(Reason.MALFORMED, f"the first message of a session must be a Hello, not {why}")
            admission = self._host.admit(first)
        except Refused as refused:
            log.warning("a session of %s is refused: %s", context.peer(), refused.message)
            yield messages.write_refusal(refused)
            return
        session, why = admission.session, "the guest is gone"
        # Called by another thread as soon as the stream is over: a kernel that runs for nobody need not end by itself.
        if not context.add_callback(session.interrupt):
            self._end(session, why)
            return
        try:
            yield messages.write_welcome(admission)
            for message in requests:
                if isinstance(message, messages.TapePart):
                    for reply in session.submit(*message):
                        yield messages.write_reply(reply)
                elif isinstance(message, messages.Goodbye):
                    why = "goodbye"
                    return
                else:
                    raise ProtocolError(
                        message.why if isinstance(message, messages.Malformed) else "a second Hello in one session"
                    )
            why = "the guest ended the stream without a Goodbye"
        except ProtocolError as error:
            why = f"the guest broke the protocol: {error}"
            log.error("session %s: %s", session.name, why)
            self._end(session, why)
            context.abort(grpc.StatusCode.INTERNAL, f"session {session.name} is ended: {error}")
        except grpc.RpcError:
            pass  # the stream was cancelled or broke; `requests` says so with this exception
        except Exception as error:
            why = f"the host failed: {error!r}"
            log.exception("session %s: the host failed", session.name)
            self._end(session, why)
            context.abort(grpc.StatusCode.INTERNAL, f"session {session.name} is ended: internal error of the host")
        finally:
            self._end(session, why)

    def _end(self, session: Session, why: str) -> None:
        self._host.end(session, why)

    def _first(
        self, requests: Iterator[messages.GuestMessage], context: grpc.ServicerContext
    ) -> messages.GuestMessage | None:
        """The first message; None when none comes."""
        timer = threading.Timer(HELLO_SECONDS, context.cancel)
        timer.daemon = True
        timer.start()
        try:
            return next(requests)
        except (StopIteration, grpc.RpcError):
            return None
        finally:
            timer.cancel()

    def handler(self) -> grpc.GenericRpcHandler:
        return grpc.method_handlers_generic_handler(
            "farlane.v1.SessionService",
            {
                "Open": grpc.stream_stream_rpc_method_handler(
                    self.open, request_deserializer=messages.read_guest, response_serializer=None
                )
            },
        )


class Admin:
    """AdminService."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def describe(self, request: admin_pb2.DescribeRequest, context: grpc.ServicerContext) -> admin_pb2.DescribeReply:
        host = self._host
        return admin_pb2.DescribeReply(
            host_version=version(),
            tape_version_min=TAPE_VERSION_MIN,
            tape_version_max=TAPE_VERSION_MAX,
            devices=messages.describe([host.description]),
            sessions=host.sessions,
            session_limit=host.session_limit,
            uptime_seconds=host.uptime,
        )

    def handler(self) -> grpc.GenericRpcHandler:
        return grpc.method_handlers_generic_handler(
            "farlane.v1.AdminService",
            {
                "Describe": grpc.unary_unary_rpc_method_handler(
                    self.describe,
                    request_deserializer=admin_pb2.DescribeRequest.FromString,
                    response_serializer=admin_pb2.DescribeReply.SerializeToString,
                )
            },
        )
