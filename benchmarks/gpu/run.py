"""`make bench-gpu`: the same binaries natively and through Farlane on one GPU machine, in one run, as ratios.

Without a GPU it says so and ends well. `--device sim` runs the remote side alone on the simulated device, small, to try the benchmark itself.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from farlane.frontend import manifests
from farlane.frontend.devtools.guest import Guest
from farlane.frontend.devtools.programs import Build, compile_program
from farlane.frontend.devtools.toolchain import Toolchain, install
from farlane.frontend.embedded import EmbeddedHost

SOURCE = Path(__file__).with_name("workloads.cu")
# The workload, and the goal: remote time over native time, over a Unix socket.
WORKLOADS = {
    "launches": 1.0, "changing": 1.2, "synced": 2.0, "reading": 1.2, "upload": 1.2, "download": 1.2, "copies": 1.2, "matmul": 1.02, "cg": 1.2, "stencil": 1.2, "bfs": 1.2, "first": 0.0,
}  # fmt: skip
RUNS = 5
TOGETHER = 8
HINTS = 100
WARMING = 3.0  # seconds in which a host has a process ready for the next session
ANALYZE_SECONDS = 60.0


def gpu() -> str:
    """What nvidia-smi says; empty without a GPU."""
    query = ["nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"]
    try:
        return subprocess.run(query, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


@contextmanager
def host(device: str, graphs: str = "auto", *extra: str) -> Iterator[Guest]:
    """A host; the graphs of its GPU sessions are the environment's."""
    before = os.environ.get("FARLANE_GPU_GRAPHS")
    os.environ["FARLANE_GPU_GRAPHS"] = graphs
    try:
        with EmbeddedHost(device, extra=extra) as serving:
            yield Guest(serving.url)
    finally:
        os.environ.pop("FARLANE_GPU_GRAPHS")
        if before is not None:
            os.environ["FARLANE_GPU_GRAPHS"] = before


