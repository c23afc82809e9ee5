"""How far a computed address of the frame, or of a global variable, reaches: the largest value that an index has in a
loop.

Owns upper bounds: of what counts up to a constant, of masks, of remainders of a division by a constant, of variables
that take a few values in turn (`from = 1 - from`), and sums of these. What an index is at least, `Value.low` assumes: a
computed part of an address is not negative. An index that counts is not negative either, and does not overflow 32 bits.

Source for divisions by multiplication: Granlund and Montgomery, Division by Invariant Integers using Multiplication.
"""

from __future__ import annotations

from farlane.analyzer.flow.result import Result
from farlane.analyzer.graph.control_flow import TAKEN
from farlane.analyzer.graph.structure import Loop, Structure
from farlane.analyzer.loops.shape.variables import InductionVariable, induction_variables, iterations, progress
from farlane.analyzer.machine.arithmetic import NEGATED, number
from farlane.analyzer.values.expression import OPERATION, PHI, Value, Values

MAXIMUM_TURN = 64
_EXTENSIONS = ("zx4", "sx4")
_BITS = 31  # of an index


class Ranges:
    """Answers for one loop."""

    def __init__(
        self,
        structure: Structure,
        result: Result,
        values: Values,
        loop: Loop,
        inductions: dict[Value, InductionVariable],
    ) -> None:
        self._structure, self._result, self._values, self._loop = structure, result, values, loop
        self._inductions = inductions
        self._asked: set[Value] = set()  # phis whose inputs are being looked at

    def extent(self, address: Value, size: int, block: int) -> tuple[int | None, int | None]:
        """The offsets of the frame that an access in a block of the loop may touch, from the first to behind the
        last."""
        turns = self._in_turn(address)
        if turns is not None:
            return turns[0], turns[1] + size
        stack_pointer = self._values.stack_pointer
        one = self._by_one_variable(address)
        if (stack_pointer, 1) not in one.terms:
            return self._low(address), None
        index = self._values.combine(one, stack_pointer, -1)
        reach = self._largest(index, block)
        return (self._low(address), None) if reach is None else (index.signed, reach + size)

    def fixed(self, address: Value, size: int, block: int) -> tuple[int, int | None] | None:
        """The addresses of the file that an access in a block of the loop may touch, from the first to behind the last
        if that is known, of what is computed from a fixed one; None for any other."""
        if address.is_constant:
            return address.signed, address.signed + size
        start = address.signed
        for atom, coefficient in address.terms:
            factor = signed(coefficient)
            bound = self._least_atom(atom, block) if factor > 0 else self._largest_atom(atom, block)
            if bound is None and (factor < 0 or (factor == 1 and not _extended(atom))):
                return None  # it may be a pointer
            start += factor * (bound or 0)
        if not self._result.memory.image.spans(start):
            return None
        largest = self._largest(address, block)
        return start, None if largest is None else largest + size

    def _low(self, address: Value) -> int | None:
        return self._result.bottom if address.low is None else address.low

    def _by_one_variable(self, value: Value) -> Value:
        """The value with the loop's variables expressed by one of them, which counts by 1 from a constant."""
        counter = next((v for v in self._inductions.values() if v.step == 1 and v.initial.is_constant), None)
        if counter is None:
            return value
        result = value
        for atom, coefficient in value.terms:
            variable = self._inductions.get(atom)
            if variable is not None and variable.phi is not counter.phi and variable.size == 8 and atom.stack:
                gone = self._values.add(counter.phi, -counter.initial.signed)
                now = self._values.combine(variable.initial, gone, variable.step)
                result = self._values.combine(self._values.combine(result, atom, -coefficient), now, coefficient)
        return result

    def _largest(self, value: Value, block: int) -> int | None:
        """The largest number that a value is."""
        total = value.signed
        terms = {atom: signed(coefficient) for atom, coefficient in value.terms}
        for atom, coefficient in list(terms.items()):
            divided = _quotient(atom)
            if divided is None:
                continue
            dividend, divisor, factor = divided
            whole = next((each for each in terms if _plain(each) is dividend and each is not atom), None)
            if whole is None or coefficient * factor != -terms[whole] * divisor or terms[whole] < 0:
                continue
            total += terms.pop(whole) * (divisor - 1)
            del terms[atom]
            for each in [each for each in terms if _sign(each) is dividend]:
                del terms[each]
        for atom, coefficient in terms.items():
            bound = self._largest_atom(atom, block) if coefficient > 0 else self._least_atom(atom, block)
            if bound is None:
                return None
            total += coefficient * bound
        return total

    def _largest_atom(self, atom: Value, block: int) -> int | None:
        """The largest value of what counts from a constant that is not negative up to a constant or down, is masked, a
        remainder, or one of several such values."""
        if atom.kind == OPERATION:
            name, *operands = atom.arguments
            if name in _EXTENSIONS:
                largest = self._largest(operands[0], block)
                return None if largest is None or not 0 <= largest < 2**_BITS else largest
            if name == "choose":
                each = [self._largest(operand, block) for operand in operands[-2:]]
                return None if None in each else max(bound for bound in each if bound is not None)
            if name in ("and", "and4"):
                masks = [operand.constant for operand in operands if operand.is_constant and operand.constant < 2**16]
                return min(masks, default=None)
            if name in ("zx1", "set"):
                return 255 if name == "zx1" else 1
            if name in ("xor", "xor4"):
                parts = [
                    o.constant if o.is_constant else self._largest_atom(o, block) if o.kind == OPERATION else None
                    for o in operands
                ]
                known = [part for part in parts if part is not None and part < 2**16]
                return sum((1 << part.bit_length()) - 1 for part in known) if len(known) == len(parts) else None
            return None
        if atom.kind == PHI and atom.arguments[1] not in self._structure.loops:
            return self._met(atom, block)
        return self._counted(atom, block) if atom.kind == PHI else None

    def _met(self, phi: Value, block: int) -> int | None:
        """The largest of what meets where ways of one iteration join; each value is bounded where it comes from."""
        inputs = self._result.phis.get(phi, {})
        if not inputs or phi in self._asked:
            return None
        self._asked.add(phi)
        try:
            each = [self._largest(value, block) for value in inputs.values()]
        finally:
            self._asked.discard(phi)
        return None if None in each else max(bound for bound in each if bound is not None)

    def _least_atom(self, atom: Value, block: int) -> int | None:
        """The least value of what counts up from a constant that is not negative."""
        if atom.kind == OPERATION and atom.arguments[0] in _EXTENSIONS and len(atom.arguments[1].terms) == 1:
            (inner, factor), apart = atom.arguments[1].terms[0], atom.arguments[1].signed
            least = self._least_atom(inner, block) if factor == 1 else None
            return None if least is None or least + apart < 0 else least + apart
        counter = self._counter(atom, block) if atom.kind == PHI else None
        return None if counter is None or counter[0].step < 0 else counter[0].initial.signed

    def _counted(self, phi: Value, block: int) -> int | None:
        counter = self._counter(phi, block)
        if counter is None:
            return None
        variable, loop, variables = counter
        if variable.step < 0:
            return variable.initial.signed
        passes = self._passes(loop, variables)
        return None if passes is None else variable.initial.signed + passes * variable.step

    def _counter(self, phi: Value, block: int) -> tuple[InductionVariable, Loop, dict[Value, InductionVariable]] | None:
        """What counts from a constant that is not negative, in a loop around a block, with the loop's variables."""
        loop = self._structure.loops.get(phi.arguments[1])
        if loop is None or block not in loop.blocks:
            return None
        own = loop is self._loop
        variables = self._inductions if own else induction_variables(self._result, self._values, loop)
        variable = variables.get(phi)
        if variable is None or not variable.initial.is_constant or variable.initial.signed < 0 or not variable.step:
            return None
        return variable, loop, variables

    def _passes(self, loop: Loop, variables: dict[Value, InductionVariable]) -> int | None:
        """How often at most a loop goes on, from tests against constants of which every iteration that goes on makes
        one."""
        best: dict[int, int] = {}  # by where the iteration ends
        latches = [latch for latch in loop.latches if (latch, loop.header) in self._result.executed]
        for source, target in loop.exits:
            test = self._result.conditions.get(source)
            edges = self._structure.flow.blocks[source].edges
            behind = [latch for latch in latches if self._structure.dominates(source, latch)]
            if test is None or not behind:
                continue
            taken = next(edge.target for edge in edges if edge.kind == TAKEN)
            if taken == target:
                test = test._replace(relation=NEGATED[test.relation])
            moves = progress(self._values, test, variables)
            if moves is None or not moves.start.is_constant:
                continue
            count = iterations(number(moves.start.constant, moves.size, True), moves.step, moves.relation)
            if count is not None:
                best.update((latch, min(count, best.get(latch, count))) for latch in behind)
        return max(best.values(), default=None) if len(best) == len(latches) else None

    def _in_turn(self, address: Value) -> tuple[int, int] | None:
        """The least and largest offset, where the address comes from variables of the loop that take a few values in
        turn."""
        carried = self._carried(address)
        if not carried:
            return None
        now = {phi: outside for phi, (outside, _) in carried.items()}
        seen: set[tuple[Value, ...]] = set()
        offsets: list[int] = []
        while tuple(now.values()) not in seen:
            seen.add(tuple(now.values()))
            memo: dict[Value, Value] = {**now, self._values.stack_pointer: self._values.zero}
            offset = self._values.substitute(address, memo.get, memo)
            if len(seen) > MAXIMUM_TURN or not offset.is_constant:
                return None
            offsets.append(offset.signed)
            following = {
                phi: self._values.substitute(inside, now.get, dict(now)) for phi, (_, inside) in carried.items()
            }
            if not all(value.is_constant for value in following.values()):
                return None
            now = following
        return min(offsets), max(offsets)

    def _carried(self, value: Value) -> dict[Value, tuple[Value, Value]] | None:
        """phi of the loop's head -> a constant it begins with, what it is next; all that a value comes from, else
        None."""
        found: dict[Value, tuple[Value, Value]] = {}
        work, seen = [value], {value}
        while work:
            for atom, _ in work.pop().terms:
                inner: list[Value] = []
                if atom.kind == OPERATION:
                    inner = [each for each in atom.arguments[1:] if isinstance(each, Value)]
                elif atom.kind == PHI and atom.arguments[1] == self._loop.header and atom not in found:
                    inputs = self._result.phis.get(atom, {})
                    outside = {each for source, each in inputs.items() if source not in self._loop.blocks}
                    inside = {each for source, each in inputs.items() if source in self._loop.blocks}
                    if len(outside) != 1 or len(inside) != 1 or not next(iter(outside)).is_constant:
                        return None
                    found[atom] = (outside.pop(), next(iter(inside)))
                    inner = [inside.pop()]
                elif atom not in found and atom is not self._values.stack_pointer:
                    return None
                for each in inner:
                    if each not in seen:
                        seen.add(each)
                        work.append(each)
        return found


