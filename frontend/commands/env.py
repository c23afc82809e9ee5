"""`farlane env`: what makes a shell's programs guests, as lines for the shell to evaluate."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from collections.abc import Mapping

from farlane.frontend import connecting, settings, shim_library, steering
from farlane.frontend.errors import UserError
from farlane.frontend.hosts import add_access, parse_url, set_access
from farlane.hosturl import FORMS

SHELLS = ("sh", "fish")


class EnvCommand:
    """Prints the variables that `farlane run` sets, for debuggers, IDEs and scripts that start programs themselves."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--host", metavar="URL", help=f"{FORMS} (default: FARLANE_HOST)")
        add_access(parser)
        parser.add_argument("--defer", choices=shim_library.MODES, default=None, help="deferral mode (default: loops)")
        parser.add_argument(
            "--check", metavar="WHAT", default="", help="look for errors in kernels (docs/howto/check-kernels.md)"
        )
        parser.add_argument("--shell", choices=SHELLS, default="sh", help="for sh and its relatives, or fish")
        parser.add_argument("--unset", action="store_true", help="print what takes it back")

    def run(self, arguments: argparse.Namespace) -> int:
        before = dict(os.environ)
        set_access(arguments)
        try:
            wanted = shim_library.without_guest(os.environ) if arguments.unset else _guest(arguments)
        except UserError as error:
            print(f"farlane: {error}", file=sys.stderr)
            return error.status
        for line in lines(before, wanted, arguments.shell):
            print(line)
        return 0


def _guest(arguments: argparse.Namespace) -> dict[str, str]:
    host = arguments.host or os.environ.get("FARLANE_HOST")
    if not host:
        raise UserError(
            "no host is named",
            "Start one with `farlane serve --listen unix:///path`, and give its address: farlane env --host URL.",
            2,
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
