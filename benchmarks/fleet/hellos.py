"""Guests that say Hello to a gateway at the same time, and for how long each waits for its answer.

Owns the bytes: one request of HTTP/2 for each guest, on a connection of its own, written at once. A gRPC library would use more
processor time for a guest than a gateway does, and on two processors it would be the library that is measured.

Source: RFC 9113 (frames), RFC 7541 (header fields without an index), protos/tape.md.
"""

from __future__ import annotations

import contextlib
import selectors
import socket
import time

from farlane.v1 import session_pb2 as pb

_DATA, _HEADERS, _SETTINGS = 0, 1, 4
_END_HEADERS = 4
_FRAME_HEAD, _MESSAGE_HEAD = 9, 5
_HELLO = pb.GuestMessage(
    hello=pb.Hello(tape_version_min=1, tape_version_max=6, program="t", mode="calls", follows=True)
).SerializeToString()
_FIELDS = {
    ":method": "POST",
    ":scheme": "http",
    ":path": "/farlane.v1.SessionService/Open",
    ":authority": "gateway",
    "te": "trailers",
    "content-type": "application/grpc",
}


def _frame(kind: int, flags: int, stream: int, body: bytes) -> bytes:
    return len(body).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + body


def _text(text: str) -> bytes:
    return bytes([len(text)]) + text.encode()


PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + _frame(_SETTINGS, 0, 0, b"")
REQUEST = _frame(
    _HEADERS, _END_HEADERS, 1, b"".join(b"\0" + _text(name) + _text(value) for name, value in _FIELDS.items())
) + _frame(_DATA, 0, 1, b"\0" + len(_HELLO).to_bytes(4, "big") + _HELLO)


class _Guest:
    def __init__(self, host: str, port: int) -> None:
        self.socket = socket.create_connection((host, port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.sendall(PREFACE)
        self._came = self.socket.recv(4096)  # the gateway's settings: it has taken the connection

    def say(self) -> None:
        self.began = time.perf_counter()
        self.socket.sendall(REQUEST)

    def hear(self) -> pb.HostMessage | None:
        """The answer, once it is there."""
        more = self.socket.recv(65536)
        if not more:
            raise SystemExit("the gateway has closed a guest's connection")
        self._came += more
        while len(self._came) >= _FRAME_HEAD:
            end = _FRAME_HEAD + int.from_bytes(self._came[:3], "big")
            if len(self._came) < end:
                break
            kind, body, self._came = self._came[3], self._came[_FRAME_HEAD:end], self._came[end:]
            if kind == _DATA and body:
                return pb.HostMessage.FromString(body[_MESSAGE_HEAD:])
        return None


def say_all(url: str, at_once: int) -> list[float]:
    """Seconds from each Hello to its answer; all are said at the same time."""
    host, _, port = url.removeprefix("grpc://").rpartition(":")
    seconds = []
    with contextlib.ExitStack() as opened, selectors.DefaultSelector() as selector:
        guests = [_Guest(host, int(port)) for _ in range(at_once)]
        for guest in guests:
            opened.enter_context(guest.socket)
            selector.register(guest.socket, selectors.EVENT_READ, guest)
        for guest in guests:
            guest.say()
        while len(seconds) < at_once:
            for key, _ in selector.select():
                answer = key.data.hear()
                if answer is not None:
                    assert answer.WhichOneof("kind") == "elsewhere", answer
                    seconds.append(time.perf_counter() - key.data.began)
                    selector.unregister(key.fileobj)
    return seconds
