"""`farlane host`: what a host needs before other machines may use it.

Owns the command line. The files are security/folder.py's, the certificates security/certificates.py's.
"""

from __future__ import annotations

import argparse
import os
import socket
import sys
import time
from pathlib import Path

from farlane.backend.security import certificates, tokens
from farlane.backend.security.folder import Folder, SecurityError, default_folder, write
from farlane.hosturl import PORT, TLS
from farlane.terminal.examples import add_examples, add_part

FIRST_TOKEN = "first"


def folder_of(arguments: argparse.Namespace) -> Folder:
    return Folder(Path(arguments.folder)) if arguments.folder else default_folder(os.environ)


def add_folder(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--folder", metavar="FOLDER", help="the host's private folder (default: ~/.config/farlane/host)"
    )


def days(text: str) -> int:
    """Raises ArgumentTypeError."""
    if not text.isdecimal() or not 1 <= int(text) <= 36500:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of days")
    return int(text)


def _default_names() -> list[str]:
    """What guests may call this machine, as far as it knows."""
    return list(dict.fromkeys([socket.gethostname(), "localhost", "127.0.0.1", "::1"]))


class HostCommand:
    """Sets a host up."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        init = (
            "farlane host init --name gpu-host",
            "make certificates for a host that guests call gpu-host, and a first token",
        )
        renew = ("farlane host renew", "make a new certificate before the old one expires")
        add_examples(parser, init, renew)
        parts = parser.add_subparsers(dest="part", metavar="init|renew", required=True)
        summaries = {
            "init": "make a private folder: a certificate authority, the host's certificate, a first token",
            "renew": "make a new certificate for the host, by the same authority: guests notice nothing",
        }
        examples = {
            "init": (init, ("farlane host init --token-file token", "write the token to a file, and do not show it")),
            "renew": (renew, ("farlane host renew --name other-name", "add a name by which guests may call the host")),
        }
        for name, summary in summaries.items():
            part = add_part(parts, name, summary, *examples[name])
            add_folder(part)
            part.add_argument(
                "--name",
                action="append",
                default=[],
                metavar="NAME",
                help="a name or address by which guests connect; may be repeated (default: this machine's name, localhost)",
            )
            if name == "init":
                part.add_argument(
                    "--token-file", metavar="FILE", help="write the first token there, and do not show it"
                )
            part.add_argument(
                "--days",
                type=days,
                default=certificates.HOST_DAYS,
                metavar="N",
                help=f"how long the certificate is valid (default: {certificates.HOST_DAYS})",
            )

    def run(self, arguments: argparse.Namespace) -> int:
        folder = folder_of(arguments)
        try:
            if arguments.part == "init":
                self._init(folder, arguments)
            else:
                self._renew(folder, arguments)
        except SecurityError as error:
            print(f"farlane: {error}", file=sys.stderr)
            return 1
        return 0

    def _init(self, folder: Folder, arguments: argparse.Namespace) -> None:
        names = list(dict.fromkeys([*arguments.name, *_default_names()]))
        folder.create()
        certificates.create_authority(folder)
        certificates.create_host(folder, names, arguments.days)
        tokens.initialize(folder)
        token = tokens.new_token()
        tokens.create(folder, tokens.Entry(FIRST_TOKEN, tokens.digest_of(token.encode()), "token", time.time()))
        print(f"{folder.path}: a certificate for {', '.join(names)}, valid for {arguments.days} days")
        if arguments.token_file:
            write(Path(arguments.token_file), f"{token}\n".encode())
            return
        print(f"On the host:   farlane serve --folder {folder.path} --listen {TLS}://0.0.0.0:{PORT}")
        print(f"On a guest:    copy {folder.authority} there, then")
        print(f"               export FARLANE_CA=ca.pem FARLANE_TOKEN={token}")
        print(f"               farlane run --host {TLS}://{names[0]}:{PORT} -- ./program")
        print("The token is not shown again; `farlane token create` makes others.")

    def _renew(self, folder: Folder, arguments: argparse.Namespace) -> None:
        folder.require_private()
        with folder.locked():
            names = list(dict.fromkeys([*certificates.names_of(folder.certificate), *arguments.name]))
            certificates.create_host(folder, names, arguments.days)
        print(f"{folder.path}: a new certificate for {', '.join(names)}, valid for {arguments.days} days")


command = HostCommand()
