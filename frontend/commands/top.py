"""`farlane top`: what runs on a host, live (docs/howto/hosts/observe-a-host.md)."""

from __future__ import annotations

import argparse
import json
import sys
import time

from farlane.frontend.errors import UserError
from farlane.frontend.hosts import add_access, describe, parse_url, set_access
from farlane.hosturl import HostUrl
from farlane.hosturl.variables import named_host
from farlane.terminal import statuses
from farlane.terminal.examples import add_examples

SAMPLE_SECONDS = 0.2  # between the two answers of a single table
PROGRAM_CHARACTERS = 20  # more room for a program's name in a file


class TopCommand:
    """Asks the host again and again, until the user has seen enough."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        add_examples(
            parser,
            ("farlane top --host grpc://127.0.0.1:7070", "watch the sessions of a host"),
            ("farlane top --host unix:///run/farlane.sock --once", "print the table once"),
            ("farlane top --host unix:///run/farlane.sock --json", "print what the host says as JSON"),
        )
        parser.add_argument("--host", metavar="URL", help="a running `farlane serve` (default: FARLANE_HOST)")
        add_access(parser)
        parser.add_argument(
            "--once", action="store_true", help="print the table once and end; this is the default without a terminal"
        )
        parser.add_argument("--json", action="store_true", help="print one JSON object and end")
        parser.add_argument(
            "--interval",
            type=_interval,
            default=1.0,
            metavar="SECONDS",
            help="the time between two updates (default: 1)",
        )

    def run(self, arguments: argparse.Namespace) -> int:
        set_access(arguments)
        try:
            named = named_host(arguments.host)
            if not named:
                raise UserError("no host is named", "Give --host URL, or set FARLANE_HOST.", status=statuses.WRONG_CALL)
            return self._show(parse_url(named), arguments)
        except UserError as error:
            print(f"farlane: {error}", file=sys.stderr)
            return error.status
        except KeyboardInterrupt:
            return 0

    def _show(self, url: HostUrl, arguments: argparse.Namespace) -> int:
        from farlane.frontend import top  # rich and protobuf take longer than all else of a command that does not ask

        if arguments.json:
            json.dump(top.data(describe(url)), sys.stdout, indent=2)
            print()
            return 0
        from rich.console import Console
        from rich.live import Live

        console = Console(highlight=False, markup=False, emoji=False)
        if not console.is_terminal:
            console.width = top.WIDE + PROGRAM_CHARACTERS
        earlier = describe(url)
        time.sleep(SAMPLE_SECONDS)
        view = top.View(earlier, describe(url))
        if arguments.once or not console.is_terminal or console.is_dumb_terminal:
            console.print(top.shown(view, console.width))
            return 0
        with Live(top.shown(view, console.width), console=console, screen=True, auto_refresh=False) as live:
            while True:
                time.sleep(arguments.interval)
                view = top.View(view.now, describe(url))
                live.update(top.shown(view, console.width), refresh=True)


def _interval(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0.1 <= seconds <= 3600:
        raise argparse.ArgumentTypeError(f"{text!r} is not between 0.1 and 3600 seconds")
    return seconds


command = TopCommand()
