"""The built libraries: they export what NVIDIA's do, a program linked to NVIDIA's loads with them, and refuses loudly."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile
from farlane.frontend import shim_library
from farlane.frontend.devtools.releases import compile_c, release
from farlane.frontend.devtools.toolchain import CLANG, CLANG_PACKAGE
from farlane_codegen import api_table, driver_table, tape_table

ROOT = Path(__file__).resolve().parents[3]
# The C library's clocks, which `--timing faithful` reads after the work that was answered early.
CLOCKS = {"clock", "clock_gettime", "getrusage", "gettimeofday", "time", "times", "timespec_get"}
STEERING = {"dlopen", "dlsym", "nvrtcGetCUBIN", "nvrtcGetCUBINSize", "cublasLtMatmul", "cublasLtMatmulAlgoGetHeuristic"}
STEERING |= {f"cublasGemm{form}{size}" for form in ("Ex", "BatchedEx", "StridedBatchedEx") for size in ("", "_64")}
DEVICE_FILES = {"stat", "stat64", "access", "__xstat", "__xstat64"}
# What installs handlers of signals.
SIGNALS = {"sigaction", "__sigaction", "signal", "bsd_signal", "ssignal", "sysv_signal", "__sysv_signal", "sigset"}
READING = {
    "__fread_chk",
    "__pread64_chk",
    "__pread_chk",
    "__read_chk",
    "__recv_chk",
    "fread",
    "fwrite",
    "pread",
    "pread64",
    "pwrite",
    "pwrite64",
    "read",
    "readv",
    "recv",
    "send",
    "write",
    "writev",
}
NEEDED = [shim_library.CORE, *([shim_library.REDIRECT] if platform.machine() == "x86_64" else [])]
MAJORS = {"12": "12.9.79", "13": "13.5.37"}


@pytest.fixture(scope="module", params=MAJORS)
def major(request: pytest.FixtureRequest) -> str:
    shim_library.require_built()
    return str(request.param)


@pytest.fixture(scope="module")
def api() -> api_table.Api:
    tape = tape_table.load(ROOT / "protos/tape.toml")
    return api_table.load(ROOT / "protos/cuda", frozenset(operation.name for operation in tape.operations))


@pytest.fixture(scope="module")
def driver(api: api_table.Api) -> driver_table.DriverApi:
    return driver_table.load(ROOT / "protos/cuda", api)


def dynamic_symbols(library: Path) -> dict[str, str | None]:
    """Exported function -> its default version."""
    with library.open("rb") as file:
        elf = ELFFile(file)
        table, versions = elf.get_section_by_name(".dynsym"), elf.get_section_by_name(".gnu.version")
        definitions = elf.get_section_by_name(".gnu.version_d")
        names = (
            {definition["vd_ndx"]: next(auxiliaries).name for definition, auxiliaries in definitions.iter_versions()}
            if definitions
            else {}
        )
        found: dict[str, str | None] = {}
        for index, symbol in enumerate(table.iter_symbols()):
            if symbol["st_shndx"] == "SHN_UNDEF" or symbol["st_info"]["type"] != "STT_FUNC":
                continue
            number = versions.get_symbol(index)["ndx"] if versions else None
            found[symbol.name] = names.get(number)
        return found


def dynamic_tags(library: Path) -> dict[str, list[str]]:
    with library.open("rb") as file:
        tags: dict[str, list[str]] = {}
        for tag in ELFFile(file).get_section_by_name(".dynamic").iter_tags():
            for attribute in ("needed", "soname", "runpath", "rpath"):
                if hasattr(tag, attribute):
                    tags.setdefault(attribute, []).append(getattr(tag, attribute))
        return tags


def test_exports_and_versions_are_nvidias(major: str, api: api_table.Api) -> None:
    version = f"libcudart.so.{major}"
    assert dynamic_symbols(shim_library.runtime_library(major)) == dict.fromkeys(api.symbols[major], version)


def test_thin_library_needs_our_libraries_beside_it_and_nothing_else(major: str) -> None:
    tags = dynamic_tags(shim_library.runtime_library(major))
    assert tags["soname"] == [f"libcudart.so.{major}"]
    assert tags["needed"] == NEEDED
    assert tags.get("runpath", tags.get("rpath")) == ["$ORIGIN"]


def test_driver_library_exports_the_headers_functions_without_versions(driver: driver_table.DriverApi) -> None:
    library = shim_library.FOLDER / shim_library.DRIVER
    assert dynamic_symbols(library) == dict.fromkeys((symbol.name for symbol in driver.symbols), None)
    tags = dynamic_tags(library)
    assert (tags["soname"], tags["needed"]) == ([shim_library.DRIVER], NEEDED)
    assert tags.get("runpath", tags.get("rpath")) == ["$ORIGIN"]


def test_core_exports_the_tables_functions_and_nothing_else(api: api_table.Api, driver: driver_table.DriverApi) -> None:
    shim_library.require_built()
    core = shim_library.FOLDER / shim_library.CORE
    wanted = {"farlane_unsupported_runtime", "farlane_unsupported_driver", "farlane_allocations", "farlane_fence"}
    wanted.add("farlane_test")
    wanted |= {f"farlane_{symbol}" for symbol, supported in driver.exports().items() if supported}
    for version in api_table.VERSIONS:
        wanted |= {f"farlane_{target}" for target in api.exports(version).values() if target}
    assert set(dynamic_symbols(core)) == wanted | CLOCKS | READING | SIGNALS | STEERING | DEVICE_FILES
    assert dynamic_tags(core)["soname"] == [shim_library.CORE]


PROGRAM = r"""
#include <stdio.h>
#include <cuda_runtime_api.h>
int main(void) {
    int runtime = 0, driver = 0, count = -1;
    cudaRuntimeGetVersion(&runtime);
    cudaDriverGetVersion(&driver);
    printf("%d %d\n", runtime, driver);
    printf("%s: %s\n", cudaGetErrorName(cudaErrorNotReady), cudaGetErrorString(cudaErrorNotReady));
    printf("%d\n", cudaIpcCloseMemHandle((void *)&count));
    printf("%d\n", cudaIpcCloseMemHandle((void *)&count));
    printf("%d ", cudaPeekAtLastError());
    printf("%d ", cudaGetLastError());
    printf("%d\n", cudaGetLastError());
    struct cudaChannelFormatDesc d = cudaCreateChannelDesc(8, 16, 24, 32, cudaChannelFormatKindFloat);
    printf("%d %d %d %d %d\n", d.x, d.y, d.z, d.w, d.f == cudaChannelFormatKindFloat);
    printf("%d", cudaGetDeviceCount(&count));
    printf(" %d\n", count);
    return 0;
}
"""
VERSION = {"12": "12090", "13": "13050"}


@pytest.mark.native
def test_program_linked_to_nvidias_library_runs_with_ours(major: str, tmp_path: Path) -> None:
    nvidia = release(MAJORS[major])
    program = tmp_path / "program"
    compile_c(PROGRAM, nvidia, program, str(nvidia.library))
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("FARLANE_", "LD_"))}
    environment |= {"LD_LIBRARY_PATH": str(shim_library.FOLDER), "LD_BIND_NOW": "1"}
    done = subprocess.run([str(program)], env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.splitlines() == [
        f"{VERSION[major]} 13050",
        "cudaErrorNotReady: device not ready",
        "801",
        "801",
        "801 801 0",
        "8 16 24 32 1",
        "100 0",
    ]
    refused, no_host = done.stderr.splitlines()  # nothing from the loader, each thing said once
    assert re.match(r"farlane: .*cudaIpcCloseMemHandle is not supported", refused)
    assert "FARLANE_HOST" in no_host
    assert done.returncode == 0


def test_a_new_row_changes_its_own_lines_of_a_thin_library_only(api: api_table.Api) -> None:
    """Nothing in the assembly depends on how many symbols are supported."""
    for version in api_table.VERSIONS:
        assembly = (ROOT / f"frontend/shim/thin/generated_libcudart_{version}.S").read_text()
        refused = set(re.findall(r"^refuse (\w+)$", assembly, re.MULTILINE))
        assert refused == {symbol for symbol, target in api.exports(version).items() if target is None}


@pytest.mark.parametrize("version", api_table.VERSIONS)
@pytest.mark.skipif(shutil.which(CLANG) is None, reason=f"{CLANG} is not installed (apt-get install {CLANG_PACKAGE})")
def test_assembly_for_the_other_architecture_assembles(version: str, api: api_table.Api, tmp_path: Path) -> None:
    other = "aarch64" if platform.machine() == "x86_64" else "x86_64"
    source = ROOT / f"frontend/shim/thin/generated_libcudart_{version}.S"
    output = tmp_path / "thin.o"
    subprocess.run([CLANG, "-c", f"--target={other}-linux-gnu", str(source), "-o", str(output)], check=True)
    with output.open("rb") as file:
        table = ELFFile(file).get_section_by_name(".symtab")
        defined = {symbol.name for symbol in table.iter_symbols() if symbol["st_info"]["type"] == "STT_FUNC"}
    assert defined == set(api.symbols[version])


@pytest.mark.parametrize(("missing", "hint"), [("CARGO", "install Rust"), ("CC", "install a C compiler")])
def test_build_says_what_is_missing(missing: str, hint: str, tmp_path: Path) -> None:
    """Runs a copy of build.py, so that a build that does go on writes elsewhere."""
    (tmp_path / "shim").mkdir()
    script = tmp_path / "shim/build.py"
    for name in ("build.py", "cargo.py", "glibc_floor.py", "glibc_floor.c", "stripping.py"):
        (tmp_path / "shim" / name).write_text((ROOT / "frontend/shim" / name).read_text())
    true = {"CARGO": "true", "CC": "true"}
    (tmp_path / "shim/target/release").mkdir(parents=True)
    (tmp_path / "shim/target/release/libfarlane_core.so").touch()
    (tmp_path / "shim/target/redirect").mkdir()
    (tmp_path / "shim/target/redirect/libfarlane_redirect.so").touch()
    environment = {**os.environ, **true, missing: "no-such-program"}
    environment.pop("CARGO_TARGET_DIR", None)
    command = [sys.executable, str(script)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert re.fullmatch(rf"build\.py: no-such-program was not found: {hint}.*\n", done.stderr)
