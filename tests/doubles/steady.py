"""A program that holds a session until it is let go (tests/fleet/programs/steady.cu)."""

from __future__ import annotations

import subprocess

from farlane.frontend.devtools.guest import Guest


class Steady:
    """Raises AssertionError: it has not begun; with what it said."""

    def __init__(self, guest: Guest, program: str) -> None:
        environment = guest.environment(program, "calls")
        self.process = subprocess.Popen(
            [program], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        first = self.process.stdout.readline()
        if first != "ready\n":
            raise AssertionError(first + self.process.communicate()[1])

    def let_go(self) -> tuple[int, str, str]:
        output, errors = self.process.communicate("", timeout=60)
        return self.process.returncode, output, errors

    def ended(self) -> tuple[int, str, str]:
        """By itself."""
        status = self.process.wait(60)
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        return status, self.process.stdout.read(), self.process.stderr.read()
