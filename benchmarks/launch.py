"""10,000 launches of a kernel with four arguments, then one synchronize, on the null device.

Round trips are exact (10,000 launches and a synchronize: 10,001 in mode none, 1 in mode calls, beyond what starting costs).
Times: one launch as the guest's thread sees it; and amortised, from the first launch to the end of the synchronize, the wire and the
host's replay included. References of the same run: appending a launch's 80 bytes to a buffer, and a bare socket's exchange.
"""

from __future__ import annotations

from functools import partial

from _guest import TRANSPORTS, exchange, host, measure, medians, numbers

LAUNCHES = 10_000
GOALS = {"launch": 0.5, "amortised": 2.0}  # microseconds, in mode calls


def main() -> None:
    with host("null") as guests:
        start = measure(guests["unix"], "calls", "launch", "0")[1].round_trips
        for mode in ("none", "calls"):
            # A first run of each mode without launches shows what starting costs.
            idle = measure(guests["unix"], mode, "launch", "0")[1].round_trips
            trips = measure(guests["unix"], mode, "launch", str(LAUNCHES))[1].round_trips - idle
            print(f"mode {mode:5}: {LAUNCHES:,} launches and a synchronize: {trips:,} round trips beyond the start")
        print(f"start of the process to the first synchronize: {start} round trips")
        for transport in TRANSPORTS:
            guest = guests[transport]
            calls, none, bare = medians(
                [
                    partial(numbers, guest, "calls", "launch", str(LAUNCHES)),
                    partial(numbers, guest, "none", "launch", "1000"),
                    partial(exchange, transport, 128, 64, 2000),
                ]
            )
            print(f"{transport}:")
            for name, goal in GOALS.items():
                verdict = "reached" if calls[name] <= goal else "missed"
                ratio = calls[name] / calls["append"]
                print(
                    f"  {name + ', mode calls':24} {calls[name]:9.3f} us   {ratio:8.1f} times an append"
                    f"   goal {goal} us: {verdict}"
                )
            ratio = none["launch"] / bare["exchange"]
            print(f"  {'launch, mode none':24} {none['launch']:9.3f} us   {ratio:8.1f} times a bare exchange")
            saved = none["amortised"] / calls["amortised"]
            print(f"  deferral makes a launch {saved:.0f} times cheaper")


if __name__ == "__main__":
    main()
