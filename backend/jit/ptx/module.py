"""Scanning a PTX module: its kernels, functions and variables, without looking into bodies.

Owns the split of the text at top level and the parsing of declarations. Bodies are only delimited (by braces) and parsed at
first use by parser.py, because one program may carry many megabytes of PTX of which it runs little.
Source: PTX ISA, "Directives", "Variables", "Kernel and Function Directives".
"""

from __future__ import annotations

import hashlib
import itertools
import re
import struct
from dataclasses import dataclass, field

from farlane.backend.jit.ptx.declarations import Entry, Parameter, PtxError, Relocation, Variable
from farlane.backend.jit.ptx.lexer import Cursor, number, strip_comments
from farlane.backend.jit.ptx.model import Body, Storage

SCALAR_BYTES = {
    "b8": 1, "u8": 1, "s8": 1, "b16": 2, "u16": 2, "s16": 2, "f16": 2, "bf16": 2, "b32": 4, "u32": 4, "s32": 4, "f32": 4,
    "b64": 8, "u64": 8, "s64": 8, "f64": 8, "f16x2": 4, "bf16x2": 4, "b128": 16, "tf32": 4,
}  # fmt: skip
MAX_VARIABLE = 1 << 32
MAX_PARAMETERS = 4096
LINKING = {".visible", ".extern", ".weak", ".common"}
_DELIMITER = re.compile(r'[{};"]')
_IDENTIFIER = re.compile(r"[A-Za-z_$%][\w$]*", re.ASCII)
WORDS = re.compile(r"\s*([.$%\w]+)")
LINE_DIRECTIVES = {".version", ".target", ".address_size", ".file", ".loc"}


@dataclass(slots=True)
class Function:
    """A kernel or device function; `body` is None for a declaration. `parsed` is filled by parser.body_of."""

    name: str
    entry: bool
    parameters: tuple[Storage, ...]
    returns: tuple[Storage, ...]
    line: int
    body: tuple[int, int, int] | None = None  # offsets of the text between the braces, its first line
    noreturn: bool = False
    parsed: Body | None = None


_ADDRESS = re.compile(r"\bmov\.[bu]64\s+[^,;\s]+\s*,\s*([A-Za-z_$%][\w$]*)\s*;")


@dataclass(slots=True)
class Module:
    """The contents of one PTX text. `variables` is in order of appearance; its indices are the relocation table's."""

    text: str
    digest: bytes
    version: tuple[int, int] = (0, 0)
    target: str = ""
    entries: dict[str, Entry] = field(default_factory=dict)
    functions: dict[str, Function] = field(default_factory=dict)
    variables: list[Variable] = field(default_factory=list)
    variable_index: dict[str, int] = field(default_factory=dict)
    _held: frozenset[str] | None = None
    _numbers: dict[str, int] = field(default_factory=dict)

    def held_functions(self) -> frozenset[str]:
        """The functions whose addresses code or variables hold."""
        if self._held is None:
            names = {relocation.symbol for variable in self.variables for relocation in variable.relocations}
            names.update(_ADDRESS.findall(self.text))
            self._held = frozenset(name for name in names if name in self.functions)
        return self._held

    def function_number(self, name: str) -> int:
        """The value of a pointer to a function: not a mapped address, never 0."""
        if len(self._numbers) != len(self.functions):
            self._numbers = {known: 16 * (position + 1) for position, known in enumerate(self.functions)}
        if name not in self._numbers:
            raise PtxError(f"unknown function '{name}'")
        return self._numbers[name]

    def function_at(self, number: int) -> str | None:
        """The function that a pointer names."""
        position, rest = divmod(number, 16)
        if rest or not 0 < position <= len(self.functions):
            return None
        return next(itertools.islice(self.functions, position - 1, None))

    def variable(self, name: str) -> Variable | None:
        index = self.variable_index.get(name)
        return None if index is None else self.variables[index]


