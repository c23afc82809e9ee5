"""`farlane token`: the guests of a host that other machines use.

Owns the command line and its text. What a token is, and where it is kept, is security/tokens.py's.
"""

from __future__ import annotations

import argparse
import datetime
import sys
import time
from pathlib import Path

from farlane.backend.commands.host import add_folder, days, folder_of
from farlane.backend.commands.sizes import parse_bytes, parse_share, parse_weight
from farlane.backend.device import registry
from farlane.backend.host.fairness import DEFAULT_WEIGHT
from farlane.backend.security import certificates, tokens
from farlane.backend.security.folder import Folder, SecurityError, write
from farlane.terminal.examples import add_examples, add_part

DAY_SECONDS = 86400
CERTIFICATE_DAYS = 397


def _number(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive number")
    return int(text)


def _devices(text: str) -> tuple[str, ...]:
    names = tuple(each.strip() for each in text.split(","))
    if unknown := [each for each in names if each not in registry.names()]:
        raise argparse.ArgumentTypeError(f"there is no device {unknown[0]!r}: {', '.join(registry.names())}")
    return names


def _line(entry: tokens.Entry, now: float) -> str:
    state = "valid"
    if entry.revoked is not None:
        state = "revoked"
    elif entry.expires is not None and entry.expires <= now:
        state = "expired"
    until = "-" if entry.expires is None else datetime.datetime.fromtimestamp(entry.expires).strftime("%Y-%m-%d")
    memory = "-" if entry.memory is None else str(entry.memory)
    sessions = "-" if entry.sessions is None else str(entry.sessions)
    share = "-" if entry.share is None else f"{100 * entry.share:g}%"
    devices = ",".join(entry.devices) or "all"
    return (
        f"{entry.name:<20} {entry.kind:<12} {state:<8} {until:<11} {memory:>14} {sessions:>9} {entry.priority:>9} "
        f"{entry.weight:>7} {share:>6}  "
        f"{devices}"
    )


HEADER = (
    f"{'NAME':<20} {'KIND':<12} {'STATE':<8} {'EXPIRES':<11} {'SESSION BYTES':>14} {'SESSIONS':>9} {'PRIORITY':>9} "
    f"{'WEIGHT':>7} {'SHARE':>6}  DEVICES"
)


class TokenCommand:
    """Creates, lists and revokes."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        make = ("farlane token create alice", "make a token for alice's guests, and print it")
        show = ("farlane token list", "list the tokens and their limits")
        end = ("farlane token revoke alice", "let alice's guests open no more sessions")
        add_examples(parser, make, show, end)
        parts = parser.add_subparsers(dest="part", metavar="create|list|revoke", required=True)
        create = add_part(
            parts,
            "create",
            "make a token and print it, once",
            make,
            (
                "farlane token create ci --days 30 --quota 2G --sessions 4",
                "with limits: days, device memory, sessions at once",
            ),
            ("farlane token create bob --certificate bob", "make a client certificate in place of a token"),
        )
        create.add_argument("name", metavar="NAME", help="who it is for, as the audit log shows")
        create.add_argument(
            "--days", type=days, metavar="N", help="how long it is valid (default: until it is revoked)"
        )
        create.add_argument("--quota", type=parse_bytes, metavar="BYTES", help="device memory of each of its sessions")
        create.add_argument("--sessions", type=_number, metavar="N", help="its sessions at once")
        create.add_argument(
            "--priority",
            type=int,
            default=0,
            metavar="N",
            help="the highest priority of its sessions, 0 to 9 (default: 0)",
        )
        create.add_argument(
            "--weight",
            type=parse_weight,
            default=DEFAULT_WEIGHT,
            metavar="N",
            help="of each of its sessions: twice the weight has twice the device's time (default: 1)",
        )
        create.add_argument(
            "--share",
            type=parse_share,
            metavar="PERCENT",
            help="the part of the device's time that its sessions may use together, for example 25%% (default: all)",
        )
        create.add_argument(
            "--devices", type=_devices, default=(), metavar="NAME[,NAME]", help="what it may use (default: all)"
        )
        create.add_argument(
            "--certificate",
            metavar="FILE",
            help="make a client certificate in place of a token: FILE.pem and FILE.key, for FARLANE_CERTIFICATE and "
            "FARLANE_KEY",
        )
        add_folder(create)
        add_folder(add_part(parts, "list", "show the tokens; none can be read from the host again", show))
        revoke = add_part(parts, "revoke", "refuse a token from now on; sessions that are open go on", end)
        revoke.add_argument("name", metavar="NAME", help="whose token, as `farlane token list` shows")
        add_folder(revoke)

    def run(self, arguments: argparse.Namespace) -> int:
        folder = folder_of(arguments)
        try:
            folder.require_private()
            if arguments.part == "create":
                self._create(folder, arguments)
            elif arguments.part == "revoke":
                tokens.revoke(folder, arguments.name)
                print(f"{arguments.name} is revoked")
            else:
                now = time.time()
                print("\n".join([HEADER, *(_line(each, now) for each in tokens.read(folder))]))
        except SecurityError as error:
            print(f"farlane: {error}", file=sys.stderr)
            return 1
        return 0

    def _create(self, folder: Folder, arguments: argparse.Namespace) -> None:
        now = time.time()
        lasts = arguments.days
        if arguments.certificate:
            lasts = lasts or CERTIFICATE_DAYS
            pem, key, der = certificates.create_guest(folder, arguments.name, lasts)
            kind, digest = "certificate", tokens.digest_of(der)
        else:
            token = tokens.new_token()
            kind, digest = "token", tokens.digest_of(token.encode())
        entry = tokens.Entry(
            arguments.name,
            digest,
            kind,
            now,
            expires=None if lasts is None else now + lasts * DAY_SECONDS,
            memory=arguments.quota,
            sessions=arguments.sessions,
            priority=arguments.priority,
            devices=arguments.devices,
            weight=arguments.weight,
            share=arguments.share,
        )
        tokens.create(folder, entry)
        if not arguments.certificate:
            print(token)
            return
        base = Path(arguments.certificate)
        files = base.with_name(base.name + ".pem"), base.with_name(base.name + ".key")
        write(files[1], key)
        write(files[0], pem, 0o644)
        print(f"{files[0]} and {files[1]}: for FARLANE_CERTIFICATE and FARLANE_KEY")


command = TokenCommand()
