"""What a process for each session costs, and its confinement: a round trip, and the start of a session, beside sessions in threads of the
host's process.

The null device, by shared memory and by TCP on loopback; the runs alternate, medians.
"""

from __future__ import annotations

import time
from functools import partial

from _guest import Guest, Numbers, host, medians, numbers

ROUNDS = 1000
WARM = 3


def start(guest: Guest) -> Numbers:
    """A whole program of one round trip; a new worker is ready again before the next."""
    time.sleep(1)
    begin = time.perf_counter()
    numbers(guest, "calls", "latency", "1")
    return {"session_ms": (time.perf_counter() - begin) * 1e3}


def compared(title: str, measured: list[Numbers]) -> None:
    thread, process, confined = measured
    print(title)
    for name in thread:
        unit = "ms" if name.endswith("_ms") else "us"
        print(
            f"  {name:20} thread {thread[name]:8.1f} {unit}   process {process[name]:8.1f} {unit}   "
            f"confined {confined[name]:8.1f} {unit}   process / thread {process[name] / thread[name]:5.2f}   "
            f"confined / process {confined[name] / process[name]:5.2f}"
        )


def main() -> None:
    processes = ("--workers", "process", "--warm", str(WARM))
    with (
        host("null") as threads,
        host("null", *processes, "--confine", "off") as free,
        host("null", *processes) as confined,
    ):
        time.sleep(WARM)
        for transport in ("shm", "tcp"):
            guests = [each[transport] for each in (threads, free, confined)]
            compared(transport, medians([partial(numbers, guest, "calls", "latency", str(ROUNDS)) for guest in guests]))
            compared(transport, medians([partial(start, guest) for guest in guests]))


if __name__ == "__main__":
    main()
