"""What one round trip costs: launch and synchronize, and a copy of 4 bytes to the host, on the null device.

Beside a host that gives each session a process of its own, and beside a bare exchange of as many bytes between two
processes over the same kind of socket, in the same run.
"""

from __future__ import annotations

from functools import partial

from _guest import exchange, host, medians, numbers

ROUNDS = 2000
# Bytes of messages up and down: a LAUNCH and a DEVICE_SYNCHRONIZE, a READ; a STATUS, 4 bytes of DATA; gRPC's frames.
BYTES = {"launch_synchronize": (128, 64), "copy_4_bytes": (96, 80)}


def main() -> None:
    with host("null") as guests, host("null", "--workers", "process", "--warm", "2") as apart:
        for way in guests:
            runs = [partial(numbers, each[way], "calls", "latency", str(ROUNDS)) for each in (guests, apart)]
            socket = "tcp" if way == "tcp" else "unix"
            runs += [partial(exchange, socket, up, down, ROUNDS) for up, down in BYTES.values()]
            ours, process, *bare = medians(runs)
            for name, reference in zip(BYTES, bare, strict=True):
                print(
                    f"{way:4} {name:20} {ours[name]:7.1f} us   in a process of its own {process[name]:7.1f} us, ratio"
                    f" {process[name] / ours[name]:5.2f}   bare socket {reference['exchange']:6.1f} us, ratio"
                    f" {ours[name] / reference['exchange']:5.1f}"
                )


if __name__ == "__main__":
    main()
