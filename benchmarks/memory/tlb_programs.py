"""TLB hierarchies on nine real programs that the simulated device executes, in one run: S3's directories and their rivals against the goals.

    python benchmarks/memory/tlb_programs.py [--preset mgpusim] [--programs gemm,fft] [--grid] [--cost] [--traces FOLDER]

Each program (cuda/) runs once and says whether its result is right; the device records what its cores ask, and every hierarchy gets the same requests and begins empty. All
counts are the same on every run. `--grid` tries the thresholds of S3 too. `--cost` measures instead what the model costs, in processor time of the kernels' thread, and
what the fast mode leaves out. `--traces` keeps the recorded requests, or takes them from there.
"""

from __future__ import annotations

import argparse
import json
import os
import select
import signal
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from farlane.backend.device import options
from farlane.backend.device.sim.options import Settings
from farlane.backend.memory import config
from farlane.backend.simulation import running, sweep
from farlane.frontend.devtools.programs import Build, compile_program
from farlane.frontend.devtools.toolchain import install
from farlane.hosturl import variables as names

CUDA = Path(__file__).parent / "cuda"
#: Programs, and what each is.
PROGRAMS = {
    "gemm": "matrix product, 512 x 512",
    "transpose": "2048 x 2048",
    "stencil": "five points, 2048 x 1024, two rounds",
    "spmv": "12288 rows of 32 random columns of 2^21",
    "bfs": "2^16 nodes of 8 random edges",
    "fft": "2^19 points, and back",
    "gups": "2^19 updates of 64 MiB",
    "kmeans": "32768 points of 32 dimensions, two rounds",
    "reduction": "2^23 numbers",
}
WALK_GOALS = {"fft": -0.35, "spmv": -0.25}
RUNS = 5
TURNS = 3
SLOWDOWN, TRANSLATION = 1.5, 1.1


def compiled(name: str) -> str:
    return str(compile_program(install("13.0"), [CUDA / f"{name}.cu"], name, Build()))


def recorded(name: str, preset: str, folder: Path) -> Path:
    """The trace of a program's requests."""
    trace = folder / f"{name}.zip"
    if not trace.exists():
        outcome = running.run([compiled(name)], Settings(preset, str(folder / f"{name}.json"), str(trace), tlb=False))
        if outcome.status:
            raise SystemExit(f"{name} ended with status {outcome.status}")
    return trace


def compare(names: Sequence[str], preset: str, folder: Path, grid: bool) -> None:
    base = config.preset(preset)
    specs = sweep.hierarchies(base.tlb)
    literal = specs["s3"]
    print(
        f"preset {preset}; bits per core: private TLB {base.tlb.private.entries * base.tlb.private_entry_bits}, directory {literal.directory_bits};"
        f" the same bits as private entries: {specs['larger'].private.entries}"
    )
    results = []
    for name in names:
        with sweep.Program(name, recorded(name, preset, folder)) as program:
            results.append(sweep.compare(program, base, specs, grid))
        print(f"{sweep.text(results[-1])}", flush=True)
    print(
        "\nGoals: peers serve half of the private misses where the oracle finds half; 80 % of the oracle's gain; no program 1 % slower"
    )
    print("sharing programs: " + (", ".join(result.name for result in results if result.sharing) or "none"))
    print(sweep.summary(results))
    for name, goal in WALK_GOALS.items():
        for result in (result for result in results if result.name == name):
            none = result.counts["none"].walks
            reached = {
                key: counts.walks / none - 1 for key, counts in result.counts.items() if key in sweep.DIRECTORIES
            }
            shown = ", ".join(
                f"{key} {change:+.1%} {'met' if change <= goal else 'missed'}" for key, change in reached.items()
            )
            print(f"walks of {name}, goal {goal:+.0%}: {shown}")


# Cost ----------------------------------------------------------------------------------------------------------------
@contextmanager
def timed_host(kind: str, settings: Path | None, folder: Path) -> Iterator[str]:
    url = f"unix://{folder}/host.sock"
    reader, writer = os.pipe()
    variables = {key: value for key, value in os.environ.items() if not key.startswith("FARLANE_SIM")}
    variables["FARLANE_SIM_THREADS"] = "1"
    variables[options.TIERS] = "off"  # kernels have tier 2 code at once
    if settings is not None:
        variables[names.MODEL] = str(settings)
    command = [sys.executable, str(Path(__file__).parent / "timed_host.py"), kind, "--listen", url, "--no-analyze"]
    command += ["--die-with-parent", str(os.getpid()), "--log-level", "error", "--ready-fd", str(writer)]
    with subprocess.Popen(command, pass_fds=(writer,), env=variables, stdout=subprocess.DEVNULL) as host:
        os.close(writer)
        select.select([reader], [], [], 120)
        os.close(reader)
        yield url
        host.send_signal(signal.SIGTERM)


