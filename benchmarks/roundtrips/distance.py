"""Distance between guest and host: a forwarder that delays each direction by half a round trip.

Owns compiling and running delay_proxy.cpp, and measuring the round trip it really makes, with an echo server behind it.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from farlane.frontend.devtools.toolchain import cache_folder, locked

SOURCE = Path(__file__).with_name("delay_proxy.cpp")
PING_BYTES = 64


@dataclass(frozen=True)
class RoundTrip:
    """Quantiles of a bare exchange of 64 bytes, in microseconds."""

    median: float
    p10: float
    p90: float


def build() -> Path:
    """The proxy's executable."""
    key = hashlib.sha256(SOURCE.read_bytes()).hexdigest()[:24]
    output = cache_folder() / "delay_proxy" / key
    with locked(output.with_suffix(".lock")):
        if not output.exists():
            temporary = output.with_suffix(".new")
            subprocess.run(["c++", "-O2", "-std=c++17", "-o", str(temporary), str(SOURCE), "-pthread"], check=True)
            temporary.rename(output)
    return output


@contextlib.contextmanager
def _running(*arguments: str) -> Iterator[None]:
    with subprocess.Popen([str(build()), *arguments], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            if process.stdout.readline() != "ready\n":
                raise RuntimeError(f"the delay proxy did not start: {' '.join(arguments)}")
            yield
        finally:
            process.kill()


@contextlib.contextmanager
def at_distance(url: str, microseconds: float) -> Iterator[str]:
    """A URL behind which the host at `url` (unix:///path) is so far away."""
    with tempfile.TemporaryDirectory(prefix="farlane-") as folder:
        path = f"{folder}/far.sock"
        with _running("forward", str(microseconds), f"unix:{path}", f"unix:{url.removeprefix('unix://')}"):
            yield f"unix://{path}"


def achieved(microseconds: float | None, rounds: int) -> RoundTrip:
    """What a bare exchange takes at that distance; None: without the proxy."""
    with tempfile.TemporaryDirectory(prefix="farlane-") as folder:
        echo = f"{folder}/echo.sock"
        with contextlib.ExitStack() as stack:
            stack.enter_context(_running("echo", f"unix:{echo}"))
            target = f"unix://{echo}"
            if microseconds is not None:
                target = stack.enter_context(at_distance(target, microseconds))
            command = [str(build()), "ping", str(rounds), str(PING_BYTES), f"unix:{target.removeprefix('unix://')}"]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
    return RoundTrip(**json.loads(done.stdout))
