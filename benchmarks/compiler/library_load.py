"""What loading a library with hundreds of GPU images costs a guest: dlopen under `farlane run`, and beside it without.

Usage: python benchmarks/compiler/library_load.py [LIBRARY]

LIBRARY is libcublasLt.so.13 unless another is named; it is looked for in .cache/libraries, where this puts it:
python -m pip install --target .cache/libraries nvidia-cublas
The two run in turns; figures are medians over runs. Source of the goal: at most 50 ms beyond what the loader takes.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
from pathlib import Path

RUNS = 9
GOAL = 50.0  # milliseconds
LIBRARIES = Path(__file__).parents[2] / ".cache/libraries"
LOADER = """
import ctypes, sys, time
start = time.perf_counter()
ctypes.CDLL(sys.argv[1])
print((time.perf_counter() - start) * 1e3)
"""


def load(library: Path, *launcher: str) -> float:
    """Milliseconds of one dlopen in a process of its own."""
    command = [*launcher, sys.executable, "-c", LOADER, str(library)]
    environment = os.environ | {"FARLANE_INTEROP": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"loading {library} failed: {done.stderr}")
    return float(done.stdout)


def main() -> None:
    if len(sys.argv) > 1:
        library = Path(sys.argv[1])
    else:
        found = sorted(LIBRARIES.rglob("libcublasLt.so.13"))
        if not found:
            print(f"no library in {LIBRARIES}: python -m pip install --target {LIBRARIES} nvidia-cublas")
            return
        library = found[0]
    farlane = (str(Path(sys.executable).with_name("farlane")), "run", "--")
    load(library)  # from the disk, once
    plain, guest = [], []
    for _ in range(RUNS):
        plain.append(load(library))
        guest.append(load(library, *farlane))
    before, after = statistics.median(plain), statistics.median(guest)
    verdict = "reached" if after - before <= GOAL else "missed"
    print(f"{library.name}, {library.stat().st_size >> 20} MiB: dlopen {before:.1f} ms, as a guest {after:.1f} ms")
    print(f"ratio {after / before:.2f}; {after - before:+.1f} ms, goal {GOAL:.0f} ms: {verdict}")


if __name__ == "__main__":
    main()
