"""`farlane session`: the sessions of a host, saved to a folder, restored from one, or moved to another host.

Owns the command line and its text. What a saved session is, is checkpoint/'s; the calls are checkpoint.proto's. A host
takes them by its Unix socket alone.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import queue
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar

import grpc
from farlane.backend.checkpoint import form
from farlane.backend.checkpoint.carrying import Receiver, Sender, pieces
from farlane.backend.checkpoint.folder import Folder
from farlane.backend.commands.sizes import parse_count, parse_seconds
from farlane.backend.device.saved import Unsaveable
from farlane.hosturl import HostUrlError, TcpUrl, parse, variables
from farlane.hosturl.channel import open_channel
from farlane.hosturl.description import NoAnswer, describe
from farlane.terminal.examples import add_examples, add_part
from farlane.v1 import checkpoint_pb2 as pb

ROUNDS = 3  # of memory that is sent while the session runs
_HAVE = 8192  # digests in one message
_DEFAULT = "unix:///run/farlane.sock"


class Failed(Exception):
    """What the user asked for is not done; the message says why."""


class Figures(NamedTuple):
    """Of a save."""

    pages: int  # that are not zero
    sent: int
    sent_ahead: int
    paused: float  # seconds


Reply = TypeVar("Reply", pb.SavePart, pb.RestoreReply)


class Talk(Generic[Reply]):
    """One call of a host: messages both ways."""

    def __init__(self, channel: grpc.Channel, url: str, method: str, reply: type[Reply], ticket: str = ""):
        self._url = url
        self._outgoing: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        call = channel.stream_stream(f"/farlane.v1.CheckpointService/{method}", response_deserializer=reply.FromString)
        shown = (("authorization", f"Bearer {ticket}"),) if ticket else ()
        self._call = call(iter(self._outgoing.get, None), metadata=shown)

    def send(self, message: pb.SaveRequest | pb.RestorePart) -> None:
        self._outgoing.put(message.SerializeToString())

    def reply(self, due: str) -> Reply:
        """The next one. Raises Failed: the host ends the call, or has ended it before `due`."""
        try:
            for received in self._call:
                reply: Reply = received
                return reply
        except grpc.RpcError as error:
            raise Failed(f"no answer from {self._url}: {error.details()}") from None
        raise Failed(f"the host has ended before {due}")

    def end(self) -> None:
        self._outgoing.put(None)
        self._call.cancel()


class Ticket(NamedTuple):
    """By which a host of a fleet takes a session from another one, and its guest then."""

    token: str
    certificate: bytes  # DER: what the guest is shown, where the URL is encrypted
    authority: Path | None  # which has signed it


@contextlib.contextmanager
def _talking(url: str, method: str, reply: type[Reply], ticket: Ticket | None = None) -> Iterator[Talk[Reply]]:
    named: Mapping[str, str] = os.environ
    if ticket is not None:  # what else this process has been given is not for that host
        named = {} if ticket.authority is None else {variables.CA: str(ticket.authority)}
    try:
        opened = open_channel(parse(url), [("grpc.max_receive_message_length", 16 << 20)], named)
    except HostUrlError as error:
        raise Failed(str(error)) from None
    with opened as channel:
        talk = Talk(channel, url, method, reply, "" if ticket is None else ticket.token)
        try:
            yield talk
        finally:
            talk.end()


class Saving:
    """A session as it comes from its host. Raises Failed.

    Args:
        have: digests of what need not come.
        arrive: comes back when what `content` gave so far has arrived where it goes; the session is not held before.
    """

    def __init__(
        self,
        talk: Talk[pb.SavePart],
        begin: pb.SaveRequest.Begin,
        have: set[bytes],
        arrive: Callable[[], None] = lambda: None,
    ) -> None:
        self._talk = talk
        self._arrive = arrive
        self._session = bytearray()
        self._pages = pb.SavePart.Figures()
        talk.send(pb.SaveRequest(begin=begin))
        known = sorted(have)
        for at in range(0, len(known), _HAVE):
            talk.send(pb.SaveRequest(have=b"".join(known[at : at + _HAVE])))
        talk.send(pb.SaveRequest(start=True))

    def content(self) -> Iterator[bytes]:
        """What is not there, until the session is whole."""
        receiver = Receiver()
        while True:
            part = self._talk.reply("the session was whole")
            kind = part.WhichOneof("kind")
            if kind == "refused":
                raise Failed(f"the session is not saved: {part.refused}")
            if kind == "figures":
                self._pages = part.figures
                return
            if kind == "round":
                self._arrive()
                self._talk.send(pb.SaveRequest(taken=True))
            self._session += part.session
            yield from receiver.take(part.blobs)

    def session(self) -> pb.SavedSession:
        return form.read(bytes(self._session))

    def keep(self) -> Figures:
        """It is safe here."""
        self._talk.send(pb.SaveRequest(kept=True))
        paused = self._talk.reply("it has let the session go").paused
        return Figures(self._pages.pages, self._pages.sent, self._pages.sent_ahead, paused)


def save(url: str, name: str, folder: Path, *, leave: bool, wait: float) -> Figures:
    """Raises Failed, Unsaveable."""
    kept = Folder(folder)
    with kept.written() as have, _talking(url, "Save", pb.SavePart) as talk:
        saving = Saving(talk, pb.SaveRequest.Begin(session=name, leave=leave, wait_seconds=wait), have)
        for data in saving.content():
            kept.add(data)
        try:
            kept.finish(saving.session())
        except OSError as error:
            raise Failed(f"cannot write to {folder}: {error.strerror}") from None
        return saving.keep()


def restore(url: str, folder: Path) -> str:
    """Gives the session's name at the host. Raises Failed, Unsaveable."""
    kept = Folder(folder)
    session = kept.session()
    with _talking(url, "Restore", pb.RestoreReply) as talk:
        sender = Sender(lambda blobs: talk.send(pb.RestorePart(blobs=blobs)))
        for data in kept.content(form.needed(session)):
            sender.add(data)
        return _finish(talk, sender, session)


