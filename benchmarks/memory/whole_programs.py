"""What the model costs whole programs: launcher, host and guest together, with the model off and on in turn.

    python benchmarks/memory/whole_programs.py [--programs gemm,fft] [--presets mgpusim,mgpusim-peers] [--runs 5]

Nine programs (cuda/), each run by `farlane run` on the embedded host; the model is switched on by FARLANE_SIM_MODEL and every request goes through it. Ratios are of medians, of processor time
and of wall time; `least` is the ratio of the least processor times, which a busy machine changes least. A first run of each, which compiles its kernels, is not counted. Python's bytecode is kept in a folder of its own, as an installed package has it. The goal is 1.5.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from farlane.backend.device.sim.options import Settings
from farlane.backend.memory import config
from farlane.backend.memory.cores.model import MemoryModel
from farlane.backend.memory.cores.touches import records
from farlane.backend.memory.slots.core import Demand
from farlane.hosturl.variables import MODEL
from tlb_programs import PROGRAMS, SLOWDOWN, compiled

RUNS = 5
OFF = "off"


def once(command: Sequence[str], environment: dict[str, str]) -> tuple[float, float]:
    """Processor and wall seconds of a run and of everything that it starts and waits for. Raises CalledProcessError."""
    begun = time.perf_counter()
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as running:
        assert running.stderr is not None
        said = running.stderr.read()
        _, status, used = os.wait4(running.pid, 0)
        wall = time.perf_counter() - begun
        running.returncode = os.waitstatus_to_exitcode(status)
    if status:
        raise subprocess.CalledProcessError(running.returncode, command, stderr=said)
    return used.ru_utime + used.ru_stime, wall


def prepare() -> None:
    """The model's compiled code is on disk behind this: a host does not wait until it is made, and would be ended before."""
    model = MemoryModel(config.preset(config.presets()[0]))
    model.begin("", 0, Demand(0, 16, 32), 1)
    model.touch(records([1], 0, 0, 0, 0))
    model.barrier()


def measure(name: str, presets: Sequence[str], runs: int, folder: Path) -> dict[str, tuple[float, float, float]]:
    """Median (processor, wall) seconds without the model and with each preset, and the least processor seconds."""
    base = {key: value for key, value in os.environ.items() if not key.startswith("FARLANE_SIM")}
    base.pop("PYTHONDONTWRITEBYTECODE", None)
    base["PYTHONPYCACHEPREFIX"] = str(folder / "bytecode")
    environments = {OFF: base}
    for preset in presets:
        report = folder / f"{name}-{preset}.json"
        settings = folder / f"{name}-{preset}-settings.json"
        settings.write_text(json.dumps(asdict(Settings(preset, str(report)))))
        environments[preset] = {**base, MODEL: str(settings)}
    command = [sys.executable, "-m", "farlane.frontend.cli", "run", "--no-manifest", "--", compiled(name)]
    found: dict[str, list[tuple[float, float]]] = {mode: [] for mode in environments}
    for mode, environment in environments.items():
        once(command, environment)
        if mode != OFF and not json.loads((folder / f"{name}-{mode}.json").read_text())["total"]["requests"]:
            raise SystemExit(f"{name}: the model with {mode} saw no request")
    for _ in range(runs):
        for mode, environment in environments.items():
            found[mode].append(once(command, environment))
    return {
        mode: (statistics.median(one[0] for one in each), statistics.median(one[1] for one in each), min(each)[0])
        for mode, each in found.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", default=",".join(PROGRAMS))
    parser.add_argument("--presets", default="mgpusim,mgpusim-peers")
    parser.add_argument("--runs", type=int, default=RUNS)
    arguments = parser.parse_args()
    presets = arguments.presets.split(",")
    for preset in presets:
        config.preset(preset)
    prepare()
    print(f"processor seconds / wall seconds, medians of {arguments.runs} runs in turn; load {os.getloadavg()[0]:.1f}")
    ratios: dict[str, list[tuple[float, ...]]] = {preset: [] for preset in presets}
    with tempfile.TemporaryDirectory(prefix="farlane-whole-") as place:
        for name in arguments.programs.split(","):
            found = measure(name, presets, arguments.runs, Path(place))
            plain = found[OFF]
            line = f"  {name:11}off {plain[0]:5.2f} / {plain[1]:5.2f}"
            for preset in presets:
                used = found[preset]
                ratio = tuple(with_model / without for with_model, without in zip(used, plain, strict=True))
                ratios[preset].append(ratio)
                line += f"   {preset} {used[0]:5.2f} / {used[1]:5.2f}, {ratio[0]:4.2f} / {ratio[1]:4.2f} times, least {ratio[2]:4.2f}"
            print(line, flush=True)
    for preset, each in ratios.items():
        for number, kind in enumerate(("processor", "wall", "least processor")):
            values = [one[number] for one in each]
            met = sum(value <= SLOWDOWN for value in values)
            print(
                f"{preset}, {kind} time: {statistics.geometric_mean(values):.2f} times on average, {max(values):.2f} at most;"
                f" goal {SLOWDOWN}: met by {met} of {len(values)}"
            )
    print(f"load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
