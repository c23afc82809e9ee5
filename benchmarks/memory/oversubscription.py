"""Programs on a device with less memory than they use: what each policy moves, and what it costs.

    python benchmarks/memory/oversubscription.py [--times 2 4 8] [--scenarios mixing layers pointers] [--repetitions 3]

Each program (tests/e2e/calls/programs/reuse.cu) runs with enough memory and with 2 MiB, under every policy, on the same host program; outputs are compared. Bytes are exact. What a policy knows of the future ends where a message
ends, and the shim sends a message that has waited for 200 us: a program that is held up may move other bytes, and then the least and the most are printed. The device's time is the median of the repetitions, in CPU seconds of the host's kernels and copies: runs are interleaved.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from farlane.backend.memory.replacement import POLICIES
from farlane.frontend.devtools.programs import Build, compile_program
from farlane.frontend.devtools.toolchain import install

SOURCE = Path(__file__).resolve().parents[2] / "tests" / "e2e" / "calls" / "programs" / "reuse.cu"
DEVICE = 2  # MiB


class Run(NamedTuple):
    output: str
    seconds: float  # of the device
    counts: dict[str, int]


def run(program: str, scenario: str, times: int, policy: str | None, folder: Path) -> Run:
    report = folder / "report.json"
    options = ["--device-memory", f"{DEVICE}M", "--memory-policy", policy] if policy else []
    command = [
        sys.executable,
        "-m",
        "farlane.frontend.cli",
        "run",
        "--no-manifest",
        *options,
        "--report",
        f"json:{report}",
    ]
    words = [program, scenario, str(times * DEVICE)]
    done = subprocess.run([*command, "--", *words], capture_output=True, text=True, check=True)
    found = json.loads(report.read_text())
    counts = next((counts for name, counts in found["sections"].items() if name.startswith("memory (")), {})
    return Run(done.stdout, found["device_seconds"], counts)


def span(runs: Sequence[Run], name: str) -> str:
    """A count of runs: what all have, or the least and the most."""
    values = sorted({each.counts[name] for each in runs})
    shown = [f"{value / 2**20:.2f}" if name.startswith("bytes") else str(value) for value in values]
    return f"{shown[0] if len(shown) == 1 else f'{shown[0]}..{shown[-1]}':>8}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, nargs="+", default=[2, 4, 8])
    parser.add_argument("--scenarios", nargs="+", default=["mixing", "layers", "pointers"])
    parser.add_argument("--repetitions", type=int, default=3)
    options = parser.parse_args()
    program = str(compile_program(install("13.0"), [SOURCE], "reuse", Build()))
    print(f"device memory {DEVICE} MiB; what moved, requests, device time over that with enough memory")
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        for scenario in options.scenarios:
            for times in options.times:
                rounds = [
                    {name: run(program, scenario, times, name, folder) for name in (None, *POLICIES)}
                    for _ in range(options.repetitions)
                ]
                enough = statistics.median(each[None].seconds for each in rounds)
                for policy in POLICIES:
                    runs = [each[policy] for each in rounds]
                    assert {each.output for each in runs} == {rounds[0][None].output}, f"{scenario}: another output"
                    slower = statistics.median(each.seconds for each in runs) / enough
                    print(
                        f"  {scenario:9} {times}x  {policy:8} {span(runs, 'bytes_in')} MiB in {span(runs, 'bytes_out')} MiB out"
                        f"  {span(runs, 'requests')} requests  {slower:6.1f} times",
                        flush=True,
                    )


if __name__ == "__main__":
    main()