def parse_module(text: str) -> Module:
    """Scans a module. Raises PtxError when the text is not PTX."""
    clean = strip_comments(text.rstrip("\0"))
    module = Module(clean, hashlib.sha256(clean.encode("utf-8", "surrogateescape")).digest())
    position, line = 0, 1
    while True:
        match = WORDS.match(clean, position)
        if match is None:
            rest = clean[position:].strip()
            if rest and rest.strip(";"):
                raise PtxError(f"unexpected text '{rest[:40]}'", line)
            break
        line += clean.count("\n", position, match.start(1))
        word, start = match.group(1), match.start(1)
        if word in LINE_DIRECTIVES:
            end = clean.find("\n", start)
            end = len(clean) if end < 0 else end
            header_line(module, clean[start:end], line)
        else:
            end = statement(module, start, line)
        line += clean.count("\n", start, end)
        position = end
    if module.version == (0, 0):
        raise PtxError("no .version directive: not a PTX module", 1)
    return module


def header_line(module: Module, text: str, line: int) -> None:
    words = text.replace(",", " ").split()
    if len(words) < 2:
        raise PtxError(f"malformed {words[0]}", line)
    if words[0] == ".version":
        match = re.fullmatch(r"([0-9]{1,3})\.([0-9]{1,3})", words[1])
        if match is None:
            raise PtxError("malformed .version", line)
        module.version = (int(match.group(1)), int(match.group(2)))
    elif words[0] == ".target":
        module.target = words[1]
    elif words[0] == ".address_size" and words[1] != "64":
        raise PtxError("only 64-bit addresses are supported", line)


def statement(module: Module, start: int, line: int) -> int:
    """Handles one top-level statement; returns the offset after it."""
    text = module.text
    head = WORDS.match(text, start)
    words: list[str] = []
    position = start
    while head is not None and head.group(1) in LINKING:
        words.append(head.group(1))
        position = head.end()
        head = WORDS.match(text, position)
    kind = head.group(1) if head else ""
    opening = _delimiter(text, position, line)
    if kind in (".entry", ".func"):
        function = _function_header(Cursor(text[position : opening.start()], line), line)
        if opening.group() == "{":
            end = _closing(text, opening.end(), line)
            body_line = line + text.count("\n", start, opening.end())
            function.body = (opening.end(), end - 1, body_line)
        else:
            end = opening.end()
        _add_function(module, function, text[position : opening.start()], line)
        return end
    if kind == ".section":
        return _closing(text, opening.end(), line) if opening.group() == "{" else opening.end()
    if kind in (".pragma", ".alias"):
        if kind == ".alias":
            raise PtxError(".alias is not supported", line)
        return opening.end()
    if kind in (".global", ".const", ".shared"):
        end = opening.end()
        if opening.group() == "{":
            end = _delimiter(text, _closing(text, opening.end(), line), line).end()
        cursor = Cursor(text[position:end], line)
        _variables(module, cursor, words)
        return end
    raise PtxError(f"unknown directive '{kind or text[start : start + 20]}'", line)


def _delimiter(text: str, position: int, line: int) -> re.Match[str]:
    """The next brace or semicolon outside of a string."""
    while True:
        match = _DELIMITER.search(text, position)
        if match is None:
            raise PtxError("unexpected end of text", line)
        if match.group() != '"':
            return match
        position = text.find('"', match.end()) + 1
        if position == 0:
            raise PtxError("unterminated string", line)


def _closing(text: str, position: int, line: int) -> int:
    """The offset after the '}' that closes the block whose '{' lies before `position`. Linear in the block's length."""
    depth, end = 1, -1
    while depth:
        if end < position and (end := text.find("}", position)) < 0:
            raise PtxError("unexpected end of text", line)
        quote = text.find('"', position, end)
        depth += text.count("{", position, end if quote < 0 else quote)
        if quote < 0:
            depth -= 1
            position = end + 1
        elif (position := text.find('"', quote + 1) + 1) == 0:
            raise PtxError("unterminated string", line)
    return position


