"""Programs on a device with less memory than they use: what each policy moves, and what it costs.

    python benchmarks/memory/oversubscription.py [--times 2 4 8] [--scenarios mixing layers pointers] [--repetitions 3]

Each program (tests/e2e/programs/reuse.cu) runs with enough memory and with 2 MiB, under every policy, on the same host program; outputs are compared. Bytes are exact and the same in
every run. The device's time is the median of the repetitions, in CPU seconds of the host's kernels and copies: runs are interleaved.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from farlane.backend.memory.planner.policies import POLICIES
from farlane.frontend.devtools.programs import Build, compile_program
from farlane.frontend.devtools.toolchain import install

SOURCE = Path(__file__).resolve().parents[2] / "tests" / "e2e" / "programs" / "reuse.cu"
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, nargs="+", default=[2, 4, 8])
    parser.add_argument("--scenarios", nargs="+", default=["mixing", "layers", "pointers"])
    parser.add_argument("--repetitions", type=int, default=3)
    options = parser.parse_args()
    program = str(compile_program(install("13.0"), [SOURCE], "reuse", Build()))
    print(f"device memory {DEVICE} MiB; MiB in, MiB out, requests, device time over that with enough memory")
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
                    assert len({(each.counts["bytes_in"], each.counts["bytes_out"]) for each in runs}) == 1
                    counts = runs[0].counts
                    slower = statistics.median(each.seconds for each in runs) / enough
                    print(
                        f"  {scenario:9} {times}x  {policy:8} {counts['bytes_in'] / 2**20:8.2f} in {counts['bytes_out'] / 2**20:8.2f} out"
                        f"  {counts['requests']:6} requests  {slower:6.1f} times",
                        flush=True,
                    )


if __name__ == "__main__":
    main()
