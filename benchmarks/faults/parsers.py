"""How long the native parsers of bytes from outside take for many random and damaged inputs; each must refuse them or read them.

    python benchmarks/faults/parsers.py [--inputs 10000000] [--only slices,tape]

These are the fuzz tests of the crates, as `make test` runs them with fewer inputs, optimized as a release is. Building them takes
minutes, and is not in the times. Ends with status 1 when a test fails, and when one is no longer there.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import time
from pathlib import Path

WORKSPACE = Path(__file__).parents[2] / "frontend/shim"
INPUTS = 10_000_000
#: Package -> its fuzz tests.
TESTS = {
    "tape": ("random_bytes", "good_results_with_a_few_bytes_changed_or_cut"),
    "slices": ("arbitrary_bytes_do_no_harm",),
    "manifest": ("random_bytes_are_refused", "damaged_manifests_are_refused_or_read_and_never_panic"),
    "client": ("random_results_touch_only_the_rows",),
    "rings": ("random_memory_breaks_nothing_but_its_own_rings", "only_what_was_agreed_is_mapped"),
    "plane": ("hostile_tapes_do_no_harm", "hostile_tapes_do_no_harm_on_a_driver"),
    "image": ("words_in_any_order",),
}


def fuzz(package: str, inputs: int) -> float:
    """Seconds of a package's fuzz tests, one after the other.

    Raises:
        SystemExit: one of them failed, or was not found.
    """
    command = ["cargo", "test", "--quiet", "--release", "--package", package]
    subprocess.run([*command, "--no-run"], cwd=WORKSPACE, check=True)
    environment = os.environ | {"FARLANE_FUZZ_INPUTS": str(inputs)}
    # A name is the end of a path of modules, so that --exact cannot be asked for: `--list` says which are meant.
    listed = subprocess.run(
        [*command, "--", "--list"], cwd=WORKSPACE, capture_output=True, text=True, check=True
    ).stdout
    paths = [path for path in re.findall(r"^(\S+): test$", listed, re.M) if path.split("::")[-1] in TESTS[package]]
    began = time.perf_counter()
    done = subprocess.run(
        [*command, "--", "--exact", "--test-threads", "1", *paths],
        cwd=WORKSPACE,
        env=environment,
        capture_output=True,
        text=True,
    )
    seconds = time.perf_counter() - began
    passed = sum(map(int, re.findall(r"^test result: ok\. (\d+) passed", done.stdout, re.M)))
    if done.returncode or passed < len(TESTS[package]):
        raise SystemExit(
            f"{package}: {passed} of the tests {', '.join(TESTS[package])} passed:\n{done.stdout}{done.stderr}"
        )
    return seconds


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--inputs", type=int, default=INPUTS, help="of each test")
    parser.add_argument("--only", metavar="PACKAGES", help=f"of {', '.join(TESTS)}, with commas")
    arguments = parser.parse_args()
    chosen = arguments.only.split(",") if arguments.only else list(TESTS)
    for package in chosen:
        if package not in TESTS:
            parser.error(f"--only: no {package}; there are {', '.join(TESTS)}")
    for package in chosen:
        seconds = fuzz(package, arguments.inputs)
        print(f"{package} {', '.join(TESTS[package])}: {arguments.inputs} inputs each, {seconds:.1f} s", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
