"""The tables and the ABI crate against NVIDIA's headers and libraries (from PyPI)."""

from __future__ import annotations

import ctypes
import functools
import re
import subprocess
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile
from farlane.frontend.devtools.releases import (
    RELEASES,
    Release,
    compile_c,
    driver_prototypes,
    enumeration,
    preprocessed,
    prototypes,
    release,
    spelled,
)
from farlane_codegen import api_table, driver_table, errors_table, tape_table

pytestmark = pytest.mark.native

ROOT = Path(__file__).resolve().parents[3]
CUDA = ROOT / "protos/cuda"


@pytest.fixture(params=RELEASES)
def nvidia(request: pytest.FixtureRequest) -> Release:
    return release(request.param)


@pytest.fixture(scope="module")
def api() -> api_table.Api:
    tape = tape_table.load(ROOT / "protos/tape.toml")
    return api_table.load(CUDA, frozenset(operation.name for operation in tape.operations))


def exported(library: Path) -> set[str]:
    with library.open("rb") as file:
        section = ELFFile(file).get_section_by_name(".dynsym")
        return {
            symbol.name
            for symbol in section.iter_symbols()
            if symbol["st_shndx"] != "SHN_UNDEF" and symbol["st_info"]["type"] == "STT_FUNC"
        }


def test_every_symbol_of_nvidias_library_is_listed(nvidia: Release, api: api_table.Api) -> None:
    symbols = exported(nvidia.library)
    assert len(symbols) > 380
    assert symbols <= set(api.symbols[nvidia.major])


def test_no_symbol_is_listed_that_nvidia_never_had(api: api_table.Api) -> None:
    for major in api_table.VERSIONS:
        known = set().union(*(exported(release(version).library) for version in RELEASES if version.startswith(major)))
        assert set(api.symbols[major]) == known


def test_signatures_are_those_of_the_headers(nvidia: Release, api: api_table.Api) -> None:
    headers = prototypes(nvidia.version)
    compared = 0
    for function in api.functions:
        if nvidia.major not in function.versions:
            continue
        for suffix in function.suffixes:
            if (declared := headers.get(function.name + suffix)) is None:
                continue  # newer than this release, declared in another header (registration, profiler), or a legacy symbol
            types = [spelled(re.sub(r"_v1[23]\b", "", kind)) for kind, _ in function.arguments]
            assert (spelled(function.returns), types) == declared, function.name + suffix
            compared += 1
    assert compared > 140


@pytest.fixture(scope="module")
def driver(api: api_table.Api) -> driver_table.DriverApi:
    return driver_table.load(CUDA, api)


def test_every_function_of_the_drivers_header_is_listed(nvidia: Release, driver: driver_table.DriverApi) -> None:
    declared = set(driver_prototypes(nvidia.version))
    assert len(declared) > 500
    assert declared <= {symbol.name for symbol in driver.symbols}


def test_signatures_of_the_driver_are_those_of_the_headers(nvidia: Release, driver: driver_table.DriverApi) -> None:
    headers = driver_prototypes(nvidia.version)
    compared = 0
    for function in driver.functions:
        for suffix in function.suffixes:
            if (declared := headers.get(function.name + suffix)) is None:
                continue  # newer or older than this release, or declared in another header (the profiler's)
            types = [spelled(kind) for kind, _ in function.arguments]
            plain = [re.sub(r"_v\d\b", "", re.sub(r"^unsigned$", "unsigned int", kind)) for kind in declared]
            assert [re.sub(r"_v\d\b", "", kind) for kind in types] == plain, function.name + suffix
            compared += 1
    assert compared > 250


def test_results_of_the_driver_are_those_of_the_headers(nvidia: Release) -> None:
    table = {error.name: error.code for error in errors_table.load_driver_errors(CUDA, errors_table.load_errors(CUDA))}
    header = enumeration(nvidia.version, "cudaError_enum", "cuda.h")
    assert len(header) > 90
    assert {name: table.get(name) for name in header} == header


def test_error_codes_are_those_of_the_headers(nvidia: Release) -> None:
    table = {error.name: error.code for error in errors_table.load_errors(CUDA)}
    header = enumeration(nvidia.version, "cudaError")
    assert len(header) > 100
    assert {name: table.get(name) for name in header} == header


