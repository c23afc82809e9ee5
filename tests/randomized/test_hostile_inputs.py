"""Damaged images through every load function: each has a result, and the session lives.

More of them: `pytest tests/randomized/test_hostile_inputs.py --hostile-inputs 20000`.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from farlane.frontend.devtools.guest import Guest
from farlane.frontend.devtools.toolchain import Toolchain

pytestmark = pytest.mark.native

SCRIPT = Path(__file__).parent / "hostile_inputs" / "guest.py"
SOURCE = """
extern "C" __device__ unsigned table[4] = {1, 1, 1, 1};
extern "C" __global__ void increment(unsigned *values) { values[threadIdx.x] += table[threadIdx.x % 4]; }
"""
SEEDS = (1, 2)


@pytest.fixture(scope="module")
def images(toolchain: Callable[[str], Toolchain], tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """PTX, and fat binaries of several architectures, stored and compressed."""
    folder = tmp_path_factory.mktemp("images")
    source = folder / "increment.cu"
    source.write_text(SOURCE)
    command = toolchain("13.5").command("sm_75", "shared")
    made = {
        "increment.ptx": ("-ptx",),
        "stored.fatbin": ("-fatbin", "--compress-mode=none", "-gencode=arch=compute_90,code=[sm_90,compute_90]"),
        "compressed.fatbin": ("-fatbin", "--compress-mode=size"),
        "relocatable.fatbin": ("-fatbin", "-rdc=true"),
    }
    for name, flags in made.items():
        subprocess.run([*command, *flags, "-o", folder / name, source], check=True, capture_output=True, text=True)
    return [str(folder / name) for name in made]


@pytest.mark.parametrize("seed", SEEDS)
def test_damaged_images_are_refused_and_nothing_else_suffers(
    seed: int, images: list[str], guest: Guest, request: pytest.FixtureRequest
) -> None:
    count = request.config.getoption("--hostile-inputs")
    outcome = guest.run([sys.executable, str(SCRIPT), str(seed), str(count), *images], timeout=60 + count)
    assert outcome.status == 0, f"{outcome.stdout}\n{outcome.stderr[-2000:]}"
    words = outcome.stdout.replace(",", "").split()
    accepted, refused = int(words[1]), int(words[3])
    assert accepted + refused == count
    assert refused > accepted > 0, "damage that is always noticed, or never, would test little"