def move(
    url: str, name: str, to: str, *, wait: float, rounds: int = ROUNDS, guests: str, ticket: Ticket | None = None
) -> tuple[str, Figures, float]:
    """Gives the session's name at the other host, and how long all of it took. Raises Failed, Unsaveable.

    Args:
        ticket: where that is a host of a fleet, and `to` where its guests come.
    """
    began = time.monotonic()
    with _talking(to, "Restore", pb.RestoreReply, ticket) as there, _talking(url, "Save", pb.SavePart) as here:
        begin = pb.SaveRequest.Begin(session=name, leave=True, wait_seconds=wait, rounds=rounds, to=guests)
        if ticket is not None:
            begin.token, begin.certificate = ticket.token, ticket.certificate
        sender = Sender(lambda blobs: there.send(pb.RestorePart(blobs=blobs)))

        def arrive() -> None:
            sender.flush()
            there.send(pb.RestorePart(ask=True))
            _answer(there)

        saving = Saving(here, begin, set(), arrive)
        for data in saving.content():
            sender.add(data)
        found = _finish(there, sender, saving.session())
        return found, saving.keep(), time.monotonic() - began


def _finish(talk: Talk[pb.RestoreReply], sender: Sender, session: pb.SavedSession) -> str:
    sender.flush()
    for piece in pieces(session.SerializeToString()):
        talk.send(pb.RestorePart(session=piece))
    talk.send(pb.RestorePart(end=True))
    return str(_answer(talk).session)


def _answer(talk: Talk[pb.RestoreReply]) -> pb.RestoreReply:
    reply = talk.reply("it had the session")
    if reply.WhichOneof("kind") == "refused":
        raise Failed(f"the session is not restored: {reply.refused}")
    return reply


