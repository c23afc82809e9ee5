"""What a call costs the guest's thread: in a loop that is recognised (mode loops), and beside it in mode calls, on the null device.

The two modes run in turns in one session of a host; figures are medians over runs of the medians over batches. The whole call is
measured, from the program's call instruction on: the launch's checks and its parameters are in it, in both modes.
"""

from __future__ import annotations

import functools
import json
import statistics

from _guest import PROGRAMS, RUNS, host
from farlane.frontend.devtools.guest import Guest
from farlane.frontend.devtools.programs import Build, compile_program
from farlane.frontend.devtools.toolchain import install

CALLS = 200_000
GOALS = {"constant": 0.15, "affine": 0.15, "body of 8": 0.15, "values": 0.5, "no loop": 0.5}  # microseconds


@functools.cache
def program() -> str:
    return str(compile_program(install("13.0"), [PROGRAMS / "recorder.cu"], "recorder", Build()))


def run(guest: Guest, mode: str) -> dict[str, float]:
    outcome = guest.run([program(), str(CALLS)], mode, timeout=600, extra={"FARLANE_MANIFESTS": "off"})
    if outcome.status:
        raise SystemExit(f"the guest failed (status {outcome.status}): {outcome.stderr}")
    found: dict[str, float] = json.loads(outcome.stdout)
    return found


def main() -> None:
    results: dict[str, list[dict[str, float]]] = {"calls": [], "loops": []}
    with host("null") as guests:
        for _ in range(RUNS):
            for mode, found in results.items():
                found.append(run(guests["unix"], mode))
    print(f"{'one call, us':14} {'mode calls':>11} {'mode loops':>11} {'ratio':>7}   goal")
    for name, goal in GOALS.items():
        calls, loops = (statistics.median(one[name] for one in results[mode]) for mode in ("calls", "loops"))
        verdict = "reached" if loops <= goal else "missed"
        print(f"{name:14} {calls:11.3f} {loops:11.3f} {loops / calls:7.2f}   {goal} us: {verdict}")


if __name__ == "__main__":
    main()
