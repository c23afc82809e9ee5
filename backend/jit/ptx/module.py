"""Scanning a PTX module: its kernels, functions and variables, without looking into bodies.

Owns the split of the text at top level and the parsing of declarations. Bodies are only delimited (by braces) and parsed at
first use by parser.py, because one program may carry many megabytes of PTX of which it runs little.
Source: PTX ISA, "Directives", "Variables", "Kernel and Function Directives".
"""

from __future__ import annotations

import hashlib
import re

from farlane.backend.jit.ptx.declarations import SCALAR_BYTES, Entry, Function, Module, Parameter, PtxError
from farlane.backend.jit.ptx.lexer import Cursor, strip_comments
from farlane.backend.jit.ptx.model import Storage
from farlane.backend.jit.ptx.variables import variables

MAX_PARAMETERS = 4096
LINKING = {".visible", ".extern", ".weak", ".common"}
_DELIMITER = re.compile(r'[{};"]')
_IDENTIFIER = re.compile(r"[A-Za-z_$%][\w$]*", re.ASCII)
WORDS = re.compile(r"\s*([.$%\w]+)")
LINE_DIRECTIVES = {".version", ".target", ".address_size", ".file", ".loc"}


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
        variables(module, cursor, words)
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
