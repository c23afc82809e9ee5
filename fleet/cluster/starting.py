"""Starts a host of a fleet from the arguments of `farlane serve`.

Owns which of them a host of a fleet takes: where it listens, and who may come, is the fleet's.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import NoReturn

from farlane.backend.commands import serving
from farlane.backend.host.fairness import DEFAULT_WEIGHT
from farlane.backend.system import log as logs
from farlane.fleet.gateway.member import Member

_FLEETS = (
    "listen", "folder", "insecure", "admin", "ready_fd", "die_with_parent", "guest_share", "queue", "guest_priority", "guest_weight",
)  # fmt: skip


class BadArguments(Exception):
    """The message is for the user."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise BadArguments(f"the options of hosts, behind --: {message}")


def parse(arguments: list[str]) -> argparse.Namespace:
    """Raises BadArguments."""
    parser = _Parser(prog="farlane serve", add_help=False)
    serving.add_arguments(parser)
    defaults = parser.parse_args([])
    found = parser.parse_args(arguments)
    for name in _FLEETS:
        if getattr(found, name) != getattr(defaults, name):
            option = f"--{name.replace('_', '-')}"
            raise BadArguments(f"{option} is not for a host of a fleet: where it listens and who comes is the fleet's")
    return found


def open_member(name: str, arguments: list[str], address: str, encrypted: bool, gone: Callable[[int], None]) -> Member:
    """Raises BadArguments, DeviceUnavailable, EndpointError."""
    found = parse(arguments)
    logs.configure(logs.Wanted(found.log_level, found.log_format))
    found.queue, found.guest_weight = 0, DEFAULT_WEIGHT  # the gateway has the queue
    options = serving.read_options(found)
    host = serving.open_host(found, options, networked=encrypted)
    try:
        return Member(
            name, host, address if encrypted else "127.0.0.1", encrypted=encrypted, grace=found.grace, gone=gone
        )
    except BaseException:
        host.close()
        raise