def seconds(name: str, kind: str, wanted: Settings | None, runs: int) -> tuple[float, float]:
    """Processor seconds of a program's kernels, and of the model: medians over so many runs on one host."""
    with tempfile.TemporaryDirectory(prefix="farlane-cost-") as place:
        folder = Path(place)
        settings = None
        if wanted is not None:
            wanted = Settings(wanted.memory, str(folder / "model.json"), tlb=wanted.tlb, fast=wanted.fast)
            settings = folder / "settings.json"
            settings.write_text(json.dumps(asdict(wanted)))
        with timed_host(kind, settings, folder) as url:
            command = [sys.executable, "-m", "farlane.frontend.cli", "run", "--host", url, "--no-manifest", "--report"]
            kernels = []
            for _ in range(runs):
                subprocess.run(
                    [*command, f"json:{folder}/run.json", "--", compiled(name)], check=True, capture_output=True
                )
                kernels.append(float(json.loads((folder / "run.json").read_text())["device_seconds"]))
        model = [0.0]
        if wanted is not None:
            found = [session["seconds"] for session in running.collect(folder / "model.json")]
            model = [each["slots"] + each["order"] + each["tlb"] for each in found]
        return statistics.median(kernels), statistics.median(model)


def cost(names: Sequence[str], preset: str, runs: int, folder: Path) -> None:
    modes = {
        "untranslated": ("untranslated", None),
        "translated": ("translated", None),
        "recorded": ("translated", Settings(preset, "", tlb=False)),
        "model": ("translated", Settings(preset, "")),
        "fast": ("translated", Settings(preset, "", fast=True)),
    }
    print(
        f"processor seconds of the kernels' thread, one thread, medians of {runs} runs, {TURNS} times in turn (with the model {max(1, runs // 3)}); preset {preset}"
    )
    print(
        f"  {'':11}{'no checks':>10} {'translation':>12} {'ratio':>6} {'recording and placing':>22} {'ratio':>7} {'with TLBs':>10} {'ratio':>7}"
        f" {'us a request':>13} {'fast mode':>10} {'ratio':>7}"
    )
    ratios: dict[str, list[float]] = {"translated": [], "model": [], "fast": []}
    for name in names:
        at = {}
        for mode, (kind, wanted) in modes.items():
            if wanted is not None:
                at[mode] = sum(seconds(name, kind, wanted, max(1, runs // 3)))
        bare_kernels = [mode for mode, (_, wanted) in modes.items() if wanted is None]
        found: dict[str, list[float]] = {mode: [] for mode in bare_kernels}
        for _ in range(TURNS):  # these differ by less than the machine from one minute to the next
            for mode in bare_kernels:
                found[mode].append(sum(seconds(name, modes[mode][0], None, runs)))
        at |= {mode: statistics.median(each) for mode, each in found.items()}
        bare, plain = at["untranslated"], at["translated"]
        ratios["translated"].append(plain / bare)
        ratios["model"].append(at["model"] / plain)
        ratios["fast"].append(at["fast"] / plain)
        with sweep.Program(name, recorded(name, preset, folder)) as program:
            each = (at["model"] - plain) / program.requests * 1e6
        print(
            f"  {name:11}{bare:10.4f} {plain:12.4f} {plain / bare:6.2f} {at['recorded']:22.3f} {at['recorded'] / plain:7.2f}"
            f" {at['model']:10.3f} {at['model'] / plain:7.2f} {each:13.2f} {at['fast']:10.3f} {at['fast'] / plain:7.2f}",
            flush=True,
        )
    for mode, goal in (("translated", TRANSLATION), ("model", SLOWDOWN), ("fast", SLOWDOWN)):
        mean = statistics.geometric_mean(ratios[mode])
        print(f"{mode}: {mean:.2f} times on average, goal {goal}: {'met' if mean <= goal else 'missed'}")


def fast_mode(names: Sequence[str], preset: str, folder: Path) -> None:
    """What leaving out repeated requests changes."""
    base = config.preset(preset)
    print("\nthe fast mode against the exact one:")
    for name in names:
        with sweep.Program(name, recorded(name, preset, folder)) as program:
            for hierarchy, spec in sweep.hierarchies(base.tlb, ["peers"]).items():
                exact, less = (sweep.total(program, spec, fast=fast) for fast in (False, True))
                print(
                    f"  {name:11}{hierarchy:6} leaves out {program.left_out(spec):6.1%}: latency {less.latency / exact.latency - 1:+7.2%},"
                    f" walks {less.walks / exact.walks - 1:+7.2%}, private hits {less.private_hits - exact.private_hits:+9},"
                    f" cycles {less.cycles / exact.cycles - 1:+7.2%}",
                    flush=True,
                )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--preset", default="mgpusim", choices=config.presets())
    parser.add_argument("--programs", default=",".join(PROGRAMS))
    parser.add_argument("--grid", action="store_true")
    parser.add_argument("--cost", action="store_true")
    parser.add_argument("--runs", type=int, default=RUNS, help="of each program, for --cost")
    parser.add_argument("--traces", type=Path)
    arguments = parser.parse_args()
    names = arguments.programs.split(",")
    print("; ".join(f"{name}: {PROGRAMS[name]}" for name in names))
    with tempfile.TemporaryDirectory(prefix="farlane-traces-") as place:
        folder = (arguments.traces or Path(place)).absolute()
        folder.mkdir(parents=True, exist_ok=True)
        if arguments.cost:
            cost(names, arguments.preset, arguments.runs, folder)
            fast_mode(names, arguments.preset, folder)
        else:
            compare(names, arguments.preset, folder, arguments.grid)


if __name__ == "__main__":
    main()
