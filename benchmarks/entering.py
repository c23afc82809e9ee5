"""What entering a loop costs that the host decides (docs/explanation/loops/slices.md), where it has few iterations.

One program enters such a loop many times, each time for 1, 2, 3 or 10 iterations. Pairs of runs on one host, which begin
with either mode in turn: the ratio of processor time, loops over calls, of guest and of host, and the round trips.
"""

from __future__ import annotations

import os
import statistics
from pathlib import Path

from _guest import PROGRAMS
from farlane.frontend import manifests
from farlane.frontend.devtools.guest import Guest
from farlane.frontend.devtools.programs import Build, compile_program
from farlane.frontend.devtools.toolchain import install
from farlane.frontend.embedded import EmbeddedHost
from shapes import of_children, processor_of

ENTRIES = 300
ITERATIONS = (1, 2, 3, 10)
TURNS = 21  # pairs
ANALYZE_SECONDS = 60.0


def run(guest: Guest, host: int, words: list[str], mode: str, known: Path) -> tuple[float, float, int, str]:
    """Processor seconds of guest and host, round trips, and what the program prints."""
    before = of_children(), processor_of(host)
    outcome = guest.run(words, mode, extra={"FARLANE_MANIFESTS": str(known)})
    after = of_children(), processor_of(host)
    if outcome.status:
        raise SystemExit(f"{' '.join(words)} failed in mode {mode} (status {outcome.status}): {outcome.stderr}")
    return after[0] - before[0], after[1] - before[1], outcome.report.round_trips, outcome.stdout


def main() -> None:
    os.environ["FARLANE_JIT_TIERS"] = "off"
    program = compile_program(install("13.0"), [PROGRAMS / "entering.cu"], "entering", Build())
    known = manifests.prepare(program, os.environ, ANALYZE_SECONDS, print)
    if known is None:
        raise SystemExit("the program has no manifest: install the analyzer")
    print(f"{ENTRIES} entries, loops over calls; load {os.getloadavg()[0]:.1f}")
    with EmbeddedHost("sim") as host:
        guest = Guest(host.url)
        for iterations in ITERATIONS:
            words, pairs = [str(program), str(ENTRIES), str(iterations)], []
            for turn in range(TURNS + 1):
                modes = ("calls", "loops") if turn % 2 else ("loops", "calls")
                found = {mode: run(guest, host.pid, words, mode, known) for mode in modes}
                if found["calls"][3] != found["loops"][3]:
                    raise SystemExit(f"{' '.join(words)} prints something else in mode loops")
                if turn:  # the first one fills the host's caches
                    pairs.append((found["calls"], found["loops"]))
            guests, hosts = (statistics.median(loops[at] / calls[at] for calls, loops in pairs) for at in (0, 1))
            calls, loops = pairs[-1]
            print(
                f"{iterations:3} iterations: guest {guests:.2f}, host {hosts:.2f} of mode calls' processor time;"
                f" {loops[2]} round trips for {calls[2]}",
                flush=True,
            )


if __name__ == "__main__":
    main()
