"""What holds behind a loop inside a loop: a variable that goes on from where the inner loop left it.

An inner loop that is left only when two values are equal, one of which it does not change, leaves its variable at that value. Optimizers count
so: `for (k = j; k != j + 1000; k += 100)`, and then go on with k. Where the variable is used outside, the other value takes its
place; what the engine found is rewritten once for a function, from the innermost loops outwards.
"""

from __future__ import annotations

from farlane.analyzer.flow.engine import Result
from farlane.analyzer.flow.expression import INITIAL, OPERATION, PHI, Value, Values
from farlane.analyzer.flow.summary import Analysis
from farlane.analyzer.graph.structure import Loop
from farlane.analyzer.loops.body import Body
from farlane.analyzer.loops.variables import plain


def settle(analysis: Analysis, values: Values) -> None:
    """Rewrites an analysis' values behind its inner loops."""
    structure, result = analysis.structure, analysis.result
    inner = [loop for loop in structure.loops.values() if loop.parent is not None and not loop.irreducible]
    for loop in sorted(inner, key=lambda loop: -loop.depth):
        found = _final(analysis, values, loop)
        if found is not None:
            _rewrite(result, values, loop, *found)


def _final(analysis: Analysis, values: Values, loop: Loop) -> tuple[Value, Value] | None:
    """A variable of a loop, and what it is when the loop is left."""
    tests, others = Body(analysis, loop).tests()
    if others or len(tests) != 1 or tests[0].stays.relation != "!=":
        return None
    stays = tests[0].stays
    difference = values.combine(plain(values, stays.left), plain(values, stays.right), -1)
    own = [atom for atom, _ in difference.terms if atom.kind == PHI and atom.arguments[1] in loop.blocks]
    if len(own) != 1 or own[0].arguments[1] != loop.header:
        return None
    factor = next(coefficient for atom, coefficient in difference.terms if atom is own[0])
    rest = values.combine(difference, own[0], -factor)
    if factor not in (1, 2**64 - 1) or not all(_outside(atom, loop) for atom, _ in rest.terms):
        return None
    final = values.scale(rest, -1 if factor == 1 else 1)
    return own[0], values.zero_extended(final, 4) if stays.size == 4 else final


def _outside(atom: Value, loop: Loop) -> bool:
    """Whether an atom is the same in all iterations of a loop."""
    if atom.kind == PHI:
        return atom.arguments[1] not in loop.blocks
    if atom.kind == OPERATION:
        parts = (part for value in atom.arguments[1:] if isinstance(value, Value) for part, _ in value.terms)
        return all(_outside(part, loop) for part in parts)
    return atom.kind == INITIAL


def _rewrite(result: Result, values: Values, loop: Loop, phi: Value, final: Value) -> None:
    memo: dict[Value, Value] = {phi: final}

    def behind(value: Value) -> Value:
        return values.substitute(value, memo.get, memo)

    for inputs in result.phis.values():
        for source in inputs:
            if source not in loop.blocks:
                inputs[source] = behind(inputs[source])
    for block, condition in result.conditions.items():
        if block not in loop.blocks:
            left, right = behind(condition.left), behind(condition.right)
            result.conditions[block] = condition._replace(left=left, right=right)
    for block, flags in result.tests.items():
        if block not in loop.blocks:
            result.tests[block] = behind(flags)
    for block, calls in result.calls.items():
        if block not in loop.blocks:
            for index, call in enumerate(calls):
                arguments = tuple((name, behind(value)) for name, value in call.arguments)
                calls[index] = call._replace(arguments=arguments)
