"""C types of the API table as Rust types over crate `abi`."""

from __future__ import annotations

import re

from farlane_codegen.problems import TableError

_SCALARS = {
    "void": "c_void",
    "char": "c_char",
    "unsigned char": "c_uchar",
    "unsigned short": "c_ushort",
    "int": "c_int",
    "unsigned int": "c_uint",
    "unsigned long long": "c_ulonglong",
    "size_t": "usize",
    "float": "c_float",
    "double": "c_double",
}
_TYPE = re.compile(r"(const )?((?:unsigned )?\w+(?: long)?(?: long)?)\s*((?:\*\s*(?:const\s*)?)*)")


def rust_type(c_type: str, where: str) -> str:
    """`const void *` -> `*const c_void`, `void **` -> `*mut *mut c_void`."""
    match = _TYPE.fullmatch(c_type)
    if not match:
        raise TableError(f"{where}: cannot read the C type {c_type!r}")
    constant, base, pointers = match.group(1), match.group(2), match.group(3)
    if base not in _SCALARS and not re.fullmatch(r"(cuda|CU|cuuint)\w+|dim3|uint3", base):
        raise TableError(f"{where}: unknown C type {base!r}")
    if base == "void" and not pointers:
        return "()"
    text = _SCALARS.get(base, base)
    pointee_constant = bool(constant)
    for star in re.findall(r"\*\s*(const)?", pointers):
        text = f"*{'const' if pointee_constant else 'mut'} {text}"
        pointee_constant = star == "const"
    return text


def failure_value(rust: str) -> str:
    """What a function that returns no cudaError_t returns after a panic: nothing, null, or a non-zero `unsigned`."""
    if rust == "()":
        return "()"
    if rust.startswith("*mut"):
        return "std::ptr::null_mut()"
    if rust.startswith("*const"):
        return "std::ptr::null()"
    if rust in ("c_int", "c_uint"):
        return "999"
    if rust == "c_char":
        return "0"
    return f"{rust}::default()"
