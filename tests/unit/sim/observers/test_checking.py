"""A session's checks: bounds to the byte, what the end counts, resets; the texts for addresses. tests/e2e/commands/test_checks.py has whole reports."""

from __future__ import annotations

import struct

import pytest
from farlane.backend import jit
from farlane.backend.device.allocations import Allocation
from farlane.backend.device.base import CudaError, Rows
from farlane.backend.device.sim import SimDevice
from farlane.backend.device.sim.observers import findings
from farlane.backend.jit.lowering.kernel import KernelContext
from farlane.backend.jit.runtime import checks
from sim_program import Program, pack

ALL = ("memory", "race", "init", "leak")


def complaints(program: Program) -> list[str]:
    return [line[9:].strip() for line in program.context.take_output()[1].decode().splitlines()]


def test_bounds_are_exact_to_the_byte(program: Program) -> None:
    program.context.check(["memory"])
    data = program.allocate(10)
    program.launch("poke", pack("QI", data + 4, 0))
    with pytest.raises(CudaError) as caught:
        program.launch("poke", pack("QI", data + 8, 3), block=4)
    assert caught.value.code == 700
    assert complaints(program)[:5] == [
        "Invalid __global__ write of size 4 bytes",
        "at poke, line 57 of its PTX",
        "by thread (3,0,0) in block (0,0,0)",
        f"Address {data + 8:#x} is out of bounds",
        f"and is inside the nearest allocation at {data:#x} of size 10 bytes",
    ]
    assert program.context.finish_checks() == 1


def test_nothing_is_found_where_nothing_is_wrong_and_results_are_the_same(program: Program) -> None:
    program.context.check(ALL)
    words = struct.pack("<64f", *range(64))
    data = program.allocate(len(words), words)
    program.launch("scale", pack("QI", data, 64), grid=2, block=32)
    program.launch("reverse", pack("Q", data), grid=2, block=32, shared=128)
    expected = [number * (1, 2, 3, 4)[number % 4] for number in range(64)]
    assert list(struct.unpack("<64f", program.read(data, 256))) == expected[31::-1] + expected[:31:-1]
    program.context.free(data)
    assert program.context.finish_checks() == 0
    assert complaints(program) == ["ERROR SUMMARY: 0 errors"]


def test_what_copies_leave_unwritten_stays_so(program: Program) -> None:
    program.context.check(["init"])
    source, copied = program.allocate(256), program.allocate(256)
    program.write(source, bytes(128))
    program.context.copy(Rows(copied, 256, 256, 1), Rows(source, 256, 256, 1), program.stream)
    program.launch("scale", pack("QI", copied, 32), block=32)
    assert complaints(program) == []
    program.launch("scale", pack("QI", copied, 40), grid=2, block=32)
    lines = complaints(program)
    assert lines[0] == "Uninitialized __global__ memory read of size 4 bytes"
    assert lines[2:4] == ["by thread (0,0,0) in block (1,0,0)", f"Address {copied + 128:#x}"]
    assert lines[5] == "and 7 more at this place"


def test_a_reset_ends_what_a_program_has_left(program: Program) -> None:
    program.context.check(["leak"])
    data = program.allocate(300)
    program.context.reset()
    assert complaints(program)[:1] == [f"Leaked 300 bytes at {data:#x}"]
    assert program.context.finish_checks() == 1
    assert complaints(program) == ["ERROR SUMMARY: 1 error"]


def test_after_the_bound_reports_are_only_counted(program: Program) -> None:
    program.context.check(["leak"])
    for _ in range(150):
        program.allocate(8)
    assert program.context.finish_checks() == 150
    lines = complaints(program)
    assert sum(line.startswith("Leaked") for line in lines) == 100
    assert lines[-1] == "50 of them were not printed, for there were more than 100"


@pytest.mark.parametrize("kinds", [[], ["memory", "everything"]])
def test_unknown_checks_are_refused(program: Program, kinds: list[str]) -> None:
    with pytest.raises(CudaError):
        program.context.check(kinds)


def test_addresses() -> None:
    live = [Allocation(0x1000, 16), Allocation(0x2000, 16, "variable v")]
    freed = [Allocation(0x3000, 16)]
    say = findings.beside
    assert say(0x1010, 4, live, freed)[1] == "and is 1 bytes after the nearest allocation at 0x1000 of size 16 bytes"
    assert say(0x1FFC, 4, live, freed)[1].startswith("and is 4 bytes before the nearest allocation at 0x2000")
    assert say(0x1FFC, 4, live, freed)[1].endswith("(variable v)")
    assert say(0x3008, 4, live, freed)[1].startswith("and is 8 bytes inside an allocation of size 16 bytes at 0x3000")
    assert say(0x1002, 4, live, freed)[0] == "Address 0x1002 is misaligned"
    assert say(0x1002, 4, [], [])[1] == "and there is no allocation"


def test_without_checks_nothing_is_compiled_in(program: Program) -> None:
    module = jit.parse_module(program.image.decode())
    calls = ("call void @farlane_watch(", "call void @farlane_unwritten(")
    plain = KernelContext(module, "reverse", (32, 1, 1), jit.Options()).emit()
    assert not any(call in plain for call in calls)
    assert "@farlane_exact = internal constant i1 false" in plain
    checked = KernelContext(module, "reverse", (32, 1, 1), jit.Options(checks=checks.RACE | checks.INIT)).emit()
    assert all(call in checked for call in calls)


SURFACE = b""".version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 surface) { .reg .b64 %a<2>; .reg .b32 %r<2>; ld.param.u64 %a0, [surface]; mov.u32 %r0, 0;
sust.b.1d.b32.trap [%a0, {%r0}], {%r0}; ret; }
"""


def test_a_fault_without_an_address_is_told(device: SimDevice) -> None:
    program = Program(device, SURFACE)
    program.context.check(["memory"])
    memory = program.allocate(128)
    with pytest.raises(CudaError, match="a handle of none"):
        program.launch("k", pack("Q", memory))
    assert complaints(program)[:1] == ["Invalid access"]
    assert program.context.finish_checks() == 1
    program.context.close()
