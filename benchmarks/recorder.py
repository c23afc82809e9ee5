"""What a call costs the guest's thread: in a loop that is recognised (mode loops), and beside it in mode calls, on the null device.

"driver" is cuLaunchKernel with the arguments of "affine", which is cudaLaunchKernel. "embedded" is cudaLaunchKernel of a runtime that is linked into a
stripped program and runs on the driver API (docs/explanation/interoperability.md). The two modes run in turns in one session of a host; figures are medians over runs of the medians over batches. The whole call is
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
DRIVER_RATIO = 1.0  # of cuLaunchKernel's time to cudaLaunchKernel's
EMBEDDED_MORE = 0.3  # microseconds of an embedded runtime's launch beyond the shared one's
SHARED = Build(driver=True)
EMBEDDED = Build(driver=True, cudart="static", nvcc_flags=("-Xlinker", "-s"))


@functools.cache
def program(build: Build) -> str:
    return str(compile_program(install("13.0"), [PROGRAMS / "recorder.cu"], f"recorder_{build.cudart}", build))


def run(guest: Guest, mode: str, build: Build) -> dict[str, float]:
    extra = {"FARLANE_MANIFESTS": "off", "FARLANE_INTEROP": "1"}
    outcome = guest.run([program(build), str(CALLS)], mode, timeout=600, extra=extra)
    if outcome.status:
        raise SystemExit(f"the guest failed (status {outcome.status}): {outcome.stderr}")
    found: dict[str, float] = json.loads(outcome.stdout)
    return found


def main() -> None:
    results: dict[str, list[dict[str, float]]] = {"calls": [], "loops": []}
    with host("null") as guests:
        for _ in range(RUNS):
            for mode, found in results.items():
                embedded = run(guests["unix"], mode, EMBEDDED)
                found.append(run(guests["unix"], mode, SHARED) | {"embedded": embedded["affine"]})
    medians = {
        mode: {name: statistics.median(one[name] for one in found) for name in found[0]}
        for mode, found in results.items()
    }
    calls, loops = medians["calls"], medians["loops"]
    print(f"{'one call, us':14} {'mode calls':>11} {'mode loops':>11} {'ratio':>7}   goal")
    for name, time in loops.items():
        if name == "driver":
            goal, reached = f"{DRIVER_RATIO:.1f} of affine", time <= DRIVER_RATIO * loops["affine"]
        elif name == "embedded":
            goal, reached = f"affine + {EMBEDDED_MORE} us", time <= loops["affine"] + EMBEDDED_MORE
        else:
            goal, reached = f"{GOALS[name]} us", time <= GOALS[name]
        verdict = "reached" if reached else "missed"
        print(f"{name:14} {calls[name]:11.3f} {time:11.3f} {time / calls[name]:7.2f}   {goal}: {verdict}")


if __name__ == "__main__":
    main()
