"""What compiling kernels adds to a program's first run: with an empty kernel cache, beside the same program with a full one.

Runs by `farlane run` on the embedded simulated device, cold and warm in turns, medians: a program with twenty kernels of
the usual kinds (programs/kernels20.cu), and, where the guests' environment is there (`make test-guests`),
`import cupy; cupy.arange(10).sum()`, with CuPy's own cache of NVRTC's results full, beside `import cupy` alone without Farlane.
Goals: cold at most 1.5 s beyond warm for the twenty kernels; CuPy at most 3 s beyond its import cold, 1 s warm.

    python benchmarks/guests/cold_start.py [--rounds N]
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Sequence

from _environment import FARLANE_RUN, INTEROP, PYTHON, ROOT
from farlane.frontend.devtools.programs import Build, compile_program
from farlane.frontend.devtools.toolchain import install

IMPORT, SUM = "import cupy", "import cupy; print(cupy.arange(10).sum())"


def seconds(command: Sequence[str], **environment: str) -> float:
    """One run. Raises SystemExit when the program fails."""
    start = time.perf_counter()
    done = subprocess.run(command, env=os.environ | environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed: {done.stdout}{done.stderr}")
    return time.perf_counter() - start


def cold_and_warm(command: Sequence[str], rounds: int, **environment: str) -> tuple[float, float]:
    """Medians of runs with an empty kernel cache, and of the runs that follow each with what it has left."""
    cold, warm = [], []
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as folder:
            for found in (cold, warm):
                found.append(seconds(command, FARLANE_CACHE_DIR=folder, **environment))
    return statistics.median(cold), statistics.median(warm)


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    program = compile_program(install("13.0"), [ROOT / "benchmarks/programs/kernels20.cu"], "kernels20", Build())
    # Analyzing the program is not what is measured.
    cold, warm = cold_and_warm([*FARLANE_RUN, "--no-manifest", "--", str(program)], options.rounds)
    print(
        f"twenty kernels: cold {cold:.2f} s, warm {warm:.2f} s: {cold - warm:.2f} s more (goal 1.5), {cold / warm:.1f} times"
    )
    if not PYTHON.exists():
        print("CuPy: not installed (make test-guests)")
        return
    with tempfile.TemporaryDirectory() as kernels:
        environment = INTEROP | {"CUPY_CACHE_DIR": kernels}
        command = [*FARLANE_RUN, "--", str(PYTHON), "-c", SUM]
        seconds(command, **environment)
        cold, warm = cold_and_warm(command, options.rounds, **environment)
        alone = statistics.median(seconds([str(PYTHON), "-c", IMPORT]) for _ in range(options.rounds))
    print(
        f"CuPy's sum beside its import, {alone:.2f} s: cold {cold - alone:.2f} s more (goal 3), warm {warm - alone:.2f} s (goal 1)"
    )


if __name__ == "__main__":
    main()
