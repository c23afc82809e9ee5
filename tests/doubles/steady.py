"""A program that holds a session until it is let go (tests/fleet/programs/steady.cu)."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence

from farlane.frontend.devtools.guest import Guest
from farlane.hosturl import parse
from farlane.hosturl.description import describe
from waiting import eventually


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


def there_and_back(program: str, hosts: Sequence[str], guests: Sequence[str], farlane: Sequence[str]) -> None:
    """The program's session moves from the first of two hosts, which have no other, to the second and back while it runs.

    Args:
        hosts: the hosts' own URLs.
        guests: their URLs for guests.
        farlane: the command.
    """
    steady = Steady(Guest(guests[0], "grpc"), program)
    for at, to in ((0, 1), (1, 0)):
        command = [*farlane, "session", "move", "s1", "--host", hosts[at], "--to", hosts[to], "--guests", guests[to]]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        assert (done.returncode, "it was held for" in done.stdout) == (0, True), done.stderr
        eventually(lambda at=at: not describe(parse(hosts[at])).open)
        assert len(describe(parse(hosts[to])).open) == 1
    status, output, errors = steady.let_go()
    assert (status, output) == (0, "PASS\n"), output + errors
    assert errors.count("was resumed after") == 2, errors
