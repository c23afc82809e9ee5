"""The text of a kernel's LLVM module: the runtime's parts (*.ll), the kernel's constants, its helpers and its functions.

Owns which runtime parts there are, and the attributes that every function gets; kernel.py says what is the kernel's. The ctypes structures that Python and
compiled code share are the one table of fields: IR files name a field as `i32 Launch.grid`, and `define` gives each structure its LLVM type.
"""

from __future__ import annotations

import ctypes
import functools
import re
from collections.abc import Iterable, Sequence
from importlib import resources
from typing import Any

from farlane.backend.jit.runtime import fibers
from farlane.backend.jit.runtime.checks import Findings, Record, Shadow, ShadowEntry
from farlane.backend.jit.runtime.services import Request
from farlane.backend.jit.runtime.structures import (
    Barrier,
    Fault,
    HostMappings,
    Latch,
    Launch,
    Run,
    WarpState,
    WorkerState,
)
from farlane.backend.jit.runtime.touches import TouchBuffer

_DEFINE = re.compile(r"^(define .*?)( \{)$", re.MULTILINE)
_ATTRIBUTES = (
    'attributes #0 = { nounwind null_pointer_is_valid "prefer-vector-width"="512" "min-legal-vector-width"="512" }\n'
)
_METADATA = '!0 = !{!"branch_weights", i32 1, i32 100000}\n!1 = !{}\n!3 = !{i32 1}\n'
STRUCTURES = (
    Launch, WorkerState, WarpState, Barrier, Latch, Fault, Run, HostMappings, Request, Findings, Record, Shadow, ShadowEntry, TouchBuffer,
)  # fmt: skip
Table = Sequence[type[ctypes.Structure]]
_SCALARS = {1: "i8", 4: "i32", 8: "i64"}
_FIELD = re.compile(r"\bi32 ([A-Z]\w*)\.(\w+)")
NO_GROUP = "define internal i32 @farlane_group(ptr %warp, ptr %areas) {\n  ret i32 1\n}\n"


def assemble(
    checked: bool,
    touches: bool,
    declarations: Iterable[str],
    constants: Iterable[str],
    texts: Iterable[str],
    warps: int,
) -> str:
    """A module.

    Args:
        checked, touches: which parts of the runtime (Options.checks, Options.touches).
        declarations: those that the runtime has are left out.
        warps: of a block; the range of a warp's index.
    """
    runtime = _runtime(checked, touches)
    declared = (text for text in declarations if text not in runtime)
    parts = [runtime, *declared, *constants, *texts]
    text = _DEFINE.sub(
        lambda match: match.group() if "#0" in match.group() else f"{match.group(1)} #0{match.group(2)}",
        "\n".join(parts),
    )
    return text + "\n" + _ATTRIBUTES + _METADATA + f"!2 = !{{i32 0, i32 {warps}}}\n"


@functools.cache
def _runtime(checked: bool, touches: bool) -> str:
    names = (
        "runtime.ll",
        "accesses.ll",
        "generic.ll",
        "barriers.ll",
        "blocks.ll",
        "scheduler.ll",
        "warp_group.ll",
        "cooperative.ll",
        "cluster.ll",
        "waiting_blocks.ll",
        "services.ll",
        "lane_fibers.ll",
        *(("checks.ll", "races.ll") if checked else ("unchecked.ll",)),
        *(("touches.ll",) if touches else ()),
    )
    folder = resources.files(__package__).joinpath("ir")
    parts = [folder.joinpath(name).read_text(encoding="utf-8") for name in names]
    return fibers.prepare(define("\n".join(parts), STRUCTURES))


def llvm_type(kind: Any) -> str:
    """The LLVM type of a ctypes type."""
    if issubclass(kind, ctypes.Structure):
        return "{ " + ", ".join(llvm_type(field[1]) for field in kind._fields_) + " }"
    if issubclass(kind, ctypes.Array):
        return f"[{kind._length_} x {llvm_type(kind._type_)}]"
    pointers = (ctypes.c_void_p, ctypes._Pointer, ctypes._CFuncPtr)  # type: ignore[attr-defined]
    return "ptr" if issubclass(kind, pointers) else _SCALARS[ctypes.sizeof(kind)]


def define(text: str, table: Table) -> str:
    """IR with the types of the table in front, and numbers in place of fields' names."""
    numbers = {
        (structure.__name__, field[0]): number for structure in table for number, field in enumerate(structure._fields_)
    }
    types = "".join(f"%{structure.__name__} = type {llvm_type(structure)}\n" for structure in table)
    return types + _FIELD.sub(lambda match: f"i32 {numbers[match[1], match[2]]}", text)
