"""Sessions whose connections break under load: nothing is lost, and nothing is done twice.

Each trial runs a program whose output depends on every launch and every copy (tests/native/process/counted.cu), through a proxy that
cuts its connections at random bytes of either direction. The output must be that of a run without cuts. In the end the host has no session
and no device memory left. Prints a line of counts and ends with 1 where a trial failed.

    python benchmarks/faults/reconnecting.py --trials 1000 --way tcp --workers thread
"""

from __future__ import annotations

import argparse
import collections
import random
import re
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from farlane.frontend.devtools import registry
from farlane.frontend.devtools.cutting import CuttingProxy
from farlane.frontend.devtools.guest import Guest
from farlane.frontend.devtools.programs import Build
from farlane.frontend.devtools.toolchain import install
from farlane.frontend.embedded import EmbeddedHost
from farlane.frontend.hosts import parse_url
from farlane.hosturl.channel import open_channel
from farlane.v1 import admin_pb2

NATIVE = Path(__file__).parents[2] / "tests/native"
MODES = ("calls", "loops", "none")
RESUMED = re.compile("was resumed after")


@contextmanager
def serving(way: str, workers: str) -> Iterator[tuple[EmbeddedHost, int, dict[str, str]]]:
    """A host, its port, and what its guests show."""
    with tempfile.TemporaryDirectory() as named:
        folder, token = f"{named}/host", f"{named}/token"
        init = [sys.executable, "-m", "farlane.frontend.cli", "host", "init", "--folder", folder, "--token-file", token]
        subprocess.run(init, check=True, stdout=subprocess.DEVNULL)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = int(probe.getsockname()[1])
        url = f"{'farlane+tls' if way == 'tls' else 'grpc'}://127.0.0.1:{port}"
        extra = ("--listen", url, "--folder", folder, "--workers", workers)
        with EmbeddedHost("sim", extra=extra) as host:
            yield host, port, {"FARLANE_CA": f"{folder}/ca.pem", "FARLANE_TOKEN_FILE": token} if way == "tls" else {}


def described(url: str) -> admin_pb2.DescribeReply:
    with open_channel(parse_url(url)) as channel:
        ask = channel.stream_stream(
            "/farlane.v1.AdminService/Describe", response_deserializer=admin_pb2.DescribeReply.FromString
        )
        return next(ask(iter([b""])))


def left_over(url: str) -> bool:
    """Whether sessions or device memory are left once a session had time to end."""
    for _ in range(100):
        found = described(url)
        if not found.sessions and not found.memory_used:
            return False
        time.sleep(0.1)
    return True


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no trial after so long")
    parser.add_argument("--way", choices=("tcp", "tls"), default="tcp")
    parser.add_argument("--workers", choices=("thread", "process"), default="thread")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    entries = {entry.name: entry for entry in registry.load(NATIVE / "registry.toml")}
    program = entries["counted"].compiled(install("13.0"), Build(architecture="sm_75"))[0]
    counts: collections.Counter[str] = collections.Counter()
    expected: dict[int, str] = {}
    began = time.monotonic()
    with serving(arguments.way, arguments.workers) as (host, port, access):
        scheme = "farlane+tls" if arguments.way == "tls" else "grpc"
        for seed in range(arguments.seed, arguments.seed + arguments.trials):
            if time.monotonic() - began > arguments.seconds:
                break
            rounds = random.Random(seed).choice((3, 4, 6))
            if rounds not in expected:
                expected[rounds] = (
                    Guest(f"{scheme}://127.0.0.1:{port}", "grpc", access).run([program, str(rounds)]).stdout
                )
                assert expected[rounds].endswith("PASS\n")
            with CuttingProxy(port, seed, openings=2, cuts=10 if arguments.workers == "process" else None) as proxy:
                guest = Guest(f"{scheme}://127.0.0.1:{proxy.port}", "grpc", access)
                try:
                    outcome = guest.run([program, str(rounds)], MODES[seed % len(MODES)])
                except subprocess.TimeoutExpired:
                    counts["hung"] += 1
                    print(f"seed {seed}: the program hangs", flush=True)
                    continue
            counts["trials"] += 1
            counts["cuts"] += proxy.cuts
            counts["resumed"] += len(RESUMED.findall(outcome.stderr))
            if (outcome.status, outcome.stdout) != (0, expected[rounds]):
                counts["wrong"] += 1
                print(f"seed {seed}: status {outcome.status}\n{outcome.stdout}{outcome.stderr}", flush=True)
        leaks = left_over(host.url)
    failed = counts["wrong"] + counts["hung"] + leaks
    print(
        f"{arguments.way}, workers {arguments.workers}: {counts['trials']} trials, {counts['cuts']} connections cut,"
        f" {counts['resumed']} times resumed, {counts['wrong']} wrong, {counts['hung']} hung,"
        f" {'something is left' if leaks else 'nothing is left'} on the host"
    )
    return int(failed > 0)


if __name__ == "__main__":
    raise SystemExit(main())