def signed(coefficient: int) -> int:
    return coefficient - 2**64 if coefficient >> 63 else coefficient


def _extended(atom: Value) -> bool:
    return atom.kind == OPERATION and atom.arguments[0] in _EXTENSIONS


def _plain(value: Value) -> Value:
    """A value without extensions of 32-bit parts."""
    while value.kind == OPERATION and value.arguments[0] in _EXTENSIONS:
        value = value.arguments[1]
    return value


def _sign(atom: Value) -> Value | None:
    """Of what an atom is the sign: 0 for what is not negative."""
    if atom.kind != OPERATION or atom.arguments[0] not in ("sar", "sar4", "shr4"):
        return None
    _, value, count = atom.arguments
    return _plain(value) if count.is_constant and count.constant in (31, 63) else None


def _quotient(atom: Value) -> tuple[Value, int, int] | None:
    """(dividend, divisor, factor), where an atom is factor * (dividend / divisor) for a dividend that is not
    negative."""
    if atom.kind != OPERATION:
        return None
    name, *operands = atom.arguments
    if name == "shr" and operands[1].is_constant and len(operands[0].terms) == 1 and not operands[0].constant:
        product, multiplier = operands[0].terms[0]
        divisor = _divisor(multiplier, operands[1].constant)
        extended = product.kind == OPERATION and product.arguments[0] in _EXTENSIONS
        return (_plain(product), divisor, 1) if divisor and extended and multiplier < 2**33 else None
    if name == "and":
        masks = [each for each in operands if each.is_constant]
        others = [each for each in operands if len(each.terms) == 1 and not each.constant]
        if len(masks) != 1 or len(others) != 1:
            return None
        factor, (high, before) = 2**64 - masks[0].constant, others[0].terms[0]
        if high.kind != OPERATION or high.arguments[0] != "mulhigh8" or not high.arguments[2].is_constant:
            return None
        if factor & (factor - 1) or before & (before - 1) or factor < before or factor > 2**16:
            return None
        divisor = _divisor(high.arguments[2].constant, 64 + factor.bit_length() - before.bit_length())
        return (_plain(high.arguments[1]), divisor, factor) if divisor else None
    return None


def _divisor(multiplier: int, shift: int) -> int | None:
    """The number by which x * multiplier >> shift divides every x of 31 bits."""
    if multiplier <= 0 or not _BITS < shift < 96:
        return None
    divisor = -(-(1 << shift) // multiplier)
    for each in (divisor - 1, divisor):
        if each > 1 and 0 <= multiplier * each - (1 << shift) <= 1 << (shift - _BITS):
            return each
    return None
