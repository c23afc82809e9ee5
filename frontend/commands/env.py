"""`farlane env`: what makes a shell's programs guests, as lines for the shell to evaluate."""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
from collections.abc import Mapping

from farlane.frontend import connecting, settings, shim_library, steering
from farlane.frontend.errors import UserError
from farlane.frontend.hosts import add_access, parse_url, set_access
from farlane.hosturl import FORMS
from farlane.hosturl.variables import named_host
from farlane.terminal import statuses
from farlane.terminal.examples import add_examples

SHELLS = ("sh", "fish")
EXAMPLES = (
    (
        "farlane env --host unix:///run/farlane.sock",
        'print the variables; a shell sets them with eval "$(farlane env ...)"',
    ),
    ("farlane env --host unix:///run/farlane.sock --json", "print them for a debugger or an IDE"),
    ("farlane env --host unix:///run/farlane.sock --shell fish | source", "set them in fish"),
    ("farlane env --unset", "print what removes them from the shell again"),
)


class EnvCommand:
    """Prints the variables that `farlane run` sets, for debuggers, IDEs and scripts that start programs themselves."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        add_examples(parser, *EXAMPLES)
        parser.add_argument("--host", metavar="URL", help=f"{FORMS} (default: FARLANE_HOST)")
        add_access(parser)
        parser.add_argument("--defer", choices=shim_library.MODES, default=None, help="deferral mode (default: loops)")
        parser.add_argument(
            "--check", metavar="WHAT", default="", help="look for errors in kernels, as `farlane run --check`"
        )
        parser.add_argument(
            "--shell",
            choices=SHELLS,
            default="sh",
            help="the shell that evaluates the lines: sh and bash, zsh, dash; or fish (default: sh)",
        )
        parser.add_argument(
            "--json", action="store_true", help="print one JSON object: variables to set, and names to remove"
        )
        parser.add_argument("--unset", action="store_true", help="print what removes the variables again")

    def run(self, arguments: argparse.Namespace) -> int:
        before = dict(os.environ)
        set_access(arguments)
        try:
            wanted = shim_library.without_guest(os.environ) if arguments.unset else _guest(arguments)
        except UserError as error:
            print(f"farlane: {error}", file=sys.stderr)
            return error.status
        if arguments.json:
            changed = {name: value for name, value in wanted.items() if before.get(name) != value}
            json.dump({"set": changed, "unset": sorted(before.keys() - wanted.keys())}, sys.stdout, indent=2)
            print()
            return 0
        for line in lines(before, wanted, arguments.shell):
            print(line)
        return 0


def _guest(arguments: argparse.Namespace) -> dict[str, str]:
    host = named_host(arguments.host)
    if not host:
        raise UserError(
            "no host is named",
            "Start one with `farlane serve --listen unix:///path`, and give its address: farlane env --host URL.",
            statuses.WRONG_CALL,
        )
    parse_url(host)
    shim_library.require_built()
    environment = shim_library.guest_environment(
        shim_library.without_guest(os.environ),
        host=host,
        mode=shim_library.deferral_mode(arguments.defer),
        runtimes=(),
        report=None,
        checks=connecting.check_names(arguments.check),
        interop=settings.interop(os.environ),
    )
    steering.steer(environment, None, host)
    return environment


def lines(before: Mapping[str, str], after: Mapping[str, str], shell: str) -> list[str]:
    """What a shell evaluates to get from one environment to the other."""
    fish = shell == "fish"
    removed = [f"set -e {name};" if fish else f"unset {name}" for name in sorted(before.keys() - after.keys())]
    changed = [name for name in sorted(after) if before.get(name) != after[name]]
    if fish:
        return removed + [f"set -gx {name} {_fish(after[name])};" for name in changed]
    return removed + [f"export {name}={shlex.quote(after[name])}" for name in changed]


def _fish(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


command = EnvCommand()
