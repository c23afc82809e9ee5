"""Structures that Python and compiled code share: LLVM places their fields where ctypes does."""

from __future__ import annotations

import ctypes
from importlib import resources

import llvmlite.binding as llvm
import pytest
from farlane.backend import jit
from farlane.backend.jit.compile import native
from farlane.backend.jit.compile.routines import helpers, repeats
from farlane.backend.jit.runtime import assembly, structures

TABLE = (
    *assembly.STRUCTURES, helpers.Box, helpers.Lead, repeats.Hole, repeats.Operation, repeats.Repeat,
)  # fmt: skip


@pytest.mark.parametrize("structure", TABLE, ids=lambda structure: structure.__name__)
def test_llvm_places_fields_where_ctypes_does(structure: type[ctypes.Structure]) -> None:
    name = structure.__name__
    native.processors.initialise()
    machine = llvm.Target.from_default_triple().create_target_machine()
    text = assembly.define(f"@one = external global %{name}\n", [structure])
    module = llvm.parse_assembly(f'target datalayout = "{machine.target_data}"\n{text}')
    kind = module.get_global_variable("one").global_value_type
    fields = [getattr(structure, field[0]) for field in structure._fields_]
    assert [machine.target_data.get_element_offset(kind, at) for at in range(len(fields))] == [
        one.offset for one in fields
    ]
    assert machine.target_data.get_abi_size(kind) == ctypes.sizeof(structure)


def test_a_field_is_named_in_ir() -> None:
    text = "%p = getelementptr %Fault, ptr %fault, i32 0, i32 Fault.thread, i32 1"
    types, line = assembly.define(text, [structures.Fault]).splitlines()
    assert types == "%Fault = type { i32, i32, i64, i32, i32, [3 x i32], [3 x i32], i32, i32 }"
    assert line == "%p = getelementptr %Fault, ptr %fault, i32 0, i32 6, i32 1"


@pytest.mark.parametrize("wrong", ["i32 Fault.nothing", "i32 Other.thread"])
def test_a_field_that_is_not_there_is_an_error(wrong: str) -> None:
    with pytest.raises(KeyError):
        assembly.define(wrong, [structures.Fault])


def test_address_windows_are_those_of_the_runtime() -> None:
    runtime = resources.files(jit).joinpath("runtime", "ir", "generic.ll").read_text()
    windows = structures.SHARED_WINDOW, structures.LOCAL_WINDOW, structures.PARAMETER_WINDOW
    assert [window >> 32 for window in windows] == [256, 258, 260]
    assert all(f"i64 {window >> 32}, label" in runtime for window in windows)
