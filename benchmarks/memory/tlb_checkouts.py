"""The TLB hierarchy's compiled code of this checkout against another one's: processor time, as ratios, and equal counts.

    python benchmarks/memory/tlb_checkouts.py OTHER [--presets mgpusim,mgpusim-peers] [--programs gemm,fft] [--pairs 9]

`OTHER` is a folder with another commit of this repository (`git worktree add --detach`). Each of the two runs in a
process of its own, on the same generated streams (tlb_streams.py), in turn; what is measured is the processor time of
the thread that runs the model. Code for one configuration alone is used where the other checkout has it (`special`).
The first run of a checkout compiles, which takes tens of seconds.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import inspect
import os
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parents[2]


@functools.cache
def _work(name: str, preset: str) -> tuple[Any, Any, Any]:
    import tlb_streams
    from farlane.backend.memory import config

    spec = config.preset(preset).tlb
    program = tlb_streams.PROGRAMS[name]()
    return spec, program.space.table(spec.page_bytes), list(program.streams(spec.cores, spec.page_shift))


def serve() -> None:
    """In a checkout's process: runs each program that is asked for; writes seconds and counts."""
    from farlane.backend.memory.tlb.counts import Counts
    from farlane.backend.memory.tlb.fast import FastTlb

    special: dict[str, Any] = {"special": True} if "special" in inspect.signature(FastTlb).parameters else {}
    for line in sys.stdin:
        spec, table, streams = _work(*line.split())
        model, counts = FastTlb(spec, table, **special), Counts()
        model.load()
        begin = time.thread_time()
        for stream in streams:
            counts = counts + model.run(stream)
        print(time.thread_time() - begin, *dataclasses.astuple(counts), flush=True)


class Checkout:
    """A process with one checkout's model; ends with its standard input."""

    def __init__(self, root: Path, folder: Path) -> None:
        package = folder / "farlane"
        package.mkdir(parents=True)
        (package / "__init__.py").touch()
        (package / "backend").symlink_to(root / "backend")
        variables = {**os.environ, "PYTHONPATH": f"{folder}:{Path(__file__).parent}"}
        code = "import tlb_checkouts; tlb_checkouts.serve()"
        self._process = subprocess.Popen(
            [sys.executable, "-c", code], env=variables, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def run(self, name: str, preset: str) -> tuple[float, list[str]]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(name, preset, file=self._process.stdin, flush=True)
        words = self._process.stdout.readline().split()
        if not words:
            raise SystemExit("a checkout's process ended; its message is above")
        return float(words[0]), words[1:]

    def __enter__(self) -> Checkout:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()


def main() -> None:
    import tlb_streams

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("other", type=Path)
    parser.add_argument("--presets", default="mgpusim,mgpusim-peers")
    parser.add_argument("--programs", default=",".join(tlb_streams.PROGRAMS))
    parser.add_argument("--pairs", type=int, default=9)
    wanted = parser.parse_args()
    print(f"this checkout over {wanted.other}, {wanted.pairs} pairs; load {os.getloadavg()[0]:.1f}")
    print(f"  {'':16}{'':11}{'other, ms':>10} {'median':>7} {'of minimums':>12}")
    with ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="farlane-checkouts-")))
        own = stack.enter_context(Checkout(HERE, place / "own"))
        other = stack.enter_context(Checkout(wanted.other.resolve(), place / "other"))
        for preset in wanted.presets.split(","):
            medians, least = [], []
            for name in wanted.programs.split(","):
                if own.run(name, preset)[1] != other.run(name, preset)[1]:
                    raise SystemExit(f"{preset}, {name}: the counts differ")
                times = []
                for turn in range(wanted.pairs):
                    both = [side.run(name, preset)[0] for side in ((own, other) if turn % 2 else (other, own))]
                    times.append(both if turn % 2 else both[::-1])
                mine, theirs = zip(*times, strict=True)
                medians.append(statistics.median(one / another for one, another in times))
                least.append(min(mine) / min(theirs))
                print(
                    f"  {preset:16}{name:11}{min(theirs) * 1000:10.2f} {medians[-1]:7.3f} {least[-1]:12.3f}", flush=True
                )
            means = statistics.geometric_mean(medians), statistics.geometric_mean(least)
            print(f"  {preset:16}{'mean':11}{'':10} {means[0]:7.3f} {means[1]:12.3f}", flush=True)


if __name__ == "__main__":
    main()
