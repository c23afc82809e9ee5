"""What redirecting a statically linked CUDA runtime costs a program's start: the same program with the runtime shared, in turn with it.

Usage: python benchmarks/redirect.py [--runs N]

The program registers a kernel and makes no CUDA call, so that no session is opened: what differs is the loader's work and the redirection.
Prints the medians, the difference, and what that is for each function that is redirected. Goals: 1 ms, 20 ns a function.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

from elftools.elf.elffile import ELFFile
from farlane.frontend import shim_library
from farlane.frontend.devtools.programs import Build, compile_program
from farlane.frontend.devtools.toolchain import install

SOURCE = (
    "__global__ void nothing(int *p) { *p = 1; }\nint main(int n, char **) { if (n > 9) nothing<<<1, 1>>>(nullptr); }\n"
)


def public_functions(program: Path) -> int:
    """Functions of the embedded runtime that the program's symbol table names."""
    with program.open("rb") as file:
        table = ELFFile(file).get_section_by_name(".symtab")
        names = {symbol.name for symbol in table.iter_symbols() if symbol["st_info"]["type"] == "STT_FUNC"}
    return sum(name.startswith(("cuda", "__cuda")) for name in names)


def start(program: Path, environment: dict[str, str]) -> float:
    began = time.perf_counter()
    subprocess.run([program], env=environment, check=True)
    return time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=200)
    runs = parser.parse_args().runs
    shim_library.require_built()
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "nothing.cu"
        source.write_text(SOURCE)
        programs = {
            cudart: compile_program(install("13.5"), [source], "nothing", Build(cudart=cudart))
            for cudart in ("shared", "static")
        }
    environment = shim_library.guest_environment(
        os.environ, host="unix:///nowhere", mode="loops", runtimes=("13",), report=None, manifests="off"
    )
    times: dict[str, list[float]] = {cudart: [] for cudart in programs}
    for _ in range(runs):
        for cudart, program in programs.items():
            times[cudart].append(start(program, environment))
    medians = {cudart: statistics.median(all_) * 1e3 for cudart, all_ in times.items()}
    functions = public_functions(programs["static"])
    cost = medians["static"] - medians["shared"]
    print(f"start, shared runtime   {medians['shared']:7.3f} ms")
    print(f"start, redirected       {medians['static']:7.3f} ms   ratio {medians['static'] / medians['shared']:.3f}")
    print(f"redirecting {functions} functions costs {cost:.3f} ms, {cost * 1e6 / functions:.0f} ns each")


if __name__ == "__main__":
    main()
