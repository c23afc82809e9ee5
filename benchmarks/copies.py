"""Copies to and from the device, waited for, beside memcpy and a bare socket of the same size in the same run.

The null device keeps nothing, so this is the path alone; the simulated device adds a memcpy on its side. Every byte travels:
what is gained by not sending it is payloads.py's subject.
"""

from __future__ import annotations

from functools import partial

from _guest import TRANSPORTS, exchange, host, medians, numbers

SIZES = {64 << 10: 400, 1 << 20: 100, 64 << 20: 5}  # bytes: copies in each of the runs


def main() -> None:
    for device in ("null", "sim"):
        with host(device) as guests:
            for transport in TRANSPORTS:
                for size, rounds in SIZES.items():
                    ours, up, down = medians(
                        [
                            partial(
                                numbers,
                                guests[transport],
                                "calls",
                                *("copies", str(size), str(rounds)),
                                FARLANE_PAYLOADS="off",
                            ),
                            partial(exchange, transport, size, 16, rounds),
                            partial(exchange, transport, 16, size, rounds),
                        ]
                    )
                    for name, bare in (("to_device", up), ("to_host", down)):
                        rate = size / ours[name] / 1000
                        print(
                            f"{device:4} {transport:4} {size >> 10:6} KiB {name:9} {ours[name]:10.1f} us {rate:6.2f} GB/s"
                            f"   {ours[name] / ours['memcpy']:7.1f} times memcpy"
                            f"   {ours[name] / bare['exchange']:6.2f} times a bare socket"
                        )


if __name__ == "__main__":
    main()
