"""What one round trip costs: launch and synchronize, and a copy of 4 bytes to the host, on the null device.

Beside a bare exchange of as many bytes between two processes over the same kind of socket, in the same run.
"""

from __future__ import annotations

from functools import partial

from _guest import TRANSPORTS, exchange, host, medians, numbers

ROUNDS = 2000
# Bytes of messages up and down: a LAUNCH and a DEVICE_SYNCHRONIZE, a READ; a STATUS, 4 bytes of DATA; gRPC's frames.
BYTES = {"launch_synchronize": (128, 64), "copy_4_bytes": (96, 80)}


def main() -> None:
    with host("null") as guests:
        for transport in TRANSPORTS:
            runs = [partial(numbers, guests[transport], "calls", "latency", str(ROUNDS))]
            runs += [partial(exchange, transport, up, down, ROUNDS) for up, down in BYTES.values()]
            ours, *bare = medians(runs)
            for name, reference in zip(BYTES, bare, strict=True):
                ratio = ours[name] / reference["exchange"]
                print(
                    f"{transport:4} {name:20} {ours[name]:9.1f} us   bare exchange {reference['exchange']:7.1f} us"
                    f"   ratio {ratio:6.1f}"
                )


if __name__ == "__main__":
    main()
