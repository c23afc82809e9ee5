"""Objects of a host of another architecture than this one's: what their frames are told to be."""

from __future__ import annotations

import llvmlite.binding as llvm
import pytest
from farlane.backend.jit.compile import native

# A frame of no bytes, of some, of several pages, and of more than one subtraction holds; each calls something, so that it saves registers.
SIZES = (0, 40, 9_000, 100_000, 3_000_000)
TRIPLES = ("x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu")


def _module(size: int) -> str:
    room = f"%room = alloca [{size} x i8]" if size else "%room = inttoptr i64 %n to ptr"
    return f"""
declare i64 @other(ptr)
define i64 @f(i64 %n, double %x) {{
  {room}
  %a = call i64 @other(ptr %room)
  %b = call i64 @other(ptr %room)
  %sum = add i64 %a, %b
  %all = add i64 %sum, %n
  ret i64 %all
}}
"""


@pytest.mark.parametrize("triple", TRIPLES)
@pytest.mark.parametrize("size", SIZES)
def test_frames_of_a_foreign_object_are_bounded_closely(triple: str, size: int) -> None:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    machine = llvm.Target.from_triple(triple).create_target_machine(opt=2, reloc="pic", codemodel="default")
    module = llvm.parse_assembly(_module(size))
    module.triple = triple
    told = native.frame_bytes(machine.emit_object(module), triple.split("-")[0])
    assert told is not None
    assert size <= told <= size + 4096


def test_a_machine_that_is_not_known_has_no_bound() -> None:
    assert native.frame_bytes(b"\0" * 64, "riscv64") is None


def test_bytes_that_are_no_code_do_not_end_the_count() -> None:
    for machine in ("x86_64", "aarch64"):
        for length in range(9):
            told = native.frame_bytes(b"\xff" * length, machine)
            assert told == 0, (machine, length)
