"""`farlane setup`: what the user decides once for all runs."""

from __future__ import annotations

import argparse
import os
import sys

from farlane.frontend import settings
from farlane.frontend.errors import UserError


class SetupCommand:
    """Shows or changes the user's settings."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "--interop",
            action=argparse.BooleanOptionalAction,
            default=None,
            help="answer the interoperability handshake of NVIDIA's runtime (docs/explanation/interoperability.md)",
        )

    def run(self, arguments: argparse.Namespace) -> int:
        try:
            if arguments.interop is not None:
                print(f"written to {settings.set_interop(os.environ, arguments.interop)}")
            print(f"interop: {'on' if settings.interop(os.environ) else 'off'}")
        except UserError as error:
            print(f"farlane: {error}", file=sys.stderr)
            return error.status
        return 0


command = SetupCommand()
