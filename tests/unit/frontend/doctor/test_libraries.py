"""`farlane doctor PROGRAM` and the libraries that the program is linked to: real ones, of the C compiler and of nvcc, found as the dynamic linker does."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from farlane.frontend.devtools.toolchain import Toolchain
from farlane.frontend.doctor.finding import FAILED, NOTE, OK, Finding
from farlane.frontend.doctor.program import check_program

CUDA = """
__global__ void add(int *data) { data[threadIdx.x] += 1; }
extern "C" int deep(void) { int *data; cudaMalloc(&data, 256); add<<<1, 64>>>(data); return cudaFree(data); }
"""
PTX_ALONE = ("-gencode", "arch=compute_75,code=compute_75")
MACHINE_CODE_ALONE = ("-gencode", "arch=compute_75,code=sm_75")


def run(folder: Path, *command: str | Path) -> None:
    subprocess.run(command, cwd=folder, check=True, capture_output=True)


@pytest.fixture(scope="session")
def cuda_library(
    toolchain: Callable[[str], Toolchain], tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., Path]:
    """A library of nvcc's with a kernel in it."""

    def make(runtime: str, *images: str) -> Path:
        folder, installed = tmp_path_factory.mktemp("cuda"), toolchain("13.0")
        (folder / "deep.cu").write_text(CUDA)
        nvcc = [installed.cuda_root / "bin" / "nvcc", "-cudart", runtime, *images, "-shared", "-Xcompiler", "-fPIC"]
        run(folder, *nvcc, "-Xlinker", "-soname=libdeep.so", "-o", "libdeep.so", "deep.cu")
        return folder / "libdeep.so"

    return make


@pytest.fixture(scope="session")
def shared_runtime(cuda_library: Callable[..., Path]) -> Path:
    return cuda_library("shared", *PTX_ALONE)


@pytest.fixture(scope="session")
def static_runtime(cuda_library: Callable[..., Path]) -> Path:
    return cuda_library("static", *PTX_ALONE)


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """bin/app -> lib/libmiddle.so -> lib/deep/libdeep.so, both found by RUNPATH."""
    for folder in ("bin", "lib/deep"):
        (tmp_path / folder).mkdir(parents=True)
    sources = {
        "deep.c": "int deep(void) { return 0; }",
        "middle.c": "int deep(void); int middle(void) { return deep(); }",
        "app.c": "int middle(void); int main(void) { return middle(); }",
    }
    for name, text in sources.items():
        (tmp_path / name).write_text(text)
    library = ("cc", "-shared", "-fPIC", "-Wl,--enable-new-dtags,-rpath,$ORIGIN/deep")
    run(tmp_path, *library, "-Wl,-soname,libdeep.so", "-o", "lib/deep/libdeep.so", "deep.c")
    run(tmp_path, *library, "-Wl,-soname,libmiddle.so", "-o", "lib/libmiddle.so", "middle.c", "lib/deep/libdeep.so")
    link(tmp_path, "-Wl,--enable-new-dtags,-rpath,$ORIGIN/../lib")
    return tmp_path / "bin" / "app"


def link(folder: Path, *options: str) -> None:
    run(folder, "cc", "-o", "bin/app", "app.c", "lib/libmiddle.so", f"-Wl,-rpath-link,{folder}/lib/deep", *options)


def deep(program: Path) -> Path:
    return program.parents[1] / "lib" / "deep" / "libdeep.so"


def of_libraries(program: Path) -> list[Finding]:
    """Without the remark that the program itself is none of CUDA's."""
    return [finding for finding in check_program(str(program)) if finding.check != "interception"]


def test_libraries_without_cuda(program: Path) -> None:
    (found,) = of_libraries(program)
    assert (found.state, found.check) == (OK, "libraries")
    assert found.text == f"the dynamic linker finds all libraries of {program}"


def test_a_library_of_a_library_calls_cuda(program: Path, shared_runtime: Path) -> None:
    """NVIDIA's runtime is nowhere: Farlane's takes its place."""
    shutil.copy(shared_runtime, deep(program))
    calls, kernels, _ = found = of_libraries(program)
    assert {finding.state for finding in found} == {OK}
    assert f"{deep(program)} calls CUDA through libcudart.so.13" in calls.text
    assert f"{deep(program)} has PTX (compute_75)" in kernels.text


def test_a_runtime_that_is_linked_into_a_library(program: Path, static_runtime: Path) -> None:
    shutil.copy(static_runtime, deep(program))
    runtime, kernels, _ = found = of_libraries(program)
    assert {finding.state for finding in found} == {OK}
    assert f"{deep(program)} has the CUDA runtime linked into it, which is redirected" in runtime.text
    assert "has PTX" in kernels.text


