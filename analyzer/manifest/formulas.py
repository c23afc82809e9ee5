"""From the loops' formulas to the manifest's code. What does not fit into the contract's bounds is not known."""

from __future__ import annotations

from farlane.analyzer.loops.model import Formula, Location, Operation, Place
from farlane.analyzer.machine.arithmetic import signed
from farlane.analyzer.postfix import (
    BINARY,
    CONSTANT,
    END,
    FRAME,
    GLOBAL,
    REGISTER,
    SX,
    ZX,
    CodeError,
    check,
    instruction,
)
from farlane.limits.generated import CODE_OPERATIONS

_EXTENSIONS = {"zx": ZX, "sx": SX}


class _Unfit(Exception):
    """The formula has no code within the bounds."""


def compiled(formula: Formula | None) -> bytes | None:
    """The code of a formula; None when there is none within the contract's bounds."""
    if formula is None:
        return None
    compiler = _Compiler()
    try:
        compiler.formula(formula)
        code = b"".join([*compiler.code, instruction(END)])
        check(code)
    except (_Unfit, CodeError):
        return None
    return code


class _Compiler:
    def __init__(self) -> None:
        self.code: list[bytes] = []

    def _emit(self, code: int, *operands: int) -> None:
        # Formulas are trees written out: without this bound shared parts could make the code grow without limit.
        if len(self.code) >= CODE_OPERATIONS:
            raise _Unfit
        self.code.append(instruction(code, *operands))

    def formula(self, formula: Formula) -> None:
        # A term to be added comes first, so that no zero need be.
        terms = sorted(formula.terms, key=lambda term: term[0] < 0)
        started = not terms or terms[0][0] < 0
        if started:
            self._emit(CONSTANT, signed(formula.constant))
        for coefficient, term in terms:
            self._term(term)
            if abs(coefficient) != 1:
                self._emit(CONSTANT, signed(abs(coefficient)))
                self._emit(BINARY["mul"])
            if started:
                self._emit(BINARY["sub" if coefficient < 0 else "add"])
            started = True
        if terms and terms[0][0] >= 0 and formula.constant:
            self._emit(CONSTANT, signed(formula.constant))
            self._emit(BINARY["add"])

    def _term(self, term: Location | Operation) -> None:
        if isinstance(term, Operation):
            self._operation(term)
        elif term.kind == Place.REGISTER:
            self._emit(REGISTER, term.register)
        elif term.kind == Place.FRAME:
            if not 0 <= term.displacement < 2**32:
                raise _Unfit
            self._emit(FRAME, term.displacement, term.size)
        else:
            self._emit(GLOBAL, term.displacement & (2**64 - 1), term.size)

    def _operation(self, operation: Operation) -> None:
        name, operands = operation.name, operation.operands
        if name[:2] in _EXTENSIONS and len(operands) == 1:
            self.formula(operands[0])
            self._emit(_EXTENSIONS[name[:2]], int(name[2:]))
        elif name == "min" and len(operands) == 2:
            # The code has no choice: second + (first - second) * (first < second).
            first, second = operands
            for operand in (second, first, second):
                self.formula(operand)
            self._emit(BINARY["sub"])
            self.formula(first)
            self.formula(second)
            self._emit(BINARY["ult"])
            self._emit(BINARY["mul"])
            self._emit(BINARY["add"])
        elif name in BINARY and len(operands) == 2:
            self.formula(operands[0])
            self.formula(operands[1])
            self._emit(BINARY[name])
        else:
            raise _Unfit
