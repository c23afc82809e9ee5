"""`make demo`: compiles the example with nvcc from PyPI wheels, and runs the unchanged program on an embedded host with the simulated
device, once in each deferral mode, then against a host of its own over TCP. The program checks its result against the CPU."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from farlane.frontend.devtools.programs import Build, compile_program
from farlane.frontend.devtools.toolchain import ToolchainError, install

SOURCE = Path(__file__).with_name("heat.cu")
MODES = ("none", "calls", "loops")
FARLANE = [sys.executable, "-m", "farlane.frontend.cli"]


def run(program: Path, *options: str) -> tuple[str, dict[str, Any]]:
    """Runs the program under `farlane run`; its output and the report. Ends the demo when it fails."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        command = [*FARLANE, "run", "--report", f"json:{report}", *options, "--", str(program)]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
        if done.returncode:
            print(done.stdout)
            raise SystemExit(f"the program failed under {' '.join(command[3:])} (status {done.returncode})")
        return done.stdout, json.loads(report.read_text())


def over_tcp(program: Path) -> tuple[str, dict[str, Any]]:
    """The same program against a host started separately."""
    command = [*FARLANE, "serve", "--device", "sim", "--listen", "grpc://127.0.0.1:0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as host:
        try:
            assert host.stdout is not None
            line = host.stdout.readline()
            match = re.search(r"grpc://[\d.]+:\d+", line)
            if match is None:
                raise SystemExit(f"the host did not start: {line}")
            return run(program, "--host", match[0])
        finally:
            host.terminate()


def main() -> int:
    """Returns 0 when every run gave the same, right output."""
    print(f"compiling {SOURCE.name} with nvcc 13.0 (PyPI wheels; the first time downloads them) ...", flush=True)
    try:
        program = compile_program(install("13.0"), [SOURCE], "heat", Build(optimization=3))
    except ToolchainError as error:
        raise SystemExit(str(error)) from error
    print("compiling its kernels for this processor (they are kept for later runs) ...", flush=True)
    run(program)
    rows, outputs = [], set()
    for mode in MODES:
        output, report = run(program, "--defer", mode)
        outputs.add(output)
        rows.append((f"embedded host, {mode}", report))
        if mode == MODES[0]:
            print(f"\nthe program's output, kernels executed by the simulated device:\n{output}")
    output, report = over_tcp(program)
    outputs.add(output)
    rows.append((f"TCP host, {report['mode']}", report))
    print(
        f"{'':24}{'CUDA calls':>12}{'round trips':>13}{'bytes up':>12}{'bytes down':>12}{'wall s':>9}{'device s':>10}"
    )
    for name, report in rows:
        print(
            f"{name:24}{sum(report['calls'].values()):>12,}{report['round_trips']:>13,}{report['bytes_up']:>12,}"
            f"{report['bytes_down']:>12,}{report['wall_seconds']:>9.2f}{report['device_seconds']:>10.2f}"
        )
    if len(outputs) != 1:
        print("the outputs differ between the modes", file=sys.stderr)
        return 1
    fewer = rows[0][1]["round_trips"] / rows[1][1]["round_trips"]
    print(f"Same output every time. Deferring calls made {fewer:.1f} times fewer round trips.")
    print("What that saves at a distance: farlane bench roundtrips, docs/results/roundtrips/roundtrips.md")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
