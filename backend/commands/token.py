"""`farlane token`: the guests of a host that other machines use.

Owns the command line and its text. What a token is, and where it is kept, is security/tokens.py's.
"""

from __future__ import annotations

import argparse
import datetime
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from farlane.backend.commands.host import add_folder, days, folder_of
from farlane.backend.commands.sizes import parse_bytes, parse_share, parse_weight
from farlane.backend.device import registry
from farlane.backend.host.allowances import NOTHING, Used
from farlane.backend.host.fairness import DEFAULT_WEIGHT
from farlane.backend.security import certificates, tokens, usage
from farlane.backend.security.folder import Folder, SecurityError, write
from farlane.terminal.examples import add_examples, add_part

DAY_SECONDS = 86400
CERTIFICATE_DAYS = 397
_TOGETHER = {
    "--total-memory": "device memory",
    "--payloads": "data that the host keeps so that it need not be sent again",
    "--images": "kernels' images",
}


def _number(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive number")
    return int(text)


def _devices(text: str) -> tuple[str, ...]:
    names = tuple(each.strip() for each in text.split(","))
    if unknown := [each for each in names if each not in registry.names()]:
        raise argparse.ArgumentTypeError(f"there is no device {unknown[0]!r}: {', '.join(registry.names())}")
    return names


def _state(entry: tokens.Entry, now: float) -> str:
    if entry.revoked is not None:
        return "revoked"
    return "expired" if entry.expires is not None and entry.expires <= now else "valid"


def _of(used: int, limit: int | None) -> str:
    """What is used, and what may be."""
    return f"{used}/{'-' if limit is None else limit}"


def _row(entry: tokens.Entry, used: Used, now: float) -> tuple[str, ...]:
    until = "-" if entry.expires is None else datetime.datetime.fromtimestamp(entry.expires).strftime("%Y-%m-%d")
    return (
        entry.name,
        entry.kind,
        _state(entry, now),
        until,
        _of(used.sessions, entry.sessions),
        "-" if entry.memory is None else str(entry.memory),
        _of(used.memory, entry.total_memory),
        _of(used.payloads, entry.payloads),
        _of(used.images, entry.images),
        str(entry.priority),
        str(entry.weight),
        "-" if entry.share is None else f"{100 * entry.share:g}%",
        ",".join(entry.devices) or "all",
    )


HEADER = (
    "NAME", "KIND", "STATE", "EXPIRES", "SESSIONS", "SESSION BYTES", "MEMORY", "PAYLOADS", "IMAGES", "PRIORITY", "WEIGHT",
    "SHARE", "DEVICES",
)  # fmt: skip


def _table(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ("  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)) for row in rows)
    return "\n".join(line.rstrip() for line in lines)


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
        for option, what in _TOGETHER.items():
            create.add_argument(option, type=parse_bytes, metavar="BYTES", help=f"{what} of all its sessions together")
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
        add_folder(
            add_part(
                parts,
                "list",
                "show the tokens, what each may use and does use; none can be read from the host again",
                show,
            )
        )
        revoke = add_part(parts, "revoke", "refuse a token from now on, and end its sessions", end)
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
                now, used = time.time(), usage.read(folder)
                print(
                    _table([HEADER, *(_row(each, used.get(each.name, NOTHING), now) for each in tokens.read(folder))])
                )
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
            total_memory=arguments.total_memory,
            payloads=arguments.payloads,
            images=arguments.images,
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