def parameter_list(cursor: Cursor) -> tuple[Storage, ...]:
    """'(' .param declarations ')', or nothing."""
    if not cursor.accept("("):
        return ()
    found: list[Storage] = []
    while not cursor.accept(")"):
        if found:
            cursor.expect(",")
        found.append(parameter(cursor))
        if len(found) > MAX_PARAMETERS:
            raise PtxError("too many parameters", cursor.line)
    return tuple(found)


def parameter(cursor: Cursor) -> Storage:
    """One .param (or .reg, in old device functions: not supported) declaration."""
    line = cursor.line
    cursor.expect(".param")
    align, element = 0, ""
    while cursor.peek.startswith("."):
        word = cursor.next()
        if word == ".align":
            align = cursor.size("alignment", 1 << 16)
        elif word[1:] in SCALAR_BYTES:
            element = word[1:]
        elif word == ".ptr":
            while cursor.peek in (".global", ".const", ".shared", ".local", ".align"):
                if cursor.next() == ".align":
                    cursor.size("alignment")
            break
        else:
            raise PtxError(f"unknown parameter attribute '{word}'", line)
    if not element:
        raise PtxError("parameter without a type", line)
    name = cursor.word("a parameter name") if cursor.peek not in (",", ")") else "_"
    size, array = SCALAR_BYTES[element], False
    natural = size
    if cursor.accept("["):
        array = True
        size *= 0 if cursor.peek == "]" else cursor.size("array size", 1 << 24)
        cursor.expect("]")
    if align & (align - 1):
        raise PtxError("alignment is not a power of two", line)
    return Storage(name, "param", size, align or natural, element, array)


def _function_header(cursor: Cursor, line: int) -> Function:
    entry = cursor.next() == ".entry"
    noreturn = False
    while cursor.peek == ".attribute":
        cursor.next()
        cursor.expect("(")
        while not cursor.accept(")"):
            cursor.next()
    returns = () if entry else parameter_list(cursor)
    name = cursor.word("a function name")
    if not _IDENTIFIER.fullmatch(name):
        raise PtxError(f"'{name}' is no name of a function", line)
    parameters = parameter_list(cursor)
    while cursor.peek:  # performance directives and their values
        token = cursor.next()
        if not (token == "," or token[0] in '."' or token[0].isdigit()):
            raise PtxError(f"unexpected '{token}' behind the parameters of '{name}'", cursor.line)
    return Function(name, entry, parameters, returns, line, noreturn=noreturn)


def _triple(text: str, directive: str, line: int) -> tuple[int, int, int] | None:
    match = re.search(rf"\{directive}\s+([0-9, \s]+)", text)
    if match is None:
        return None
    parts = [int(part) for part in match.group(1).replace(" ", "").replace("\n", "").split(",") if part]
    if not 1 <= len(parts) <= 3 or max(parts) > 1 << 20:
        raise PtxError(f"malformed {directive}", line)
    parts += [1] * (3 - len(parts))
    return (parts[0], parts[1], parts[2])


def _add_function(module: Module, function: Function, header: str, line: int) -> None:
    known = module.functions.get(function.name)
    if known is not None and known.body is not None:
        if function.body is not None:
            raise PtxError(f"function '{function.name}' is defined twice", line)
        return
    module.functions[function.name] = function
    if not function.entry:
        return
    offset, parameters = 0, []
    for item in function.parameters:
        offset = (offset + item.align - 1) & -item.align
        parameters.append(Parameter(item.name, offset, item.size, item.align))
        offset += item.size
    module.entries[function.name] = Entry(
        function.name,
        tuple(parameters),
        offset,
        _triple(header, ".maxntid", line),
        _triple(header, ".reqntid", line),
        _triple(header, ".reqnctapercluster", line),
        (_triple(header, ".maxclusterrank", line) or (0,))[0],
        ".explicitcluster" in header,
        line,
    )


def _variables(module: Module, cursor: Cursor, linking: list[str]) -> None:
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
