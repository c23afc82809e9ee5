"""How fairly a host shares the simulated device's time, in threads and in processes of sessions.

All guests of a measure begin together and run for the same time; a guest's service is the number of blocks that it has run.
The host compiles kernels by tier 2 at once (`FARLANE_JIT_TIERS=off`): what is shared is time, and a token whose sessions have
better code than others' runs more blocks in the same time.

1. Many guests at once with equal weights, every other one interactive (a block every 10 ms), the others batch (launches of
   eight blocks, without end): the service of the fastest over that of the slowest. Goal: at most 1.2.
2. The same with weights 1, 2 and 4, all batch: each weight's service for each unit of weight, over the mean. Goal: 0.9 to 1.1.
3. An interactive guest (launch and synchronize every 10 ms) beside eight batch ones: the 99th percentile of its time, over
   three times that on the idle host and one block's time. Goal: at most 1. Once with the same priority, once with a higher one.

    python benchmarks/host/fairness.py [GUESTS [SECONDS]] [--only latency|equal|weights] [--workers thread|process]

`64 6 --only latency` takes half a minute.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from farlane.frontend.devtools.guest import Guest
from farlane.frontend.devtools.programs import Build, compile_program
from farlane.frontend.devtools.toolchain import install

GUESTS, SECONDS = 64, 20.0
FOLDER = Path(__file__).parent
TOKENS: Mapping[str, Sequence[str]] = {
    "one": (), "two": ("--weight", "2"), "four": ("--weight", "4"), "high": ("--priority", "1"),
}  # fmt: skip
PERIOD = 10  # milliseconds
BATCH_BLOCKS = 8
WAIT_SECONDS = 300
WARM_SECONDS = 4.0
SPARE = 8  # sessions of a moment ago whose processes are ending


@dataclass(frozen=True)
class Kind:
    """What a guest does."""

    token: str = "one"
    period: int = 0  # milliseconds between launches; 0: without end
    blocks: int = BATCH_BLOCKS


INTERACTIVE = Kind(period=PERIOD, blocks=1)


class Host:
    """A host with TLS, whose guests have tokens."""

    def __init__(self, url: str, folder: Path, tokens: Mapping[str, str], program: str) -> None:
        self._url, self._folder, self._tokens, self._program = url, folder, tokens, program
        self._steps = self._measured()
        # Each token's sessions share what they compile: that each of them waits for it would count as less service.
        self.run([Kind(token) for token in tokens], WARM_SECONDS)
        self._steps = self._measured()

    def _measured(self) -> int:
        """How many steps take one block a millisecond, or nearly."""
        environment = self._environment("one")
        found = subprocess.run(
            [self._program], env=environment, stdout=subprocess.PIPE, text=True, check=True, timeout=120
        )
        return int(json.loads(found.stdout)["steps"])

    def _environment(self, token: str) -> dict[str, str]:
        own = {
            "FARLANE_CA": str(self._folder / "ca.pem"), "FARLANE_TOKEN": self._tokens[token],
            "FARLANE_TIMEOUT": str(WAIT_SECONDS),
        }  # fmt: skip
        return Guest(self._url).environment(self._program, "calls") | own

    def run(self, kinds: Sequence[Kind], seconds: float) -> list[Mapping[str, float]]:
        """What each guest has done and seen."""
        guests = []
        try:
            for kind in kinds:
                command = [self._program, str(seconds), str(kind.period), str(self._steps), str(kind.blocks)]
                environment = self._environment(kind.token)
                guests.append(
                    subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
                )
            for each in guests:
                assert each.stdout is not None
                if not each.stdout.readline():
                    raise SystemExit(f"a guest has ended with status {each.wait()} before it began")
            for each in guests:
                assert each.stdin is not None
                each.stdin.write("\n")
                each.stdin.flush()
            outputs = [each.communicate(timeout=seconds + WAIT_SECONDS)[0] for each in guests]
            return [json.loads(output) for output in outputs]
        finally:
            for each in guests:
                each.kill()
                each.wait()


@contextmanager
def serving(workers: str, sessions: int, program: str) -> Iterator[Host]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "host"
        farlane = [sys.executable, "-m", "farlane.frontend.cli"]
        subprocess.run([*farlane, "host", "init", "--folder", folder], check=True, stdout=subprocess.DEVNULL)
        tokens = {}
        for token, options in TOKENS.items():
            create = [*farlane, "token", "create", token, "--folder", str(folder), *options]
            tokens[token] = subprocess.run(create, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
        read, write = os.pipe()
        command = [*farlane, "serve", "--listen", "farlane+tls://127.0.0.1:0", "--folder", str(folder)]
        command += ["--workers", workers, "--sessions", str(sessions), "--ready-fd", str(write)]
        environment = os.environ | {"FARLANE_JIT_TIERS": "off"}
        host = subprocess.Popen(command, pass_fds=[write], stdout=subprocess.DEVNULL, env=environment)
        os.close(write)
        try:
            with os.fdopen(read) as ready:
                yield Host(ready.readline().strip(), folder, tokens, program)
        finally:
            host.terminate()
            host.wait(60)


def equal(host: Host, guests: int, seconds: float) -> str:
    done = host.run([INTERACTIVE if number % 2 else Kind() for number in range(guests)], seconds)
    blocks = [each["blocks"] for each in done]
    batch, interactive = blocks[::2], blocks[1::2]
    return (
        f"{guests} guests, equal weights: fastest / slowest {max(blocks) / max(1, min(blocks)):.2f}"
        f" (batch {min(batch):.0f} to {max(batch):.0f} blocks, interactive {min(interactive):.0f} to {max(interactive):.0f})"
    )


def weighted(host: Host, guests: int, seconds: float) -> str:
    weights = {"one": 1, "two": 2, "four": 4}
    kinds = [Kind(token) for _ in range(guests // 3) for token in weights]
    blocks = [each["blocks"] for each in host.run(kinds, seconds)]
    unit = sum(blocks) / sum(weights[kind.token] for kind in kinds)
    ratios = [number / weights[kind.token] / unit for kind, number in zip(kinds, blocks, strict=True)]
    means = [
        sum(ratio for ratio, kind in zip(ratios, kinds, strict=True) if kind.token == token) / (guests // 3)
        for token in weights
    ]
    return (
        f"{len(kinds)} guests, weights 1:2:4: service for each unit of weight, over the mean: "
        f"{' '.join(f'{mean:.2f}' for mean in means)} (single guests {min(ratios):.2f} to {max(ratios):.2f})"
    )


def responsive(host: Host, seconds: float) -> Iterator[str]:
    block = host.run([Kind(blocks=1)], seconds)[0]["median"]
    for token, what in (("one", "the same priority"), ("high", "a higher priority")):
        kind = Kind(token, PERIOD, 1)
        idle = host.run([kind], seconds)[0]["p99"]
        beside = host.run([kind, *[Kind()] * 8], seconds)[0]
        yield (
            f"interactive beside 8 batch, {what}: 99th percentile {beside['p99'] / 1000:.2f} ms, median"
            f" {beside['median'] / 1000:.2f}; idle host {idle / 1000:.2f}, block {block / 1000:.2f}:"
            f" {beside['p99'] / (3 * idle + block):.2f} of 3 times idle + a block"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("guests", type=int, nargs="?", default=GUESTS)
    parser.add_argument("seconds", type=float, nargs="?", default=SECONDS, help="of a measure; half of it for latency")
    parser.add_argument("--only", choices=("latency", "equal", "weights"))
    parser.add_argument("--workers", choices=("thread", "process"))
    arguments = parser.parse_args()
    guests, seconds = arguments.guests, arguments.seconds
    measures = {
        "latency": lambda host: responsive(host, seconds / 2),
        "equal": lambda host: [equal(host, guests, seconds)],
        "weights": lambda host: [weighted(host, guests, seconds)],
    }
    sources = [FOLDER / "fairness.cu"]
    build = Build(flags=(f"-I{FOLDER.parent / 'programs'}",))
    program = str(compile_program(install("13.0"), sources, "fairness", build))
    print(f"{len(os.sched_getaffinity(0))} processors, load {os.getloadavg()[0]:.1f}")
    for workers in [arguments.workers] if arguments.workers else ["thread", "process"]:
        with serving(workers, guests + SPARE, program) as host:
            for name, measure in measures.items():
                if arguments.only in (None, name):
                    for line in measure(host):
                        print(f"{workers:8} {line}", flush=True)


if __name__ == "__main__":
    main()
