"""What a process for each session costs: a round trip, and the start of a session, beside sessions in threads of the host's process.

The null device on a Unix socket; the runs alternate, medians.
"""

from __future__ import annotations

import time
from functools import partial

from _guest import EmbeddedHost, Guest, Numbers, medians, numbers

ROUNDS = 1000
WARM = 3


def start(guest: Guest) -> Numbers:
    """A whole program of one round trip; a new worker is ready again before the next."""
    time.sleep(1)
    begin = time.perf_counter()
    numbers(guest, "calls", "latency", "1")
    return {"session_ms": (time.perf_counter() - begin) * 1e3}


def main() -> None:
    with (
        EmbeddedHost("null") as threads,
        EmbeddedHost("null", extra=("--workers", "process", "--warm", str(WARM))) as processes,
    ):
        time.sleep(WARM)
        guests = [Guest(threads.url), Guest(processes.url)]
        for measured in (medians([partial(numbers, guest, "calls", "latency", str(ROUNDS)) for guest in guests]),
                         medians([partial(start, guest) for guest in guests])):  # fmt: skip
            thread, process = measured
            for name in thread:
                unit = "ms" if name.endswith("_ms") else "us"
                print(
                    f"{name:20} thread {thread[name]:8.1f} {unit}   process {process[name]:8.1f} {unit}   ratio {process[name] / thread[name]:5.2f}"
                )


if __name__ == "__main__":
    main()
