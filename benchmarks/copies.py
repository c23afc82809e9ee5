"""Copies to and from the device, waited for, beside memcpy and a bare socket of the same size in the same run.

Usage: python benchmarks/copies.py [null|sim ...]

The null device keeps nothing, so this is the path alone; the simulated device adds a memcpy on its side. Every byte travels:
what is gained by not sending it is payloads.py's subject. Ratios have goals: to memcpy over shared memory, to a bare
socket over TCP, and to TCP over TLS.
"""

from __future__ import annotations

import sys
from functools import partial

from _guest import TRANSPORTS, exchange, host, medians, numbers

SIZES = {64 << 10: 400, 1 << 20: 100, 64 << 20: 5}  # bytes: copies in each of the runs
TLS_GOAL = 1.15  # times TCP
GOALS = {
    **{("shm", size): goal for size, goal in zip(SIZES, (25, 3, 1.6), strict=True)},  # times memcpy
    **{("tcp", size): 1.6 for size in (1 << 20, 64 << 20)},  # times a bare socket
}


def verdict(ratio: float, goal: float | None) -> str:
    return "" if goal is None else f"   goal {goal:g}: {'reached' if ratio <= goal else 'missed'}"


def compare(device: str, transport: str, size: int, runs: tuple[dict[str, float], ...]) -> None:
    """Prints both directions."""
    ours, up, down = runs
    for name, bare in (("to_device", up), ("to_host", down)):
        rate = size / ours[name] / 1000
        memcpy, socket = ours[name] / ours["memcpy"], ours[name] / bare["exchange"]
        goal = verdict(memcpy if transport == "shm" else socket, GOALS.get((transport, size)))
        print(
            f"{device:4} {transport:4} {size >> 10:6} KiB {name:9} {ours[name]:10.1f} us {rate:6.2f} GB/s"
            f"   {memcpy:7.1f} times memcpy   {socket:6.2f} times a bare socket{goal}",
            flush=True,
        )


def compare_encrypted(device: str, size: int, tls: dict[str, float], tcp: dict[str, float]) -> None:
    """Prints both directions."""
    for name in ("to_device", "to_host"):
        rate = size / tls[name] / 1000
        ratio = tls[name] / tcp[name]
        print(
            f"{device:4} tls  {size >> 10:6} KiB {name:9} {tls[name]:10.1f} us {rate:6.2f} GB/s"
            f"   {ratio:6.2f} times tcp{verdict(ratio, TLS_GOAL)}",
            flush=True,
        )


def main() -> None:
    for device in sys.argv[1:] or ("null", "sim"):
        with host(device) as guests:
            for transport in TRANSPORTS:
                for size, rounds in SIZES.items():
                    copy = ("copies", str(size), str(rounds))
                    kinds = (transport, "tls") if transport == "tcp" else (transport,)
                    runs = medians(
                        [
                            partial(exchange, transport, size, 16, rounds),
                            partial(exchange, transport, 16, size, rounds),
                            *(partial(numbers, guests[kind], "calls", *copy, FARLANE_PAYLOADS="off") for kind in kinds),
                        ]
                    )
                    up, down, ours, *encrypted = map(dict, runs)
                    compare(device, transport, size, (ours, up, down))
                    for found in encrypted:
                        compare_encrypted(device, size, found, ours)


if __name__ == "__main__":
    main()
