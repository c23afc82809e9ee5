"""What it costs a host that somebody looks at it: processor time of the host, in pairs with and without.

A host of the null device has 16 sessions. Everything that can look looks once a second: the page (its state and a
memory map), a scrape of the metrics, and `farlane top` (Describe). The reference is a host without `--admin`. Beside
it, for sessions in threads and in processes: the round trips of a guest of one host, looked at and not, in turn. Who
looks needs the same processors.

Usage: python benchmarks/observing/watching.py [--seconds 5] [--pairs 5]
"""

from __future__ import annotations

import argparse
import os
import socket
import statistics
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests/clients"), str(ROOT / "benchmarks")]

from _guest import numbers  # noqa: E402
from farlane.frontend.devtools.guest import Guest  # noqa: E402
from farlane.frontend.embedded import EmbeddedHost  # noqa: E402
from farlane.frontend.hosts import describe, parse_url  # noqa: E402
from tape_client.client import Client  # noqa: E402

SESSIONS = 16
GOAL = 1.0  # percent
ROUNDS = 200_000
TICKS = os.sysconf("SC_CLK_TCK")


def processor_seconds(pid: int) -> float:
    """Of the process and its children's threads that run now."""
    pids = [pid, *map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())]
    fields = (Path(f"/proc/{each}/stat").read_text().rpartition(")")[2].split() for each in pids)
    return sum(int(each[11]) + int(each[12]) for each in fields) / TICKS


def look(url: str, page: str, stopped: threading.Event) -> None:
    """Once a second, as the page, Prometheus and `farlane top` do."""
    while not stopped.wait(1):
        reply = describe(parse_url(url))
        maps = [f"memory.json?session={each.name}" for each in reply.open[:1]]
        for path in ("state.json", *maps, "metrics"):
            try:
                urllib.request.urlopen(page + path, timeout=10).read()
            except urllib.error.HTTPError as error:
                if error.code != 404:  # a session that has just ended
                    raise


@contextmanager
def watched(url: str, page: str) -> Iterator[None]:
    stopped = threading.Event()
    thread = threading.Thread(target=look, args=(url, page, stopped))
    thread.start()
    try:
        yield
    finally:
        stopped.set()
        thread.join()


def spent(host: EmbeddedHost, seconds: float) -> float:
    """Percent of one processor."""
    pid = host.pid
    before, began = processor_seconds(pid), time.monotonic()
    time.sleep(seconds)
    return 100 * (processor_seconds(pid) - before) / (time.monotonic() - began)


def pairs(count: int, plain: Callable[[], float], other: Callable[[], float]) -> tuple[float, float]:
    """The medians of both, measured in turn."""
    found = [(plain(), other()) for _ in range(count)]
    return statistics.median(each[0] for each in found), statistics.median(each[1] for each in found)


def measure(workers: str, seconds: float, count: int) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    page = f"http://127.0.0.1:{port}/"
    options = ("--workers", workers)
    with ExitStack() as stack:
        shown = stack.enter_context(EmbeddedHost("null", extra=("--admin", str(port), *options)))
        left = stack.enter_context(EmbeddedHost("null", extra=options))
        if workers == "thread":  # the client in Python knows no others
            for host in (shown, left):
                for _ in range(SESSIONS):
                    stack.enter_context(Client(host.url))

            def looked_at() -> float:
                with watched(shown.url, page):
                    return spent(shown, seconds)

            plain, looked = pairs(count, lambda: spent(left, seconds), looked_at)
            more = looked - plain
            verdict = "reached" if more < GOAL else "missed"
            print(
                f"{SESSIONS} sessions: the host takes {plain:.2f} % of a processor left alone, {looked:.2f} % looked at, "
                f"{more:+.2f} % (goal: less than {GOAL:g} %: {verdict})",
                flush=True,
            )
        guest = Guest(shown.url, "shm")

        def trips() -> float:
            return numbers(guest, "calls", "latency", str(ROUNDS))["launch_synchronize"]

        def watched_trips() -> float:
            with watched(shown.url, page):
                return trips()

        plain, looked = pairs(4 * count, trips, watched_trips)
        print(
            f"{workers:8} launch and synchronize: {plain:.2f} us, looked at {looked:.2f} us, ratio {looked / plain:.3f}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description="What it costs a host that somebody looks at it.")
    parser.add_argument("--seconds", type=float, default=5, help="of one measurement")
    parser.add_argument("--pairs", type=int, default=5)
    arguments = parser.parse_args()
    for workers in ("thread", "process"):
        measure(workers, arguments.seconds, arguments.pairs)


if __name__ == "__main__":
    main()
