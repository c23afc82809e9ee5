"""What one round trip costs: launch and synchronize, and a copy of 4 bytes to the host, on the null device.

Beside three references of the same run: a bare exchange of as many bytes between two processes through the same kind of
ring or by a bare gRPC stream (backend/plane/examples/exchange.rs), one by a bare socket, and a host that gives each session
a process of its own. TLS stands beside TCP. First with all processors, where a side that waits spins for a moment, then with everything on one,
where it sleeps at once.
"""

from __future__ import annotations

import os
from functools import partial

from _guest import exchange, host, medians, numbers, plane_exchange

ROUNDS = 2000
# Bytes of messages up and down: a LAUNCH and a DEVICE_SYNCHRONIZE, a READ; a STATUS, 4 bytes of DATA; gRPC's frames.
BYTES = {"launch_synchronize": (128, 64), "copy_4_bytes": (96, 80)}
KIND = {"shm": "ring", "unix": "unix", "tcp": "tcp"}
TLS_GOAL = 10.0  # microseconds more than TCP
GOAL = {"shm": 2.0, "unix": 1.5, "tcp": 1.5}  # times the same bytes, barely exchanged


def compare(label: str, extra: bool) -> None:
    """Prints a line for each transport and call; `extra`: beside a host with processes, too."""
    with host("null") as guests, host("null", "--workers", "process", "--warm", "2") as apart:
        for way in KIND:
            runs = [
                partial(numbers, each[way], "calls", "latency", str(ROUNDS)) for each in (guests, apart)[: 1 + extra]
            ]
            for up, down in BYTES.values():
                runs.append(partial(plane_exchange, KIND[way], up, down, ROUNDS))
                runs.append(partial(exchange, "tcp" if way == "tcp" else "unix", up, down, ROUNDS))
            if way == "tcp":
                runs.append(partial(numbers, guests["tls"], "calls", "latency", str(ROUNDS)))
            found = medians(runs)
            ours, bare = found[0], found[1 + extra :]
            for number, name in enumerate(BYTES):
                same, socket = bare[2 * number]["exchange"], bare[2 * number + 1]["exchange"]
                ratio = ours[name] / same
                verdict = "reached" if ratio <= GOAL[way] else "missed"
                line = (
                    f"{label:14} {way:4} {name:18} {ours[name]:6.2f} us   bare {KIND[way]:4} {same:6.2f} us, ratio"
                    f" {ratio:5.2f} (goal {GOAL[way]:g}: {verdict})   bare socket {socket:6.2f} us, ratio"
                    f" {ours[name] / socket:5.2f}"
                )
                if extra:
                    line += f"   in a process of its own {found[1][name]:6.2f} us"
                print(line, flush=True)
                if way == "tcp":
                    encrypted = found[-1][name]
                    more = encrypted - ours[name]
                    print(
                        f"{label:14} tls  {name:18} {encrypted:6.2f} us   {more:+.2f} us to tcp, ratio"
                        f" {encrypted / ours[name]:5.2f} (goal +{TLS_GOAL:g} us: {'reached' if more <= TLS_GOAL else 'missed'})",
                        flush=True,
                    )


def main() -> None:
    processors = sorted(os.sched_getaffinity(0))
    compare("all processors", extra=True)
    os.sched_setaffinity(0, processors[:1])
    compare("one processor", extra=False)


if __name__ == "__main__":
    main()
