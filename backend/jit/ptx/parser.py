"""Function bodies: PTX statements to instructions with labels.

Owns scopes (`{ }` from inline assembly and call sequences redeclare names: every declaration gets a unique internal name),
operand syntax and the split of operands into destinations and sources. Does not know what an instruction does beyond that.
Bounded: linear in the text; nesting and instruction counts are limited; no recursion on input.
Source: PTX ISA, "Instruction Statements", "Operands", "Control Flow Instructions: call".
"""

from __future__ import annotations

import re
from typing import Any

from farlane.backend.jit.ptx import spelling
from farlane.backend.jit.ptx.declarations import PtxError, UnsupportedError
from farlane.backend.jit.ptx.lexer import Cursor, is_word, number
from farlane.backend.jit.ptx.model import (
    Address,
    Body,
    Immediate,
    Instruction,
    Negated,
    Register,
    Special,
    Storage,
    Symbol,
    Vector,
)
from farlane.backend.jit.ptx.module import SCALAR_BYTES, Function, Module, dimensions, parameter_list
from farlane.backend.jit.ptx.selectors import SELECTING, Field, extractions, split

MAX_INSTRUCTIONS = 1 << 20
MAX_DEPTH = 256
MAX_OPERANDS = 64

REGISTER_TYPES = {
    "pred": "pred", "b8": "b16", "s8": "b16", "u8": "b16", "b16": "b16", "s16": "b16", "u16": "b16", "f16": "b16", "bf16": "b16",
    "b32": "b32", "s32": "b32", "u32": "b32", "f16x2": "b32", "bf16x2": "b32", "b64": "b64", "s64": "b64", "u64": "b64",
    "f32": "f32", "f64": "f64", "b128": "b128",
}  # fmt: skip
_NUMBERED = re.compile(r"(.*?)([0-9]{1,9})$")
# Instructions that write no register. A reduction form of bar does.
NO_DESTINATION = {
    "st", "red", "bra", "brx", "ret", "exit", "trap", "brkpt", "bar", "barrier", "membar", "fence", "prefetch", "prefetchu",
    "nanosleep", "pmevent", "discard", "applypriority", "cp", "sust", "sured", "griddepcontrol", "stmatrix",
    "tensormap", "setmaxnreg", "st.bulk", "clusterlaunchcontrol.try_cancel",
}  # fmt: skip
_SPECIALS = {
    "tid", "ntid", "ctaid", "nctaid", "laneid", "warpid", "nwarpid", "smid", "nsmid", "gridid", "lanemask_eq", "lanemask_le",
    "lanemask_lt", "lanemask_ge", "lanemask_gt", "clock", "clock_hi", "clock64", "globaltimer", "globaltimer_lo",
    "globaltimer_hi", "reserved_smem_offset_begin", "reserved_smem_offset_end", "reserved_smem_offset_cap", "reserved_smem_offset_0",
    "reserved_smem_offset_1", "dynamic_smem_size", "total_smem_size", "is_explicit_cluster", "clusterid", "nclusterid",
    "cluster_ctaid", "cluster_nctaid", "cluster_ctarank", "cluster_nctarank", "aggr_smem_size", "current_graph_exec",
    "envreg",
}  # fmt: skip


def _writes(base: str, modifiers: tuple[str, ...]) -> bool:
    """Whether an instruction's first operand is its destination."""
    if base in ("bar", "barrier"):
        return "red" in modifiers
    if base == "wgmma":
        return "mma_async" in modifiers
    if base == "mbarrier":
        return modifiers[:1] not in (("init",), ("inval",), ("expect_tx",), ("complete_tx",))
    return base not in NO_DESTINATION and not (base == "wmma" and "store" in modifiers)


class _Scope:
    """The declarations of one brace level."""

    __slots__ = ("families", "labels", "names", "registers", "suffix")

    def __init__(self, suffix: str) -> None:
        self.suffix = suffix
        self.registers: dict[str, str] = {}
        self.families: dict[str, tuple[str, int]] = {}
        self.names: dict[str, str] = {}
        self.labels: set[str] = set()


def body_of(module: Module, function: Function) -> Body:
    """The parsed body of a function that has one. Cached in the function."""
    if function.parsed is None:
        if function.body is None:
            raise PtxError(f"function '{function.name}' has no body", function.line)
        start, end, line = function.body
        function.parsed = _BodyParser(Cursor(module.text[start:end], line), function).parse()
        if not function.entry:
            _own_parameters(function.parsed)
    return function.parsed


