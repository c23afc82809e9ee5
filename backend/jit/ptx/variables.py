"""Variables of a module: sizes, initialisers, and the addresses in them."""

from __future__ import annotations

import struct

from farlane.backend.jit.ptx.declarations import SCALAR_BYTES, Module, PtxError, Relocation, Variable
from farlane.backend.jit.ptx.lexer import Cursor, number

MAX_VARIABLE = 1 << 32


def variables(module: Module, cursor: Cursor, linking: list[str]) -> None:
    """One variable statement: .space attributes .type name[...] = initialiser, name2 ... ;"""
    space = cursor.next()[1:]
    align, element, managed, lanes = 0, "", False, 1
    while cursor.peek.startswith("."):
        word = cursor.next()
        if word == ".align":
            align = cursor.size("alignment", 1 << 16)
        elif word == ".attribute":
            cursor.expect("(")
            while not cursor.accept(")"):
                managed |= cursor.next() == ".managed"
        elif word in (".v2", ".v4"):
            lanes = int(word[2])
        elif word[1:] in SCALAR_BYTES:
            element = word[1:]
        else:
            raise PtxError(f"variable of unsupported type '{word}'", cursor.line)
    if not element:
        raise PtxError("variable without a type", cursor.line)
    if align & (align - 1):
        raise PtxError("alignment is not a power of two", cursor.line)
    while True:
        line = cursor.line
        name = cursor.word("a variable name")
        count, unsized = dimensions(cursor)
        size = SCALAR_BYTES[element] * lanes * count
        if size > MAX_VARIABLE:
            raise PtxError(f"variable '{name}' is too large", line)
        initial: bytes | None = None
        relocations: list[Relocation] = []
        if cursor.accept("="):
            initial, relocations = _initialiser(cursor, element, size, unsized)
            size = max(size, len(initial)) if unsized else size
        variable = Variable(
            name, space, size, align or SCALAR_BYTES[element] * lanes, initial, tuple(relocations), ".extern" in linking,
            managed, ".visible" in linking or ".weak" in linking or ".common" in linking, line,
        )  # fmt: skip
        add_variable(module, variable)
        if cursor.accept(";"):
            return
        cursor.expect(",")


def dimensions(cursor: Cursor) -> tuple[int, bool]:
    """The product of '[n]' suffixes, and whether one of them was empty."""
    count, unsized, seen = 1, False, 0
    while cursor.accept("["):
        seen += 1
        if seen > 16:
            raise PtxError("too many array dimensions", cursor.line)
        if cursor.peek == "]":
            unsized, count = True, 0
        else:
            count *= cursor.size("array size", MAX_VARIABLE)
        cursor.expect("]")
    return min(count, MAX_VARIABLE * 2), unsized


def add_variable(module: Module, variable: Variable) -> None:
    index = module.variable_index.get(variable.name)
    if index is None:
        module.variable_index[variable.name] = len(module.variables)
        module.variables.append(variable)
    elif module.variables[index].extern:
        module.variables[index] = variable
    elif not variable.extern:
        raise PtxError(f"variable '{variable.name}' is defined twice", variable.line)


def _initialiser(cursor: Cursor, element: str, size: int, unsized: bool) -> tuple[bytes, list[Relocation]]:
    """Scalars, nested braces, symbols (name, name+addend, generic(name)+addend, mask(symbol): not supported)."""
    width = SCALAR_BYTES[element]
    out = bytearray()
    relocations: list[Relocation] = []
    depth = 0
    while True:
        line = cursor.line
        token = cursor.next()
        if token == "{":
            depth += 1
        elif token == "}":
            depth -= 1
        elif token != ",":
            if token == "-" or token[0].isdigit():
                out += _scalar(cursor, token, element, line)
            else:
                relocations.append(_relocation(cursor, token, len(out), width))
                out += bytes(width)
        if depth <= 0:
            break
        if depth > 16 or (len(out) > size and not unsized) or len(out) > MAX_VARIABLE:
            raise PtxError("initialiser is larger than its variable", line)
    if len(out) > size and not unsized:
        raise PtxError("initialiser is larger than its variable", cursor.line)
    return bytes(out) + bytes(max(0, size - len(out))), relocations


def _scalar(cursor: Cursor, token: str, element: str, line: int) -> bytes:
    negative = token == "-"
    value = number(cursor.next() if negative else token, line)
    width = SCALAR_BYTES[element]
    if value.kind == "i" and element not in ("f32", "f64"):
        return ((-value.value if negative else value.value) & ((1 << 8 * width) - 1)).to_bytes(width, "little")
    if value.kind == "i":
        real = float(value.value)
    elif value.kind == "f32":
        real = struct.unpack("<f", struct.pack("<I", value.value))[0]
    else:
        real = struct.unpack("<d", struct.pack("<Q", value.value))[0]
    real = -real if negative else real
    if element == "f32":
        return value.value.to_bytes(4, "little") if value.kind == "f32" and not negative else struct.pack("<f", real)
    if element == "f64":
        return value.value.to_bytes(8, "little") if value.kind == "f64" and not negative else struct.pack("<d", real)
    raise PtxError("a float initialises an integer", line)


def _relocation(cursor: Cursor, token: str, offset: int, width: int) -> Relocation:
    generic = token == "generic" and cursor.peek == "("
    if generic:
        cursor.expect("(")
        token = cursor.word("a symbol")
        cursor.expect(")")
    elif cursor.peek == "(":
        raise PtxError(f"unsupported initialiser '{token}(...)'", cursor.line)
    addend = 0
    if cursor.peek in ("+", "-"):
        sign = -1 if cursor.next() == "-" else 1
        addend = sign * cursor.integer("an addend")
    if width != 8:
        raise PtxError("an address initialises something that is not 64 bits wide", cursor.line)
    return Relocation(offset, token, addend, generic, width)
