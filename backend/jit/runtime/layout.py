"""LLVM types and field numbers of the structures that Python and compiled code share.

The ctypes structures are the table. IR files name a field as `i32 Launch.grid`, and `define` gives each structure its LLVM type; emitters
take `Launch.grid.offset`. So the order of fields is written down once.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Sequence
from typing import Any

Table = Sequence[type[ctypes.Structure]]

_SCALARS = {1: "i8", 4: "i32", 8: "i64"}
_FIELD = re.compile(r"\bi32 ([A-Z]\w*)\.(\w+)")


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
