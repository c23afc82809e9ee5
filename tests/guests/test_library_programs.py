"""C++ programs of NVIDIA's libraries, compiled by plain nvcc, and of Thrust and CUB, whose code becomes theirs.

The libraries are those of the guests' environment, linked as a user would link them. Each program compares what it gets
with a reference that it computes by the operation's definition (tests/guests/programs/check.h).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from farlane.frontend.devtools.programs import Build, compile_program
from farlane.frontend.devtools.toolchain import Toolchain
from running import ROOT, farlane_run

pytestmark = pytest.mark.guests

PROGRAMS = Path(__file__).parent / "programs"

LIBRARIES = {
    "cublas": ("libcublas.so.13", "libcublasLt.so.13"),
    "cublaslt": ("libcublasLt.so.13",),
    "cufft": ("libcufft.so.12",),
    "curand": ("libcurand.so.10",),
    "curand_device": (),
    "cusolver": ("libcusolver.so.12",),
    "cusparse": ("libcusparse.so.12",),
    "thrust": (),
    "cub": (),
}


def wheels() -> Path:
    """Where the libraries' headers and shared objects are."""
    return next((ROOT / ".cache/guests/lib").glob("python3*/site-packages/nvidia/cu13"))


# The others' kernels take minutes to compile where nothing is cached.
QUICK = {"cublaslt", "curand", "curand_device"}
NAMES = [name if name in QUICK else pytest.param(name, marks=pytest.mark.whole) for name in LIBRARIES]


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", NAMES)
def test_program(name: str, toolchain: Callable[[str], Toolchain]) -> None:
    folder = wheels()
    linked = [option for library in LIBRARIES[name] for option in ("-Xlinker", str(folder / "lib" / library))]
    flags = ("--extended-lambda", f"-I{folder}/include", *linked, "-Xlinker", "-rpath", "-Xlinker", f"{folder}/lib")
    build = Build(optimization=2, architecture="compute_75", nvcc_flags=flags, cudart="static")
    program = compile_program(toolchain("13.5"), [PROGRAMS / f"{name}.cu"], name, build)
    done = farlane_run(program, timeout=1700)
    assert (done.returncode, done.stdout.splitlines()[-1:]) == (0, ["PASS"]), done.stdout + done.stderr
    if name == "cublas":
        refused = [line for line in done.stdout.splitlines() if "STATUS" in line]
        assert refused == REFUSED  # docs/reference/libraries.md


# No multiple of 4, and what cuBLAS has machine code alone for.
REFUSED = ["bytes, 7: CUBLAS_STATUS_NOT_SUPPORTED", "bytes, 64: CUBLAS_STATUS_NOT_SUPPORTED"]
