"""Modules: variables and their initial values, lookups, unloading, and images that cannot be loaded."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from farlane.backend.device.base import CudaError
from farlane.backend.device.sim import SimDevice
from sim_program import Program, pack

IMAGES = Path(__file__).parents[2] / "fatbin" / "images"
HEADER = ".version 7.5\n.target sm_75\n.address_size 64\n"


def load_error(program: Program, image: bytes) -> CudaError:
    with pytest.raises(CudaError) as found:
        program.context.load_module(image)
    assert not found.value.sticky
    return found.value


def test_initial_values_and_relocations(program: Program) -> None:
    variable = lambda name: program.context.variable(program.module, name)  # noqa: E731
    counter, size = variable("counter")
    assert (size, program.read(counter, 4)) == (4, pack("I", 7))
    pointer, size = variable("counter_pointer")
    assert (size, program.read(pointer, 8)) == (8, pack("Q", counter))
    factors, size = variable("factors")
    assert (size, program.read(factors, 16)) == (16, pack("4f", 1, 2, 3, 4))
    table, size = variable("table")
    assert (size, program.read(table, 64)) == (64, bytes(64))
    assert table % 16 == 0


def test_variables_lie_outside_the_guest_s_part(program: Program) -> None:
    address, _ = program.context.variable(program.module, "counter")
    window = program.context.window
    assert not window.base <= address < window.base + window.size


def test_host_writes_to_variables_are_seen_by_kernels(program: Program) -> None:
    factors, _ = program.context.variable(program.module, "factors")
    program.write(factors, pack("4f", 10, 20, 30, 40))
    at = program.allocate(16, pack("4f", 1, 1, 1, 1))
    program.launch("scale", pack("QI", at, 4), block=32)
    assert program.read(at, 16) == pack("4f", 10, 20, 30, 40)
    counter, _ = program.context.variable(program.module, "counter")
    other = program.allocate(4, pack("I", 100))
    pointer, _ = program.context.variable(program.module, "counter_pointer")
    program.write(pointer, pack("Q", other))
    program.launch("count", block=5)
    assert (program.read(other, 4), program.read(counter, 4)) == (pack("I", 105), pack("I", 7))


def test_each_load_and_each_session_has_variables_of_its_own(device: SimDevice, program: Program) -> None:
    other = Program(device)
    twin = program.context.load_module(program.image)
    addresses = {
        program.context.variable(program.module, "counter")[0],
        program.context.variable(twin, "counter")[0],
        other.context.variable(other.module, "counter")[0],
    }
    assert len(addresses) == 3
    program.launch("count", block=32)
    assert program.read(program.context.variable(twin, "counter")[0], 4) == pack("I", 7)
    assert other.read(other.context.variable(other.module, "counter")[0], 4) == pack("I", 7)
    other.context.close()


def test_unknown_names(program: Program) -> None:
    for call, name, code in (
        (program.context.function, "absent", 98),
        (program.context.function, "counter", 98),
        (program.context.variable, "absent", 13),
        (program.context.variable, "scratch", 13),
        (program.context.variable, "scale", 13),
    ):
        with pytest.raises(CudaError, match=name) as found:
            call(program.module, name)
        assert found.value.code == code


def test_unloading_frees_variables_and_ends_functions(program: Program) -> None:
    context = program.context
    twin = context.load_module(program.image)
    function = context.function(twin, "count")
    addresses = [context.variable(twin, name)[0] for name in ("counter", "counter_pointer", "factors", "table")]
    for address in addresses:
        program.read(address, 4)
    context.unload_module(twin)
    for address in addresses:
        with pytest.raises(CudaError):
            program.read(address, 4)
    for call in (
        lambda: context.function(twin, "count"),
        lambda: context.variable(twin, "counter"),
        lambda: context.launch(function, _shape(), memoryview(b""), program.stream),
    ):
        with pytest.raises(CudaError, match="unloaded") as found:
            call()
        assert found.value.code == 400
    context.unload_module(twin)


def _shape() -> object:
    from farlane.backend.device.base import LaunchShape

    return LaunchShape((1, 1, 1), (1, 1, 1), 0)


@pytest.mark.parametrize(
    ("image", "code", "words"),
    [
        (b"", 200, "malformed image"),
        (b"garbage", 200, "malformed image"),
        (HEADER.encode() + b".visible .entry broken(", 218, "PTX"),
        (HEADER.encode() + b".extern .global .u32 elsewhere;", 200, "'elsewhere' is declared extern"),
        (HEADER.encode() + b".global .u64 p = nowhere;", 200, "nowhere"),
    ],
)
def test_images_that_cannot_be_loaded(program: Program, image: bytes, code: int, words: str) -> None:
    pages = program.context._memory.window.resident_pages
    error = load_error(program, image)
    assert error.code == code
    assert words in error.message
    assert program.context._memory.window.resident_pages == pages


def test_a_check_names_everything_that_nothing_defines(program: Program) -> None:
    image = (
        HEADER
        + ".extern .global .u32 elsewhere;\n.extern .func missing();\n.extern .func lost();\n.extern .func (.param .b32 r) vprintf(.param .b64 f, .param .b64 a);\n"
        ".func inner()\n{\ncall missing;\ncall missing;\nret;\n}\n"
        ".visible .entry outer()\n{\n.reg .b64 %rd<2>;\n{\n.param .b64 f;\n.param .b64 a;\n.param .b32 r;\n"
        "call (r), vprintf, (f, a);\n}\ncall inner;\ncall lost;\nret;\n}\n"
    ).encode()
    program.context.check_module(image, unit=True)
    with pytest.raises(CudaError) as found:
        program.context.check_module(image, unit=False)
    assert found.value.code == 200
    assert found.value.message.splitlines() == [
        "undefined reference to 'elsewhere'",
        "undefined reference to 'missing' in 'inner'",
        "undefined reference to 'lost' in 'outer'",
    ]


def test_a_variable_beyond_the_quota(program: Program) -> None:
    error = load_error(program, HEADER.encode() + b".global .align 4 .b8 huge[2000000000];")
    assert error.code == 2
    assert "2000000000" in error.message


def test_wide_alignment(program: Program) -> None:
    text = (
        HEADER + ".visible .global .align 1 .b8 a[3];\n.visible .global .align 8192 .b8 b[5];\n.visible .const .u8 c;\n"
    )
    modules = [program.context.load_module(text.encode()) for _ in range(3)]
    for module in modules:
        assert program.context.variable(module, "b")[0] % 8192 == 0
        ranges = sorted(program.context.variable(module, name) for name in "abc")
        assert all(low + size <= high for (low, size), (high, _) in pairwise(ranges))


@pytest.mark.parametrize("name", ["zstd", "lz4", "stored", "several"])
def test_images_of_nvcc_run(program: Program, name: str) -> None:
    program.module = program.context.load_module((IMAGES / f"{name}.fatbin").read_bytes())
    data = np.arange(1000, dtype=np.float32)
    at = program.allocate(data.nbytes, data.tobytes())
    program.launch("scale", pack("QI", at, 1000), grid=8, block=128)
    assert program.read(at, data.nbytes) == (data * np.resize(np.array([2, 3], np.float32), 1000)).tobytes()


def test_an_image_without_ptx_says_what_there_is(program: Program) -> None:
    error = load_error(program, (IMAGES / "machine_code.fatbin").read_bytes())
    assert error.code == 209
    assert "machine code for sm_75, machine code for sm_90" in error.message