def test_attributes_are_those_of_the_headers(nvidia: Release) -> None:
    table = errors_table.load_attributes(CUDA)
    header = enumeration(nvidia.version, "cudaDeviceAttr")
    named = {name: code for name, code in header.items() if not re.search(r"Reserved\d+$|Max$", name)}
    assert len(named) > 100
    missing = set(named.values()) - set(table.values())
    assert missing == set()
    renamed = {name for name, code in named.items() if name in table and table[name] != code}
    assert renamed == set()


@pytest.mark.parametrize("version", ["12.9.79", "13.5.37"])
def test_names_and_texts_of_errors_are_nvidias(version: str) -> None:
    major = int(version.split(".")[0])
    library = ctypes.CDLL(str(release(version).library))
    for function in (library.cudaGetErrorName, library.cudaGetErrorString):
        function.argtypes, function.restype = [ctypes.c_int], ctypes.c_char_p
    for error in errors_table.load_errors(CUDA):
        if error.since <= major <= error.until:
            assert library.cudaGetErrorName(error.code) == error.name.encode()
            assert library.cudaGetErrorString(error.code) == error.text.encode()


def parse_layouts(text: str) -> list[tuple[str, int]]:
    return [(what, int(value)) for what, value in (line.rsplit(" ", 1) for line in text.splitlines())]


@functools.cache
def rust_layouts() -> list[tuple[str, int]]:
    """Every size ("structure size") and offset ("structure.field") of the ABI crate."""
    command = ["cargo", "run", "--quiet", "--locked", "--package", "abi", "--example", "layouts"]
    done = subprocess.run(command, cwd=ROOT / "frontend/shim", capture_output=True, text=True, check=True)
    return parse_layouts(done.stdout)


TYPEDEFS = (
    "dim3",
    "uint3",
    "cudaUUID_t",
    "cudaLaunchConfig_t",
    "cudaLaunchAttribute",
    "cudaGraphEdgeData",
    "cudaGraphExecUpdateResultInfo",
    "cudaGraphInstantiateParams",
)
UNIONS = ("cudaLaunchAttributeValue",)
# Of CUDA 13's cudaPointerAttributes the shim writes the part that CUDA 12 has, too.
LONGER = {"13": ("cudaPointerAttributes size",)}


def c_expression(what: str, release_: Release) -> str | None:
    """What a C compiler is asked; None when the release has no such structure or field, or the shim leaves it out."""
    name, major, field = re.fullmatch(r"(\w+?)(?:_v(\d+))?(?: size|\.(\w+))", what).groups()  # type: ignore[union-attr]
    header = preprocessed(release_.version, header="cuda.h" if name.startswith("CU") else "cuda_runtime_api.h")
    if major not in (None, release_.major) or what in LONGER.get(release_.major, ()) or name not in header:
        return None
    c_name = name if name in TYPEDEFS or name.startswith("CU") else f"{'union' if name in UNIONS else 'struct'} {name}"
    if field is None:
        return f"sizeof({c_name})"
    # Later releases of a major version took fields from `reserved`, which therefore moves.
    if field == "reserved" or not re.search(rf"\b{field.removesuffix('_')}\b", header):
        return None
    return f"offsetof({c_name}, {field.removesuffix('_') if field in ('type_', 'fn_') else field})"


def test_layouts_are_those_of_a_c_compiler(nvidia: Release, tmp_path: Path) -> None:
    asked = {what: c_expression(what, nvidia) for what, _ in rust_layouts()}
    source = (
        "#include <stddef.h>\n#include <stdio.h>\n#include <cuda.h>\n#include <cuda_runtime_api.h>\nint main(void) {\n"
    )
    for what, expression in asked.items():
        if expression is not None:
            source += f'    printf("{what} %zu\\n", {expression});\n'
    compile_c(source + "    return 0;\n}\n", nvidia, tmp_path / "layouts")
    done = subprocess.run([str(tmp_path / "layouts")], capture_output=True, text=True, check=True)
    assert parse_layouts(done.stdout) == [(what, value) for what, value in rust_layouts() if asked[what] is not None]
    assert len(done.stdout.splitlines()) > 150
