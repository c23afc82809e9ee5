"""`farlane setup`: what the user decides once for all runs."""

from __future__ import annotations

import argparse
import json
import os
import sys

from farlane.frontend import settings
from farlane.frontend.errors import UserError
from farlane.terminal.examples import add_examples


class SetupCommand:
    """Shows or changes the user's settings."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        add_examples(
            parser,
            ("farlane setup", "show the settings"),
            ("farlane setup --json", "show them as JSON"),
            ("farlane setup --interop", "let NVIDIA's own runtime in stripped programs run from now on"),
            ("farlane setup --no-interop", "refuse such programs again"),
        )
        parser.add_argument("--json", action="store_true", help="print the settings as JSON")
        parser.add_argument(
            "--interop",
            action=argparse.BooleanOptionalAction,
            default=None,
            help="let NVIDIA's own runtime in stripped programs run, or not (docs/explanation/interoperability.md)",
        )

    def run(self, arguments: argparse.Namespace) -> int:
        try:
            if arguments.interop is not None:
                written = settings.set_interop(os.environ, arguments.interop)
                print(f"written to {written}", file=sys.stderr if arguments.json else sys.stdout)
            interop = settings.interop(os.environ)
            print(json.dumps({"interop": interop}) if arguments.json else f"interop: {'on' if interop else 'off'}")
        except UserError as error:
            print(f"farlane: {error}", file=sys.stderr)
            return error.status
        return 0


command = SetupCommand()