class SessionCommand:
    """Lists, saves, restores and moves sessions."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        add_examples(
            parser,
            ("farlane session list", "list the sessions of the host of this machine"),
            ("farlane session save s1 /backup/s1", "save a session, which goes on"),
            ("farlane session restore /backup/s1", "go on with it at a host that is there"),
            (
                "farlane session move s1 --to unix:///run/b.sock --guests grpc://b:7070",
                "move it to another host, where its guest then finds it",
            ),
        )
        parts = parser.add_subparsers(dest="part", required=True, metavar="PART")
        listing = add_part(
            parts,
            "list",
            "list the sessions that are open",
            ("farlane session list", "list the sessions of the host of this machine"),
        )
        saving = add_part(
            parts,
            "save",
            "save a session to a folder; what is there of it already is not written again",
            ("farlane session save s1 /backup/s1", "save the session s1, which goes on"),
            (
                "farlane session save s1 /backup/s1 --leave",
                "save it and end it here: its guest waits until it is restored",
            ),
        )
        restoring = add_part(
            parts,
            "restore",
            "restore a session from a folder; its guest comes to it by itself",
            ("farlane session restore /backup/s1 --host unix:///run/farlane.sock", "restore it at this host"),
        )
        moving = add_part(
            parts,
            "move",
            "move a session to another host, while its program runs",
            (
                "farlane session move s1 --to unix:///run/b.sock --guests grpc://b:7070",
                "move it; the other host's socket may come from another machine by ssh -L",
            ),
        )
        for part in (listing, saving, restoring, moving):
            part.add_argument(
                "--host", default=_DEFAULT, metavar="URL", help="a Unix socket of the host (default: %(default)s)"
            )
        for part in (saving, moving):
            part.add_argument("session", metavar="SESSION", help="its name, as `list` shows it")
        saving.add_argument("folder", type=Path, metavar="FOLDER", help="where it is saved")
        saving.add_argument(
            "--leave",
            action="store_true",
            help="the session ends at this host, and its guest waits for as long as --grace",
        )
        for part in (saving, moving):
            part.add_argument(
                "--wait",
                type=parse_seconds,
                default=10.0,
                metavar="SECONDS",
                help="how long its work may take to come to the end of a group (default: 10)",
            )
        moving.add_argument("--to", required=True, metavar="URL", help="a Unix socket of the other host")
        moving.add_argument(
            "--guests",
            required=True,
            metavar="URL",
            help="where guests reach the other host, of the kind that they come by",
        )
        moving.add_argument(
            "--rounds",
            type=parse_count,
            default=ROUNDS,
            metavar="N",
            help="how often memory is sent while the session still runs, what has changed alone (default: %(default)s)",
        )
        restoring.add_argument("folder", type=Path, metavar="FOLDER", help="where it was saved")

    def run(self, arguments: argparse.Namespace) -> int:
        try:
            if arguments.part == "list":
                self._list(arguments.host)
            elif arguments.part == "save":
                figures = save(
                    arguments.host, arguments.session, arguments.folder, leave=arguments.leave, wait=arguments.wait
                )
                print(
                    f"session {arguments.session} is saved: {figures.pages} pages, {figures.sent} of them written; "
                    f"it was held for {figures.paused:.3f} s"
                )
            elif arguments.part == "move":
                self._move(arguments)
            else:
                print(f"session {restore(arguments.host, arguments.folder)} is restored, and waits for its guest")
        except (Failed, Unsaveable, NoAnswer, HostUrlError) as error:
            print(f"farlane: {error}", file=sys.stderr)
            return 1
        return 0

    @staticmethod
    def _move(arguments: argparse.Namespace) -> None:
        guests = parse(arguments.guests)
        if not isinstance(guests, TcpUrl):
            raise Failed(f"--guests {guests}: a session that comes by a socket file cannot come again")
        name, figures, seconds = move(
            arguments.host,
            arguments.session,
            arguments.to,
            wait=arguments.wait,
            rounds=arguments.rounds,
            guests=str(guests),
        )
        print(
            f"session {arguments.session} is {name} at {arguments.to} now: {figures.pages} pages, {figures.sent} sent, "
            f"{figures.sent_ahead} of them while it ran; it was held for {figures.paused:.3f} of {seconds:.3f} s"
        )

    @staticmethod
    def _list(url: str) -> None:
        print(f"{'SESSION':<10} {'PID':>8} {'MEMORY':>14} {'SECONDS':>9}  PROGRAM")
        for each in describe(parse(url)).open:
            print(f"{each.name:<10} {each.pid:>8} {each.memory_used:>14} {each.seconds:>9.1f}  {each.program}")


command = SessionCommand()
