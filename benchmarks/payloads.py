"""Copies to the device with and without the book of payloads, in one run: the same bytes again, new ones, compressible ones.

What the book costs where nothing repeats ("fresh") is as much its figure as what it saves ("same").
"""

from __future__ import annotations

from functools import partial

from _guest import TRANSPORTS, host, medians, numbers

KINDS = ("same", "fresh", "zeros")
SIZES = {4 << 10: 400, 64 << 10: 200, 1 << 20: 60, 16 << 20: 8}  # bytes: copies in each of the runs


def main() -> None:
    with host("sim") as guests:
        for transport in TRANSPORTS:
            for kind in KINDS:
                for size, rounds in SIZES.items():
                    run = partial(numbers, guests[transport], "calls", "upload", str(size), str(rounds), kind)
                    ours, plain = medians([run, partial(run, FARLANE_PAYLOADS="off")])
                    print(
                        f"{transport:4} {kind:5} {size >> 10:6} KiB {ours['upload']:10.1f} us, all sent {plain['upload']:10.1f} us:"
                        f" {plain['upload'] / ours['upload']:6.2f} times as fast"
                    )


if __name__ == "__main__":
    main()
