"""What is called in libcuda without CuPy, against NVIDIA's own cuda.h (from PyPI): names, parameters, structures, constants."""

from __future__ import annotations

import ctypes
import functools
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from farlane.backend.device.generated_attributes import Attribute
from farlane.backend.device.gpu.driver import interface, prototypes
from farlane.backend.plane import CUDA_FUNCTIONS
from farlane.frontend.devtools.releases import compile_c, enumeration, release

from .test_driver import CUPY

RELEASES = ("12.9.79", "13.5.37")
STRUCTURES = {
    name: kind
    for name, kind in vars(prototypes).items()
    if isinstance(kind, type) and issubclass(kind, ctypes.Structure | ctypes.Union) and not name.startswith("_")
}
PLAIN = {
    "int": ctypes.c_int, "float": ctypes.c_float, "unsigned int": ctypes.c_uint, "size_t": ctypes.c_size_t, "unsigned char": ctypes.c_ubyte,
    "unsigned short": ctypes.c_ushort, "unsigned long long": ctypes.c_ulonglong, "CUdevice": ctypes.c_int,
    "CUdeviceptr": ctypes.c_ulonglong, "CUmemGenericAllocationHandle": ctypes.c_ulonglong,
    "CUtexObject": ctypes.c_ulonglong, "CUsurfObject": ctypes.c_ulonglong, "cuuint32_t": ctypes.c_uint, "cuuint64_t": ctypes.c_ulonglong,
}  # fmt: skip


# Libraries export them under their old names, which programs built before need; the newest header declares the new ones alone.
RENAMED = {"cuEventElapsedTime"}


@functools.cache
def header(version: str) -> str:
    include = [f"-I{folder}" for folder in release(version).include]
    command = ["cc", "-E", "-P", "-xc", *include, "-"]
    done = subprocess.run(command, input="#include <cuda.h>\n", capture_output=True, text=True, check=True)
    return done.stdout


def ctypes_of(text: str, handles: set[str], enumerations: set[str]) -> Any:
    """`const CUgraphNode *dependencies` -> POINTER(c_void_p)."""
    text = re.sub(r"\bconst\b", "", text)
    name = re.fullmatch(r"\s*(.*?[\s*])(\w+)\s*", text, re.DOTALL)
    assert name is not None, text
    kind = re.sub(r"_v[12]\b", "", " ".join(name[1].replace("*", " * ").split()))
    stars = kind.count("*")
    kind = kind.replace("*", "").strip()
    if kind == "void":
        return ctypes.c_void_p  # whatever it points to
    if kind == "char":
        base, stars = ctypes.c_char_p, stars - 1
    elif kind in STRUCTURES:
        base = STRUCTURES[kind]
    elif kind in handles:
        base = ctypes.c_void_p
    elif kind in enumerations:
        base = ctypes.c_int
    else:
        base = PLAIN[kind]
    return functools.reduce(lambda inner, _: ctypes.POINTER(inner), range(stars), base)


@pytest.mark.native
@pytest.mark.parametrize("version", RELEASES)
def test_every_function_has_the_headers_parameters(version: str) -> None:
    text = header(version)
    handles = set(re.findall(r"typedef struct \w+_st \*(\w+);", text))
    enumerations = set(re.findall(r"typedef enum \w+ (?:\{[^}]*\} )?(\w+);", text))
    assert {"CUstream", "CUgraphNode", "CUmodule"} <= handles
    for name, kinds in prototypes.FUNCTIONS.items():
        declared = f"{name}(?:_v2)?" if name in RENAMED else name
        found = re.search(rf"\bCUresult\s+(?:__attribute__\S+\s+)?{declared}\s*\(([^;]*)\)\s*;", text)
        assert found is not None, f"cuda.h has no {name}"
        arguments = [] if found[1].strip() == "void" else found[1].split(",")
        assert [ctypes_of(each, handles, enumerations) for each in arguments] == list(kinds), name


def test_the_plane_calls_functions_as_they_are() -> None:
    """The Rust table, whose handles and addresses are numbers, against the prototypes."""
    source = (Path(__file__).parents[3] / "backend/plane/src/device/cuda/functions.rs").read_text()
    table = source[source.index("functions! {\n") : source.index("const PORTABLE")]
    rows = re.findall(r'= "(\w+)"\(([^)]*)\);', table)
    assert [name for name, _ in rows] == CUDA_FUNCTIONS
    sizes = {"usize": 8, "u64": 8, "*mut usize": 8, "*mut f32": 8, "u32": 4, "u16": 2, "u8": 1}
    for name, arguments in rows:
        kinds = [each.split(":")[1].strip() for each in arguments.split(",") if each.strip()]
        assert [sizes[kind] for kind in kinds] == [ctypes.sizeof(kind) for kind in prototypes.FUNCTIONS[name]], name


def members(kind: Any, path: str = "", start: int = 0) -> list[tuple[str, int, int]]:
    """(name, offset, size) of every field, those of structures and unions inside included."""
    found = []
    for field, inner in kind._fields_:
        place = start + getattr(kind, field).offset
        found.append((path + field, place, ctypes.sizeof(inner)))
        if issubclass(inner, (ctypes.Structure, ctypes.Union)):
            found += members(inner, f"{path}{field}.", place)
    return found