def _own_parameters(body: Body) -> None:
    """A device function's parameters lie in local memory here: `param` with an address from a register means that, and not the kernel's."""
    for item in body.instructions:
        operands = item.sources[:1] if item.base in ("ld", "st", "cvta") else []
        named = any(isinstance(getattr(operand, "base", operand), Register) for operand in operands)
        if named or item.base == "cvta":
            item.modifiers = tuple("local" if part in ("param", "param::func") else part for part in item.modifiers)


class _BodyParser:
    def __init__(self, cursor: Cursor, function: Function) -> None:
        self.cursor = cursor
        self.body = Body()
        self.scopes = [_Scope("")]
        self.counter = 0
        self.cache: dict[str, Register] = {}
        self.pending: list[tuple[Instruction, tuple[_Scope, ...]]] = []
        for item in (*function.parameters, *function.returns):
            self.body.storage[item.name] = item

    def parse(self) -> Body:
        cursor = self.cursor
        while cursor.peek:
            token = cursor.peek
            if token == "{":
                cursor.next()
                self.counter += 1
                self.scopes.append(_Scope(f"#{self.counter}"))
                self.cache.clear()
                if len(self.scopes) > MAX_DEPTH:
                    raise PtxError("blocks are nested too deeply", cursor.line)
            elif token == "}":
                cursor.next()
                self.scopes.pop()
                self.cache.clear()
                if not self.scopes:
                    raise PtxError("unbalanced '}'", cursor.line)
            elif token == ";":
                cursor.next()
            elif token == "@":
                self._guarded()
            elif token.startswith("."):
                self._directive()
            else:
                self._labelled()
        if len(self.scopes) != 1:
            raise PtxError("unbalanced '{'", cursor.line)
        self._resolve_labels()
        return self.body

    # Declarations ------------------------------------------------------------------------------------------------
    def _directive(self) -> None:
        cursor = self.cursor
        line, word = cursor.line, cursor.next()
        if word == ".reg":
            self._registers()
        elif word in (".local", ".shared", ".param"):
            self._storage(word[1:])
        elif word == ".loc":
            while cursor.line == line and cursor.peek and cursor.peek not in ("{", "}"):
                cursor.next()
        elif word in (".pragma", ".maxnreg"):
            while not cursor.accept(";"):
                cursor.next()
        elif word == ".section":
            while not cursor.accept("{"):
                cursor.next()
            cursor.skip_braces()
        elif word in (".global", ".const"):
            raise UnsupportedError(f"{word} variable inside a function", line)
        else:
            raise PtxError(f"unknown directive '{word}'", line)

    def _registers(self) -> None:
        cursor, scope = self.cursor, self.scopes[-1]
        word = cursor.next()
        if word in (".v2", ".v4"):
            raise UnsupportedError("vector registers", cursor.line)
        kind = REGISTER_TYPES.get(word[1:])
        if kind is None or not word.startswith("."):
            raise UnsupportedError(f"register type '{word}'", cursor.line)
        while True:
            name = cursor.word("a register name")
            if cursor.accept("<"):
                scope.families[name] = (kind, cursor.size("register count", 1 << 24))
                cursor.expect(">")
            else:
                scope.registers[name] = kind
            if cursor.accept(";"):
                break
            cursor.expect(",")
        self.cache.clear()

    def _storage(self, space: str) -> None:
        cursor, scope = self.cursor, self.scopes[-1]
        align, element = 0, ""
        while cursor.peek.startswith("."):
            word = cursor.next()
            if word == ".align":
                align = cursor.size("alignment", 1 << 16)
            elif word[1:] in SCALAR_BYTES:
                element = word[1:]
            else:
                raise UnsupportedError(f"{space} variable with '{word}'", cursor.line)
        if not element or align & (align - 1):
            raise PtxError(f"malformed .{space} declaration", cursor.line)
        while True:
            name = cursor.word("a variable name")
            array = cursor.peek == "["
            count, _ = dimensions(cursor)
            size = SCALAR_BYTES[element] * count
            if size > 1 << 30:
                raise PtxError(f"variable '{name}' is too large", cursor.line)
            unique = name + scope.suffix
            scope.names[name] = unique
            natural = align or SCALAR_BYTES[element]
            self.body.storage[unique] = Storage(unique, space, size, natural, element, array)
            if cursor.accept(";"):
                return
            if cursor.peek == "=":
                raise PtxError(f"initialised .{space} variable", cursor.line)
            cursor.expect(",")

    # Statements --------------------------------------------------------------------------------------------------
    def _labelled(self) -> None:
        cursor = self.cursor
        line = cursor.line
        word = cursor.word("an instruction")
        if cursor.peek != ":":
            self._instruction(word, line, None)
            return
        cursor.next()
        scope = self.scopes[-1]
        if cursor.peek == ".branchtargets":
            cursor.next()
            targets = [cursor.word("a label")]
            while cursor.accept(","):
                targets.append(cursor.word("a label"))
            cursor.expect(";")
            self.body.tables[word] = tuple(targets)
        elif cursor.peek == ".callprototype":
            cursor.next()
            returns = parameter_list(cursor)
            cursor.word("a prototype name")
            parameters = parameter_list(cursor)
            while not cursor.accept(";"):
                cursor.next()
            self.body.prototypes[word] = (parameters, returns)
        else:
            unique = word + scope.suffix
            if word in scope.labels or unique in self.body.labels:
                raise PtxError(f"label '{word}' is defined twice", line)
            scope.labels.add(word)
            self.body.labels[unique] = len(self.body.instructions)

    def _guarded(self) -> None:
        cursor = self.cursor
        cursor.next()
        negated = cursor.accept("!")
        line = cursor.line
        predicate = self._operand()
        if not isinstance(predicate, Register) or predicate.type != "pred":
            raise PtxError("a guard must be a predicate register", line)
        line = cursor.line
        self._instruction(cursor.word("an instruction"), line, (predicate, negated))

    def _instruction(self, opcode: str, line: int, guard: tuple[Register, bool] | None) -> None:
        base, modifiers = spelling.split(opcode)
        if not base or not is_word(base[0]) or opcode.startswith("%"):
            raise PtxError(f"expected an instruction, found '{opcode}'", line)
        if len(self.body.instructions) >= MAX_INSTRUCTIONS:
            raise PtxError("function is too long", line)
        if base == "call":
            instruction = self._call(modifiers, line)
        else:
            instruction = self._plain(base, spelling.canonical(base, modifiers), line)
        if base in SELECTING:
            before = extractions(instruction, len(self.body.instructions))
            self.body.instructions += before
            self.body.registers += len(before)
        instruction.guard = guard
        if base in ("bra", "brx", "call"):
            self.pending.append((instruction, tuple(self.scopes)))
        self.body.instructions.append(instruction)

    def _plain(self, base: str, modifiers: tuple[str, ...], line: int) -> Instruction:
        cursor = self.cursor
        operands: list[Any] = []
        destinations: list[Any] = []
        while not cursor.accept(";"):
            if operands or destinations:
                cursor.expect(",")
            writes = _writes(base, modifiers)
            if not operands and not destinations and writes:
                destinations = self._destination(line)
            else:
                operands.append(self._operand())
            if len(operands) > MAX_OPERANDS:
                raise PtxError("too many operands", line)
        if base == "bra":
            if len(operands) != 1 or not isinstance(operands[0], Symbol):
                raise PtxError("malformed branch", line)
            return Instruction(base, modifiers, [], [], line, labels=(operands[0].name,))
        if base == "brx":
            if len(operands) != 2 or not isinstance(operands[1], Symbol):
                raise PtxError("malformed brx", line)
            return Instruction(base, modifiers, [], operands[:1], line, labels=(operands[1].name,))
        if base == "wgmma" and destinations:
            operands.insert(0, Vector(tuple(destinations)))  # the accumulator is read, too
        return Instruction(base, modifiers, destinations, operands, line)

    def _destination(self, line: int) -> list[Any]:
        first = self._operand()
        items = list(first.items) if isinstance(first, Vector) else [first]
        if self.cursor.accept("|"):
            items.append(self._operand())
        for item in items:
            if item is not None and not isinstance(item, Register):
                raise PtxError("the destination is not a register", line)
        return items

    def _call(self, modifiers: tuple[str, ...], line: int) -> Instruction:
        cursor = self.cursor
        returns: list[Any] = []
        arguments: list[Any] = []
        if cursor.peek == "(":
            returns = self._parenthesised()
            cursor.expect(",")
        callee = self._operand()
        labels: tuple[str, ...] = ()
        while not cursor.accept(";"):
            cursor.expect(",")
            if cursor.peek == "(":
                arguments = self._parenthesised()
            else:
                labels = (cursor.word("a prototype"),)
        for item in (*returns, *arguments):
            if not isinstance(item, Symbol):
                raise UnsupportedError("call with register arguments", line)
        sources = [callee, Vector(tuple(arguments)), Vector(tuple(returns))]
        return Instruction("call", modifiers, [], sources, line, labels=labels)

    def _parenthesised(self) -> list[Any]:
        cursor = self.cursor
        cursor.expect("(")
        items: list[Any] = []
        while not cursor.accept(")"):
            if items:
                cursor.expect(",")
            items.append(self._operand())
            if len(items) > MAX_OPERANDS * 8:
                raise PtxError("too many arguments", cursor.line)
        return items

    # Operands ----------------------------------------------------------------------------------------------------
    def _operand(self) -> Any:
        cursor = self.cursor
        line, token = cursor.line, cursor.next()
        if token == "{":
            items: list[Any] = []
            while not cursor.accept("}"):
                if items:
                    cursor.expect(",")
                if cursor.peek in ("{", "["):
                    raise PtxError("nested vector operand", line)
                items.append(self._operand())
                if len(items) > 2 * MAX_OPERANDS:  # accumulators of wgmma are 128
                    raise PtxError("vector operand too long", line)
            return Vector(tuple(items))
        if token == "[":
            return self._address(line)
        if token == "!":
            if cursor.peek in ("!", "{", "["):
                raise PtxError("malformed operand", line)
            return Negated(self._operand())
        if token == "_":
            return None
        if token in ("-", "+"):
            value = number(cursor.next(), line)
            if token == "+":
                return value
            if value.kind == "i":
                return Immediate(-value.value & 0xFFFF_FFFF_FFFF_FFFF)
            return Immediate(value.value ^ (1 << (31 if value.kind == "f32" else 63)), value.kind)
        if token[0].isdigit():
            return number(token, line)
        if is_word(token):
            return self._named(token, line)
        raise PtxError(f"unexpected '{token}' in an operand", line)

    def _named(self, token: str, line: int) -> Any:
        register = self.cache.get(token) or self._register(token)
        if register is not None:
            return register
        selected = split(token)
        if selected is not None and (register := self._register(selected[0])) is not None:
            return Field(register, *selected[1:])
        if token == "WARP_SZ":
            return Immediate(32)
        if token.startswith("%"):
            base = token[1:].split(".")[0].rstrip("0123456789")
            if token[1:].split(".")[0] in _SPECIALS or base in ("envreg", "pm", "clock"):
                return Special(token[1:])
            raise PtxError(f"unknown register '{token}'", line)
        for scope in reversed(self.scopes):
            if token in scope.names:
                token = scope.names[token]
                break
        offset = 0
        if self.cursor.peek in ("+", "-"):
            sign = -1 if self.cursor.next() == "-" else 1
            offset = sign * self.cursor.integer("an offset")
        return Symbol(token, offset)

    def _register(self, token: str) -> Register | None:
        numbered = _NUMBERED.match(token)
        for scope in reversed(self.scopes):
            kind = scope.registers.get(token)
            if kind is None and numbered is not None:
                family = scope.families.get(numbered.group(1))
                if family is not None and int(numbered.group(2)) < family[1]:
                    kind = family[0]
            if kind is not None:
                register = self.cache[token] = Register(token + scope.suffix, kind)
                self.body.registers += 1
                return register
        return None

    def _coordinates(self, handle: Any, line: int) -> Vector:
        """[object, {x, y}] of textures and surfaces, as {object, x, y}."""
        cursor = self.cursor
        cursor.expect(",")
        if cursor.peek in ("[", "!"):
            raise PtxError("malformed coordinates", line)
        place = self._operand()
        if not cursor.accept("]"):
            raise UnsupportedError(f"address form with '{cursor.peek}'", line)
        return Vector((handle, *(place.items if isinstance(place, Vector) else (place,))))

    def _address(self, line: int) -> Address | Vector:
        cursor = self.cursor
        base: Any = None
        offset = 0
        if cursor.peek == "-" or cursor.peek[:1].isdigit():
            offset = cursor.integer("an address")
        else:
            base = self._named(cursor.word("an address"), line)
            if isinstance(base, Symbol):
                base, offset = Symbol(base.name), base.offset
            elif not isinstance(base, Register):
                raise PtxError("malformed address", line)
            while cursor.peek in ("+", "-"):
                sign = -1 if cursor.next() == "-" else 1
                offset += sign * cursor.integer("an offset")
        if cursor.peek == "," and not offset:
            return self._coordinates(base, line)
        if not cursor.accept("]"):
            raise UnsupportedError(f"address form with '{cursor.peek}'", line)
        if not -(1 << 63) <= offset < 1 << 64:
            raise PtxError("offset does not fit 64 bits", line)
        return Address(base, offset)

    def _resolve_labels(self) -> None:
        """Labels are visible in their scope and those inside it, before and after their definition."""
        for instruction, scopes in self.pending:
            if instruction.base == "brx":
                names = self.body.tables.get(instruction.labels[0])
                if names is None:
                    raise PtxError(f"no .branchtargets '{instruction.labels[0]}'", instruction.line)
            elif instruction.base == "call":
                continue
            else:
                names = instruction.labels
            instruction.labels = tuple(self._label(name, scopes, instruction.line) for name in names)

    @staticmethod
    def _label(name: str, scopes: tuple[_Scope, ...], line: int) -> str:
        for scope in reversed(scopes):
            if name in scope.labels:
                return name + scope.suffix
        raise PtxError(f"unknown label '{name}'", line)