def test_a_stripped_library_with_a_runtime_in_it(
    program: Path, static_runtime: Path, problem: Callable[..., Finding], monkeypatch: pytest.MonkeyPatch
) -> None:
    run(program.parent, "strip", "-o", deep(program), static_runtime)
    found = problem(iter(of_libraries(program)))
    assert (found.state, found.check) == (FAILED, "library")
    assert f"{deep(program)} has the CUDA runtime linked into it and is stripped" in found.text
    assert "farlane setup --interop" in found.advice
    monkeypatch.setenv("FARLANE_INTEROP", "1")
    assert [finding.state for finding in of_libraries(program)] == [NOTE, OK, OK]


def test_a_library_with_machine_code_alone(
    program: Path, cuda_library: Callable[..., Path], problem: Callable[..., Finding]
) -> None:
    shutil.copy(cuda_library("shared", *MACHINE_CODE_ALONE), deep(program))
    found = problem(iter(of_libraries(program)))
    assert (found.state, found.check) == (FAILED, "kernels")
    assert f"{deep(program)} has machine code alone (sm_75)" in found.text
    assert "code=compute_75" in found.advice


def test_a_library_that_is_not_found(
    program: Path, problem: Callable[..., Finding], monkeypatch: pytest.MonkeyPatch
) -> None:
    moved = program.parents[1] / "elsewhere"
    deep(program).parent.rename(moved)
    found = problem(iter(of_libraries(program)))
    assert (found.state, found.check) == (FAILED, "libraries")
    assert found.text == f"libdeep.so is not found; {program.parents[1]}/lib/libmiddle.so needs it"
    assert "LD_LIBRARY_PATH" in found.advice
    monkeypatch.setenv("LD_LIBRARY_PATH", str(moved))
    assert [finding.state for finding in of_libraries(program)] == [OK]


def test_the_programs_rpath_is_for_libraries_of_libraries_too(program: Path) -> None:
    """RUNPATH is not, and the library's own names a folder that is gone."""
    moved = program.parents[1] / "elsewhere"
    deep(program).parent.rename(moved)
    for kind, states in (("enable", [FAILED]), ("disable", [OK])):
        middle = ("-Wl,-soname,libmiddle.so", "-o", "lib/libmiddle.so", "middle.c", f"{moved}/libdeep.so")
        run(program.parents[1], "cc", "-shared", "-fPIC", *middle)
        link(program.parents[1], f"-Wl,--{kind}-new-dtags,-rpath,$ORIGIN/../lib:{moved}", f"-Wl,-rpath-link,{moved}")
        assert [finding.state for finding in of_libraries(program)] == states


def test_a_library_for_another_machine(program: Path, problem: Callable[..., Finding]) -> None:
    content = bytearray(deep(program).read_bytes())
    content[18] = 183  # e_machine: AArch64
    deep(program).write_bytes(content)
    found = problem(iter(of_libraries(program)))
    assert (found.state, found.check) == (FAILED, "libraries")
    assert f"{deep(program)} is built for AARCH64, this machine is x86_64" in found.text
    assert "libmiddle.so needs it" in found.text


def test_a_library_that_is_damaged(program: Path, problem: Callable[..., Finding]) -> None:
    deep(program).write_text("version https://git-lfs")
    found = problem(iter(of_libraries(program)))
    assert (found.state, found.check) == (FAILED, "libraries")
    assert "libdeep.so: " in found.text
    assert found.advice


def test_a_version_that_a_library_lacks(program: Path, problem: Callable[..., Finding]) -> None:
    folder = program.parents[1]
    for version in ("V2", "V1"):
        (folder / "versions").write_text(f"{version} {{ global: deep; }};")
        script = "-Wl,-soname,libdeep.so,--version-script=versions"
        run(folder, "cc", "-shared", "-fPIC", script, "-o", "lib/deep/libdeep.so", "deep.c")
        if version == "V2":
            middle = ("-Wl,-soname,libmiddle.so,-rpath,$ORIGIN/deep", "-o", "lib/libmiddle.so", "middle.c")
            run(folder, "cc", "-shared", "-fPIC", *middle, "lib/deep/libdeep.so")
    found = problem(iter(of_libraries(program)))
    assert (found.state, found.check) == (FAILED, "libraries")
    assert "version `V2' not found" in found.text


def test_a_program_of_another_c_library(program: Path, problem: Callable[..., Finding]) -> None:
    link(program.parents[1], "-Wl,--dynamic-linker=/lib/ld-musl-x86_64.so.1")
    found = problem(iter(of_libraries(program)))
    assert (found.state, found.check) == (NOTE, "libraries")
    assert "ld-musl" in found.text