@pytest.mark.native
@pytest.mark.parametrize("version", RELEASES)
def test_structures_and_constants(version: str, tmp_path: Path) -> None:
    lines = ["#include <stddef.h>", "#include <stdint.h>", "#include <cuda.h>"]
    for name, kind in STRUCTURES.items():
        lines.append(f'_Static_assert(sizeof({name}) == {ctypes.sizeof(kind)}, "{name}");')
        for field, offset, size in members(kind):
            lines.append(f'_Static_assert(offsetof({name}, {field}) == {offset}, "{name}.{field}");')
            lines.append(f'_Static_assert(sizeof((({name} *)0)->{field}) == {size}, "{name}.{field}");')
    constants = {
        name: value
        for name, value in vars(prototypes).items()
        if name.startswith(("CU_", "CUDA_ERROR_", "CUDA_ARRAY3D_")) and isinstance(value, int)
    }
    for array_format in interface.ArrayFormat:
        constants[f"CU_AD_FORMAT_{array_format.name}"] = array_format
    attribute = Attribute.VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED
    constants[f"CU_DEVICE_ATTRIBUTE_{attribute.name}"] = attribute
    for function_attribute in interface.FunctionAttribute:
        constants[f"CU_FUNC_ATTRIBUTE_{function_attribute.name}"] = function_attribute
    assert len(constants) > 25
    pointers = {
        "CU_LAUNCH_PARAM_END",
        "CU_LAUNCH_PARAM_BUFFER_POINTER",
        "CU_LAUNCH_PARAM_BUFFER_SIZE",
        "CU_STREAM_LEGACY",
    }
    plain = {name: value for name, value in constants.items() if name not in pointers}
    lines += [f'_Static_assert({name} == {int(value)}, "{name}");' for name, value in plain.items()]
    tests = [f"(uintptr_t){name} != {constants[name]}" for name in sorted(pointers)]
    lines.append(f"int main(void) {{ return {' || '.join(tests)}; }}")
    program = tmp_path / "constants"
    compile_c("\n".join(lines) + "\n", release(version), program)
    assert subprocess.run([program], check=False).returncode == 0


@pytest.mark.native
def test_attributes_have_one_number_in_both_apis() -> None:
    """The driver is asked by the numbers of cudaDeviceAttr: each names the same thing there."""
    version = RELEASES[-1]
    body = re.search(r"enum CUdevice_attribute_enum\s*\{([^}]*)\}", header(version))
    assert body is not None
    theirs: dict[int, set[str]] = {}
    for name, value in re.findall(r"CU_DEVICE_ATTRIBUTE_(\w+)\s*=\s*(\d+)", body[1]):
        theirs.setdefault(int(value), set()).add(name.lower().replace("maximum", "max").replace("_", ""))
    ours = {value: name for name, value in enumeration(version, "cudaDeviceAttr").items()}
    spelled_otherwise = {
        attribute
        for attribute in Attribute
        if attribute in ours
        if "Reserved" not in ours[attribute]
        if ours[attribute].removeprefix("cudaDevAttr").lower() not in theirs[attribute]
    }
    # ...Alternate for ...Alt, MultiGpuBoard, ReadOnlyHostRegisterSupported, MempoolSupportedHandleTypes, IpcEventSupported, and two of
    # the runtime API's reserved numbers
    assert spelled_otherwise == {47, 48, 49, 84, 113, 119, 125, 150, 151}


def test_every_call_of_the_interface_is_there() -> None:
    """The driver has the whole interface, parameter for parameter."""
    import inspect

    from farlane.backend.device.gpu.driver.cuda import CudaDriver

    for name, method in inspect.getmembers(interface.Driver, inspect.isfunction):
        if name.startswith("_"):
            continue
        wanted = list(inspect.signature(method).parameters)
        assert list(inspect.signature(getattr(CudaDriver, name)).parameters) == wanted, name


def test_what_is_called_of_cupy() -> None:
    """Nothing but what both versions of CuPy were seen to have (test_driver.py)."""
    assert {name for _, name in called_of_cupy()} == {name for functions in CUPY.values() for name in functions}


def test_names_of_cupy() -> None:
    """Where CuPy is installed: it has every function that is called, with as many parameters."""
    pytest.importorskip("cupy_backends.cuda.api.driver", reason="CuPy is not installed")
    from cupy_backends.cuda.api import driver, runtime

    for module, name in called_of_cupy():
        assert hasattr(driver if module == "driver" else runtime, name), f"CuPy's {module} has no {name}"


def called_of_cupy() -> set[tuple[str, str]]:
    """(module, function), and not the errors' classes."""
    folder = Path(prototypes.__file__).parent
    source = "".join((folder / name).read_text() for name in ("cuda.py", "libraries.py"))
    return set(re.findall(r"self\._(driver|runtime)\.(\w+)", source))
