"""Copies to and from the device, waited for, beside memcpy and bare exchanges of the same size in the same run.

Usage: python benchmarks/copies.py [null|sim ...] [--only shm|unix|tcp] [--link 10gbit]    TLS is measured with TCP

The null device keeps nothing, so this is the path alone; the simulated device adds a memcpy on its side. Every byte travels:
what is gained by not sending it is payloads.py's subject. Ratios have goals: to memcpy over shared memory, to a bare
socket over TCP, and to TCP over TLS. What no session can do without stands beside: a bare ring, and what the ciphers take
for the bytes in one process.

The loopback has no rate: bytes pass there as fast as both processors copy them, which are those that encrypt, too. With
`--link RATE` (tc(8)'s words; as root) all of this runs in a network of its own, whose loopback has a network's rate.
"""

from __future__ import annotations

import argparse
import ctypes
import subprocess
from functools import partial

from _guest import TRANSPORTS, Numbers, ciphers, exchange, host, medians, numbers, plane_exchange
from farlane.frontend.devtools.guest import Guest

SIZES = {64 << 10: 400, 1 << 20: 100, 64 << 20: 5}  # bytes: copies in each of the runs
CLONE_NEWNET = 0x40000000  # of unshare(2)
TLS_GOAL = 1.15  # times TCP
CIPHERS = ("aes_128", "aes_256", "chacha20")  # the first is the one that is used
SIDES = {"to_device": ("guest", "host"), "to_host": ("host", "guest")}  # what encrypts, and what decrypts
GOALS = {
    **{("shm", size): goal for size, goal in zip(SIZES, (25, 3, 1.6), strict=True)},  # times memcpy
    **{("tcp", size): 1.6 for size in (1 << 20, 64 << 20)},  # times a bare socket
}


def verdict(ratio: float, goal: float | None) -> str:
    return "" if goal is None else f"   goal {goal:g}: {'reached' if ratio <= goal else 'missed'}"


def compare(device: str, transport: str, size: int, runs: tuple[Numbers, ...]) -> None:
    """Prints both directions. Of shared memory the bare exchanges are those of rings."""
    ours, up, down = runs
    kind = "ring" if transport == "shm" else "socket"
    for name, bare in (("to_device", up), ("to_host", down)):
        rate = size / ours[name] / 1000
        memcpy, exchanged = ours[name] / ours["memcpy"], ours[name] / bare["exchange"]
        goal = verdict(memcpy if transport == "shm" else exchanged, GOALS.get((transport, size)))
        print(
            f"{device:4} {transport:4} {size >> 10:6} KiB {name:9} {ours[name]:10.1f} us {rate:6.2f} GB/s"
            f"   {memcpy:7.1f} times memcpy   {exchanged:6.2f} times a bare {kind}{goal}",
            flush=True,
        )


def compare_encrypted(device: str, size: int, tls: Numbers, tcp: Numbers, alone: Numbers) -> None:
    """Prints both directions, and what the bytes cost in each cipher: once encrypted and once decrypted."""
    for name, (sender, receiver) in SIDES.items():
        costs = {each: alone[f"{sender}_{each}_seal"] + alone[f"{receiver}_{each}_open"] for each in CIPHERS}
        rate = size / tls[name] / 1000
        ratio = tls[name] / tcp[name]
        least = 1 + costs[CIPHERS[0]] / tcp[name]
        print(
            f"{device:4} tls  {size >> 10:6} KiB {name:9} {tls[name]:10.1f} us {rate:6.2f} GB/s"
            f"   {ratio:6.2f} times tcp{verdict(ratio, TLS_GOAL)}; with the cipher alone {least:.2f}",
            flush=True,
        )
        each = ", ".join(f"{name} {cost:.1f} us" for name, cost in costs.items())
        print(
            f"{device:4} tls  {size >> 10:6} KiB {name:9} encrypting and decrypting by themselves: {each}", flush=True
        )


def copies(guest: Guest, size: int, rounds: int) -> Numbers:
    return numbers(guest, "calls", "copies", str(size), str(rounds), FARLANE_PAYLOADS="off")


def enter_link(rate: str) -> None:
    """Puts this process into a network namespace whose only link, the loopback, passes so many bits a second.

    Raises:
        OSError: not root.
        subprocess.CalledProcessError: `ip` or `tc` failed (package iproute2), and said why.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "a network namespace of its own")
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    # A burst passes at once: a little more than the largest segment, so that hardly a copy is faster than the link.
    shaped = ["tbf", "rate", rate, "burst", "70kb", "latency", "50ms"]
    subprocess.run(["tc", "qdisc", "add", "dev", "lo", "root", *shaped], check=True)


def main() -> None:
    parser = argparse.ArgumentParser(description="Copies beside memcpy and bare exchanges of the same size.")
    parser.add_argument("devices", nargs="*", default=("null", "sim"), metavar="null|sim")
    parser.add_argument("--only", choices=TRANSPORTS, help="one transport; TLS is measured with TCP")
    parser.add_argument("--link", metavar="RATE", help="of the loopback, such as 10gbit; needs root and tc(8)")
    arguments = parser.parse_args()
    if arguments.link:
        enter_link(arguments.link)
    for device in arguments.devices:
        with host(device) as guests:
            for transport in [arguments.only] if arguments.only else TRANSPORTS:
                bare = partial(plane_exchange, "ring") if transport == "shm" else partial(exchange, transport)
                for size, rounds in SIZES.items():
                    runs = [
                        partial(bare, size, 16, rounds),
                        partial(bare, 16, size, rounds),
                        partial(copies, guests[transport], size, rounds),
                    ]
                    if transport == "tcp":
                        runs += [partial(copies, guests["tls"], size, rounds), partial(ciphers, size, rounds)]
                    up, down, ours, *encrypted = medians(runs)
                    compare(device, transport, size, (ours, up, down))
                    if encrypted:
                        tls, alone = encrypted
                        compare_encrypted(device, size, tls, ours, alone)


if __name__ == "__main__":
    main()
