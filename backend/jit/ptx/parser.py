"""Function bodies: PTX statements to instructions with labels.

Owns scopes (`{ }` from inline assembly and call sequences redeclare names: every declaration gets a unique internal name),
operand syntax and the split of operands into destinations and sources. Does not know what an instruction does beyond that.
Bounded: linear in the text; nesting and instruction counts are limited; no recursion on input.
Source: PTX ISA, "Instruction Statements", "Operands", "Control Flow Instructions: call".
"""

from __future__ import annotations

from typing import Any

from farlane.backend.jit.ptx import spelling
from farlane.backend.jit.ptx.declarations import SCALAR_BYTES, Function, Module, PtxError, UnsupportedError
from farlane.backend.jit.ptx.instructions import Trait, having
from farlane.backend.jit.ptx.lexer import Cursor, is_word
from farlane.backend.jit.ptx.model import (
    Body,
    Instruction,
    Register,
    Storage,
    Symbol,
    Vector,
)
from farlane.backend.jit.ptx.module import parameter_list
from farlane.backend.jit.ptx.operands import MAX_OPERANDS, SELECTING, OperandParser, Scope, extractions
from farlane.backend.jit.ptx.variables import dimensions

MAX_INSTRUCTIONS = 1 << 20
MAX_DEPTH = 256

REGISTER_TYPES = {
    "pred": "pred", "b8": "b16", "s8": "b16", "u8": "b16", "b16": "b16", "s16": "b16", "u16": "b16", "f16": "b16", "bf16": "b16",
    "b32": "b32", "s32": "b32", "u32": "b32", "f16x2": "b32", "bf16x2": "b32", "b64": "b64", "s64": "b64", "u64": "b64",
    "f32": "f32", "f64": "f64", "b128": "b128",
}  # fmt: skip
_NO_RESULT = having(Trait.NO_RESULT)


def _writes(base: str, modifiers: tuple[str, ...]) -> bool:
    """Whether an instruction's first operand is its destination."""
    if base in ("bar", "barrier"):
        return "red" in modifiers
    if base == "wgmma":
        return "mma_async" in modifiers
    if base == "mbarrier":
        return modifiers[:1] not in (("init",), ("inval",), ("expect_tx",), ("complete_tx",))
    return base not in _NO_RESULT and not (base == "wmma" and "store" in modifiers)


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


class _BodyParser(OperandParser):
    def __init__(self, cursor: Cursor, function: Function) -> None:
        super().__init__(cursor, Body())
        self.counter = 0
        self.pending: list[tuple[Instruction, tuple[Scope, ...]]] = []
        for item in (*function.parameters, *function.returns):
            self.body.storage[item.name] = item

    def parse(self) -> Body:
        cursor = self.cursor
        while cursor.peek:
            token = cursor.peek
            if token == "{":
                cursor.next()
                self.counter += 1
                self.scopes.append(Scope(f"#{self.counter}"))
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
        predicate = self.operand()
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
                operands.append(self.operand())
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
        first = self.operand()
        items = list(first.items) if isinstance(first, Vector) else [first]
        if self.cursor.accept("|"):
            items.append(self.operand())
        for item in items:
            if item is not None and not isinstance(item, Register):
                raise PtxError("the destination is not a register", line)
        return items

    def _call(self, modifiers: tuple[str, ...], line: int) -> Instruction:
        cursor = self.cursor
        returns: list[Any] = []
        arguments: list[Any] = []
        if cursor.peek == "(":
            returns = self.parenthesised()
            cursor.expect(",")
        callee = self.operand()
        labels: tuple[str, ...] = ()
        while not cursor.accept(";"):
            cursor.expect(",")
            if cursor.peek == "(":
                arguments = self.parenthesised()
            else:
                labels = (cursor.word("a prototype"),)
        for item in (*returns, *arguments):
            if not isinstance(item, Symbol):
                raise UnsupportedError("call with register arguments", line)
        sources = [callee, Vector(tuple(arguments)), Vector(tuple(returns))]
        return Instruction("call", modifiers, [], sources, line, labels=labels)

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
    def _label(name: str, scopes: tuple[Scope, ...], line: int) -> str:
        for scope in reversed(scopes):
            if name in scope.labels:
                return name + scope.suffix
        raise PtxError(f"unknown label '{name}'", line)