class Bench:
    def __init__(self, toolchain: Toolchain, device: str, scale: float) -> None:
        self.program = str(compile_program(toolchain, [SOURCE], "workloads", Build(architecture="sm_75")))
        self.library = toolchain.library_folder
        # As `farlane run` has them.
        self.manifests = manifests.prepare(Path(self.program), os.environ, ANALYZE_SECONDS, print)
        self.device = device
        self.scale = str(scale)

    def _parsed(self, what: str, status: int, out: str, err: str) -> dict[str, float]:
        if status:
            raise SystemExit(f"{what} failed (status {status}): {err.strip()}")
        found: dict[str, float] = json.loads(out)
        return found

    def native(self, workload: str) -> dict[str, float]:
        environment = os.environ | {"LD_LIBRARY_PATH": str(self.library)}
        done = subprocess.run(
            [self.program, workload, self.scale], env=environment, capture_output=True, text=True, timeout=300
        )
        return self._parsed(f"{workload}, natively,", done.returncode, done.stdout, done.stderr)

    def remote(self, guest: Guest, workload: str) -> dict[str, float]:
        extra = {"FARLANE_MANIFESTS": str(self.manifests)} if self.manifests else {}
        outcome = guest.run([self.program, workload, self.scale], "loops", timeout=300, extra=extra)
        return self._parsed(f"{workload} through Farlane", outcome.status, outcome.stdout, outcome.stderr)

    def ratios(self) -> None:
        """Native and remote in turn; the medians and their ratio."""
        natively = self.device == "cupy"
        print(f"{'workload':10} {'native ms':>12} {'remote ms':>12} {'ratio':>7}  goal")
        with host(self.device) as guest:
            for workload, goal in WORKLOADS.items():
                ours, theirs, sums = [], [], set()
                for _ in range(RUNS):
                    if workload == "first":
                        time.sleep(WARMING)
                    remote = self.remote(guest, workload)
                    ours.append(remote["milliseconds"])
                    sums.add(remote["checksum"])
                    if natively:
                        native = self.native(workload)
                        theirs.append(native["milliseconds"])
                        sums.add(native["checksum"])
                if len(sums) > 1:
                    raise SystemExit(f"{workload}: results differ: {sorted(sums)}")
                mine = statistics.median(ours)
                other = statistics.median(theirs) if theirs else float("nan")
                verdict = f"at most {goal}: {'met' if mine <= goal * other else 'not met'}" if goal and theirs else ""
                print(f"{workload:10} {other:12.3f} {mine:12.3f} {mine / other:7.2f}  {verdict}", flush=True)

    def cold(self) -> None:
        """From nothing to the first kernel's end, where the host has no process ready."""
        with host(self.device, "auto", "--warm", "0") as guest:
            ours = [self.remote(guest, "first")["milliseconds"] for _ in range(RUNS)]
        theirs = (
            [self.native("first")["milliseconds"] for _ in range(RUNS)] if self.device == "cupy" else [float("nan")]
        )
        mine, other = statistics.median(ours), statistics.median(theirs)
        print(f"first kernel, no process ready: native {other:.0f} ms, remote {mine:.0f} ms (ratio {mine / other:.2f})")

    def graphs(self) -> None:
        """A replayed launch, step by step and as a graph."""
        times: dict[tuple[str, str], list[float]] = {}
        for _ in range(RUNS):
            for graphs in ("off", "on", "auto"):
                with host(self.device, graphs) as guest:
                    for workload in ("launches", "changing"):
                        found = self.remote(guest, workload)["milliseconds"]
                        times.setdefault((workload, graphs), []).append(found)
        for workload in ("launches", "changing"):
            each = {
                g: statistics.median(times[workload, g]) * 1e3 / (10_000 * float(self.scale))
                for g in ("off", "on", "auto")
            }
            print(
                f"{workload}: a replayed launch {each['off']:.2f} us step by step, {each['on']:.2f} us in a graph "
                f"(ratio {each['on'] / each['off']:.2f}), {each['auto']:.2f} us as measured and chosen"
            )

    def together(self) -> None:
        """Sessions at once: throughput against one after the other, and the slowest over the fastest."""
        with host(self.device, "auto", "--warm", str(TOGETHER)) as guest:
            self.remote(guest, "stencil")
            time.sleep(5)  # the pool fills
            started = time.perf_counter()
            for _ in range(TOGETHER):
                self.remote(guest, "stencil")
            alone = time.perf_counter() - started
            time.sleep(5)
            found: list[float] = []
            threads = [
                threading.Thread(target=lambda: found.append(self.remote(guest, "stencil")["milliseconds"]))
                for _ in range(TOGETHER)
            ]
            started = time.perf_counter()
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            at_once = time.perf_counter() - started
        if len(found) != TOGETHER:
            raise SystemExit(f"only {len(found)} of {TOGETHER} sessions ended well")
        print(
            f"{TOGETHER} sessions at once: {at_once:.2f} s, one after the other {alone:.2f} s (ratio {at_once / alone:.2f}); "
            f"slowest over fastest {max(found) / min(found):.2f}"
        )

    def overhead(self) -> None:
        """GPU memory that a session costs before it allocates anything."""

        def used() -> int:
            query = ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits", "--id=0"]
            return int(subprocess.run(query, capture_output=True, text=True, check=True).stdout)

        before = most = used()
        with host(self.device, "auto", "--warm", "0") as guest:
            environment = guest.environment(self.program, "loops")
            with subprocess.Popen([self.program, "matmul", "1"], env=environment, stdout=subprocess.DEVNULL) as process:
                while process.poll() is None:
                    most = max(most, used())
                    time.sleep(0.05)
        print(f"GPU memory of one session: {most - before} MiB (a CUDA context and 192 MiB of the workload)")


def hints() -> None:
    """In fresh processes: how often CUDA put a window where it was asked to."""
    code = (
        "from farlane.backend.device.gpu import CupyDevice\n"
        "c = CupyDevice().open_context(1 << 30); print(c._space.hints_refused, hex(c.window.base)); c.close()"
    )
    first, bases = 0, set()
    for _ in range(HINTS):
        out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
        refused, base = out.split()
        first += refused == "0"
        bases.add(base)
    print(f"hint honoured in {first} of {HINTS} fresh processes; bases: {', '.join(sorted(bases))}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cupy", choices=("cupy", "sim"))
    parser.add_argument("--scale", type=float, default=1.0, help="of the workloads' sizes")
    parser.add_argument("--only", choices=("ratios", "cold", "graphs", "together", "overhead", "hints"))
    arguments = parser.parse_args()
    found = gpu()
    if arguments.device == "cupy" and not found:
        print("bench-gpu: no NVIDIA GPU here (nvidia-smi shows none): nothing is measured")
        return 0
    print(f"{time.strftime('%Y-%m-%d')}  {found or 'no GPU'}  {platform.machine()}  load {os.getloadavg()[0]:.1f}")
    bench = Bench(install("13.0"), arguments.device, arguments.scale)
    parts = [("ratios", bench.ratios), ("cold", bench.cold), ("graphs", bench.graphs), ("together", bench.together)]
    if arguments.device == "cupy":
        parts += [("overhead", bench.overhead), ("hints", hints)]
    for name, part in parts:
        if arguments.only in (None, name):
            print(f"\n== {name}")
            part()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
