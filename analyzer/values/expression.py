"""Symbolic values: hash-consed, with linear sums in one canonical form.

A value is a 64-bit number: constant + sum of coefficient * atom, modulo 2**64. An atom is what is not taken apart
further: a register's value at the function's entry, a phi, a call's result, a load, an operation. Equal values are the
same object (per `Values`), so comparison is identity.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from farlane.analyzer.limits import AnalysisError
from farlane.analyzer.machine.arithmetic import MASK, fold

MAXIMUM_NODES = 3_000_000
MAXIMUM_TERMS = 12

# Kinds of atoms, and what `arguments` holds.
INITIAL = "initial"  # key: a location's value at the function's entry; and CODE when it is given an error code there
PHI = "phi"  # function, block, key: different values meet here
CALL = "call"  # site, name: what a call returned
OUT = "out"  # site, name, argument, offset: what a call wrote
LOAD = "load"  # address, size, versions: memory read
OPERATION = "operation"  # name, values...
OPAQUE = "opaque"  # address, what: something not modelled
VERSION = "version"  # address: memory's state after an instruction
INSIDE = "inside"  # site, value: a value computed in a callee, seen from the call at `site`
# Operations whose result may be an address when an operand is one.
POINTERS = frozenset({"align", "choose", "and", "or", "xor", "pair", "pieces8", "add"})
# The low bytes of a value, as many as the name says, zero- or sign-extended.
EXTENSIONS = frozenset({"zx1", "zx2", "zx4", "sx1", "sx2", "sx4"})

_ATOMS = (INITIAL, PHI, CALL, OUT, LOAD, OPERATION, OPAQUE, VERSION, INSIDE)
SUM = "sum"
CODE = "code"


class Value:
    """One symbolic value; compare with `is`.

    Attributes:
        constant: the constant part.
        terms: ((atom, coefficient), ...) by rising serial of the atoms. An atom's own terms are ((itself, 1),).
        stack: whether this may be an address in the own frame or above it.
        low: for such an address, the lowest offset of the frame that it may mean; None when that is not known.
        lost: whether this is what a register holds that a call left undefined.
        allocations: of a phi, the allocations that it points into unless it is null; (): it may be any value; None: not
            yet known.
        is_constant: whether there are no terms.
        signed: the constant part, read as a signed number.
        family: constant part -> the value with it and these terms. Keeps sums from being looked up by their terms,
            which is slow. `_ALONE` of an atom as long as it is in no sum, as most are.
        parts: what `Values.base` answered.
        extended: what `Values.zero_extended` answered, by the size.
    """

    __slots__ = (
        "allocations",
        "arguments",
        "constant",
        "extended",
        "family",
        "is_constant",
        "kind",
        "lost",
        "low",
        "parts",
        "serial",
        "signed",
        "stack",
        "terms",
    )

    family: dict[int, Value]
    parts: tuple[Value, int] | None
    terms: tuple[tuple[Value, int], ...]

    def __init__(self, serial: int, kind: str, arguments: tuple[Any, ...]) -> None:
        self.serial, self.kind, self.arguments = serial, kind, arguments
        self.constant = self.signed = 0
        self.is_constant = self.stack = self.lost = False
        self.low: int | None = None
        self.allocations: tuple[Value, ...] | None = None
        self.extended: dict[int, Value] | None = None

    def __repr__(self) -> str:
        return f"<{self.kind} {self.arguments or (self.constant, self.terms)}>"


_ALONE: dict[int, Value] = {}  # stays empty


def lowest(addresses: Iterable[Value]) -> int | None:
    """The lowest offset of the frame that any of some addresses may mean."""
    found: int | None = None
    for address in addresses:
        if address.low is None:
            return None
        found = address.low if found is None else min(found, address.low)
    return found


class Values:
    """Makes values, each only once.

    Attributes:
        made: how many there are.
    """

    def __init__(self) -> None:
        self._known: dict[str, dict[tuple[Any, ...], Value]] = {kind: {} for kind in _ATOMS}  # by their arguments
        self._families: dict[tuple[tuple[Value, int], ...], dict[int, Value]] = {}  # of sums
        self._numbers: dict[int, Value] = {}
        self.made = 0
        self.zero = self.constant(0)
        self.stack_pointer = self.atom(INITIAL, 4)
        self.stack_pointer.stack = True
        self.stack_pointer.low = 0

    def constant(self, number: int) -> Value:
        number &= MASK
        return self._numbers.get(number) or self._new_sum(number, (), self._numbers)

    def atom(self, kind: str, *arguments: Any) -> Value:
        known = self._known[kind]
        value = known.get(arguments)
        if value is None:
            value = known[arguments] = self._new(kind, arguments)
            value.terms = ((value, 1),)
            value.family = _ALONE
            value.parts = value, 0
            if kind == OPERATION and arguments[0] in POINTERS:
                value.stack = any(isinstance(each, Value) and each.stack for each in arguments)
                if value.stack and arguments[0] == "choose":
                    value.low = lowest(each for each in arguments if isinstance(each, Value) and each.stack)
                elif value.stack and arguments[0] == "align" and arguments[1].low is not None:
                    value.low = arguments[1].low + arguments[2].signed
        return value

    def _new(self, kind: str, arguments: tuple[Any, ...]) -> Value:
        if self.made >= MAXIMUM_NODES:
            raise AnalysisError("too many values")
        value = Value(self.made, kind, arguments)
        self.made += 1
        return value

    def _sum(self, constant: int, terms: tuple[tuple[Value, int], ...]) -> Value:
        if not terms:
            family = self._numbers
        elif len(terms) == 1 and terms[0][1] == 1:
            family = terms[0][0].family
        else:
            known = self._families.get(terms)
            if known is None:
                known = self._families[terms] = {}
            family = known
        return family.get(constant) or self._new_sum(constant, terms, family)

    def _new_sum(self, constant: int, terms: tuple[tuple[Value, int], ...], family: dict[int, Value]) -> Value:
        if family is _ALONE:
            atom = terms[0][0]
            if not constant:
                return atom
            family = atom.family = {0: atom}
        value = family[constant] = self._new(SUM, ())
        value.constant, value.terms, value.family, value.parts = constant, terms, family, None
        value.signed = constant - 2**64 if constant >> 63 else constant
        value.is_constant = not terms
        for atom, _ in terms:
            if atom.stack:
                value.stack = True
                break
        if value.stack:
            held = [atom for atom, _ in terms if atom.stack]
            upward = all(coefficient == 1 if atom.stack else not coefficient >> 63 for atom, coefficient in terms)
            if len(held) == 1 and held[0].low is not None and upward:
                value.low = held[0].low + value.signed
        return value

    def _moved(self, value: Value, constant: int) -> Value:
        """The value with another constant part."""
        return value.family.get(constant) or self._new_sum(constant, value.terms, value.family)

    def combine(self, first: Value, second: Value, factor: int = 1) -> Value:
        """first + factor * second."""
        constant = (first.constant + factor * second.constant) & MASK
        if not second.terms:
            return self._moved(first, constant)
        if factor == 1 and not first.terms:
            return self._moved(second, constant)
        if first is second and factor == -1:
            return self.zero
        terms = dict(first.terms)
        for atom, coefficient in second.terms:
            terms[atom] = (terms.get(atom, 0) + factor * coefficient) & MASK
        kept = tuple(sorted([term for term in terms.items() if term[1]], key=_by_serial))
        if len(kept) > MAXIMUM_TERMS:
            return self.atom(OPERATION, "add", first, self.scale(second, factor))
        return self._sum(constant, kept)

    def add(self, first: Value, number: int) -> Value:
        if not number:
            return first
        constant = (first.constant + number) & MASK
        return first.family.get(constant) or self._new_sum(constant, first.terms, first.family)

    def scale(self, value: Value, factor: int) -> Value:
        factor &= MASK
        terms = tuple((atom, coefficient * factor & MASK) for atom, coefficient in value.terms)
        return self._sum(value.constant * factor & MASK, tuple(term for term in terms if term[1]))

    def base(self, value: Value) -> tuple[Value, int]:
        """(the value without its constant, the constant as a signed number): the parts of an address."""
        parts = value.parts
        if parts is None:
            parts = value.parts = (self._moved(value, 0) if value.constant else value), value.signed
        return parts

    def zero_extended(self, value: Value, size: int) -> Value:
        """The low `size` bytes."""
        if size >= 8:
            return value
        known = value.extended
        if known is None:
            known = value.extended = {}
        result = known.get(size)
        if result is None:
            result = known[size] = self._zero_extended(value, size)
        return result

    def _zero_extended(self, value: Value, size: int) -> Value:
        if value.is_constant:
            return self.constant(value.constant & ((1 << 8 * size) - 1))
        value = self._congruent(value, size)
        if value.kind == OPERATION and value.arguments[0] in ("zx1", "zx2", "zx4", "set"):
            inner = 1 if value.arguments[0] == "set" else int(value.arguments[0][2])
            if inner <= size:
                return value
        if value.kind == LOAD and value.arguments[1] <= size:
            return value
        return self.atom(OPERATION, f"zx{size}", value) if value.terms else self.zero_extended(value, size)

    def sign_extended(self, value: Value, size: int) -> Value:
        if size >= 8:
            return value
        if value.is_constant:
            low = value.constant & ((1 << 8 * size) - 1)
            return self.constant(low - (1 << 8 * size) if low >> (8 * size - 1) else low)
        value = self._congruent(value, size)
        if value.is_constant:
            return self.sign_extended(value, size)
        return self.atom(OPERATION, f"sx{size}", value)

    def _congruent(self, value: Value, size: int) -> Value:
        """A simpler value with the same low `size` bytes: extensions of at least that size are taken off."""
        if len(value.terms) == 1 and value is value.terms[0][0]:
            inner = self._same_low_bytes(value, size)
            return value if inner is value else self._congruent(inner, size)
        total = self.constant(value.constant)
        changed = False
        for atom, coefficient in value.terms:
            inner = self._same_low_bytes(atom, size)
            changed = changed or inner is not atom
            total = self.combine(total, inner, coefficient)
        if not changed:
            return value
        return self._congruent(total, size)

    def _same_low_bytes(self, atom: Value, size: int) -> Value:
        """What an atom is made of, when its low `size` bytes are the same."""
        inner = atom
        while inner.kind == OPERATION and inner.arguments[0] in EXTENSIONS:
            if int(inner.arguments[0][2]) < size:
                break
            inner = inner.arguments[1]
        if inner.kind == OPERATION and inner.arguments[0] == "insert" and inner.arguments[3:5] == (size, 0):
            inner = inner.arguments[2]
        if inner.kind == OPERATION and inner.arguments[0] == "pair" and size <= 4:
            inner = inner.arguments[1]
        return inner

    def pair(self, low: Value, high: Value) -> Value:
        """Eight bytes from two halves, each zero-extended."""
        if low.is_constant and high.is_constant:
            return self.constant(low.constant | high.constant << 32)
        if (
            high.kind == OPERATION
            and high.arguments[0] == "shr"
            and high.arguments[2].constant == 32
            and self.zero_extended(high.arguments[1], 4) is low
        ):
            whole: Value = high.arguments[1]
            return whole
        return self.atom(OPERATION, "pair", low, high)

    def high_half(self, value: Value) -> Value:
        """The upper four bytes."""
        if value.kind == OPERATION and value.arguments[0] == "pair":
            half: Value = value.arguments[2]
            return half
        return self.operation("shr", value, self.constant(32))

    def operation(self, name: str, *values: Value, size: int = 8) -> Value:
        """An operation on `size` bytes whose result the caller truncates; folded where all is constant."""
        if name == "shr" and values[1].is_constant and values[1].constant == 32 and size == 8:
            if values[0].kind == OPERATION and values[0].arguments[0] == "pair":
                half: Value = values[0].arguments[2]
                return half
            if values[0].kind == OPERATION and values[0].arguments[0] in ("zx1", "zx2", "zx4"):
                return self.zero
        if all(value.is_constant for value in values) and len(values) == 2:
            folded = fold(name, values[0].constant, values[1].constant, size)
            if folded is not None:
                return self.constant(folded)
        if name in ("and", "or", "xor", "imul") and values[0].serial > values[1].serial:
            values = (values[1], values[0])
        return self.atom(OPERATION, name if size == 8 else f"{name}{size}", *values)

    def divided(self, first: Value, second: Value, size: int, signed: bool) -> Value:
        """first / second, rounded towards zero, as numbers of `size` bytes."""
        if first.is_constant and second.is_constant:
            one, two = (
                self.sign_extended(v, size).signed if signed else self.zero_extended(v, size).constant
                for v in (first, second)
            )
            if two:
                quotient = abs(one) // abs(two)
                return self.constant(quotient if (one < 0) == (two < 0) else -quotient)
        return self.atom(OPERATION, f"{'idiv' if signed else 'div'}{size}", first, second)

    def substitute(self, value: Value, leaf: Callable[[Value], Value | None], memo: dict[Value, Value]) -> Value:
        """The value with atoms replaced: `leaf` returns what an atom becomes, or None to go on inside it."""
        if value.is_constant:
            return value
        done = memo.get(value)
        if done is not None:
            return done
        terms = value.terms
        if len(terms) == 1:
            atom, coefficient = terms[0]
            if value is atom:
                return self._substituted(value, leaf, memo)
            total = memo.get(atom) or self._substituted(atom, leaf, memo)
            if coefficient == 1:
                total = self._moved(total, (total.constant + value.constant) & MASK)
            else:
                total = self.combine(self.constant(value.constant), total, coefficient)
        else:
            total = self.constant(value.constant)
            for atom, coefficient in terms:
                total = self.combine(total, memo.get(atom) or self._substituted(atom, leaf, memo), coefficient)
        memo[value] = total
        return total

    def _substituted(self, atom: Value, leaf: Callable[[Value], Value | None], memo: dict[Value, Value]) -> Value:
        known = memo.get(atom)
        if known is not None:
            return known
        result = leaf(atom)
        if result is None:
            if atom.kind != OPERATION:
                result = atom
            else:
                name, *values = atom.arguments
                inner = [
                    v if not isinstance(v, Value) or v.is_constant else memo.get(v) or self.substitute(v, leaf, memo)
                    for v in values
                ]
                if name in ("zx1", "zx2", "zx4"):
                    result = self.zero_extended(inner[0], int(name[2]))
                elif name in ("sx1", "sx2", "sx4"):
                    result = self.sign_extended(inner[0], int(name[2]))
                elif name == "pair":
                    result = self.pair(inner[0], inner[1])
                else:
                    stem = name.rstrip("1248")
                    if stem in ("idiv", "div"):
                        result = self.divided(inner[0], inner[1], int(name[len(stem) :]), stem == "idiv")
                    elif stem in _FOLDABLE and all(v.is_constant for v in inner):
                        result = self.operation(stem, *inner, size=int(name[len(stem) :] or 8))
                    else:
                        result = self.atom(OPERATION, name, *inner)
        memo[atom] = result
        return result


def _by_serial(term: tuple[Value, int]) -> int:
    return term[0].serial


_FOLDABLE = frozenset({"and", "or", "xor", "imul", "shl", "shr", "sar"})
