"""What is rewritten in a function's analysis before its loops are judged, once for each function.

- `remove_untaken` takes out edges that never run: a test of a variable that only grows, against less than where it
  began. Optimizers leave such tests (`for (k = 2; k <= n; k *= 2) for (j = k / 2; ...)`: is k above 1?), and behind
  them copies of the loop's end, which have no exit test. Like all counts, this assumes that the variable does not
  overflow.
- `final_values` replaces a variable behind an inner loop by its final value. An inner loop that is left only when two
  values are equal, one of which it does not change, leaves its variable at that value. Optimizers count so: `for (k =
  j; k != j + 1000; k += 100)`, and then go on with k. It works from the innermost loops outwards.
"""

from __future__ import annotations

from farlane.analyzer.flow.function import Analysis
from farlane.analyzer.flow.result import END, Result
from farlane.analyzer.graph.control_flow import FALL, TAKEN
from farlane.analyzer.graph.structure import Loop
from farlane.analyzer.loops.shape.body import Body
from farlane.analyzer.loops.shape.variables import plain
from farlane.analyzer.values.condition import Condition
from farlane.analyzer.values.expression import INITIAL, PHI, Value, Values
from farlane.analyzer.values.parts import leaves


def remove_untaken(analysis: Analysis, values: Values) -> None:
    """Takes out edges that never run, and those behind them."""
    structure, result = analysis.structure, analysis.result
    gone = {edge for loop in structure.loops.values() for edge in _never(analysis, values, loop)}
    if not gone:
        return
    result.executed -= gone
    reached, work = {structure.flow.entry}, [structure.flow.entry]
    while work:
        block = work.pop()
        for edge in structure.flow.blocks[block].edges:
            if edge.target not in reached and (block, edge.target) in result.executed:
                reached.add(edge.target)
                work.append(edge.target)
    result.executed -= {edge for edge in result.executed if edge[0] not in reached}
    for phi, inputs in result.phis.items():
        if phi.arguments[1] == END:
            gone_sources = inputs.keys() - reached
        else:
            gone_sources = {source for source in inputs if (source, phi.arguments[1]) not in result.executed}
        for source in gone_sources:
            del inputs[source]


def _never(analysis: Analysis, values: Values, loop: Loop) -> set[tuple[int, int]]:
    result, blocks = analysis.result, analysis.structure.flow.blocks
    least = _growing(analysis, values, loop)
    found: set[tuple[int, int]] = set()
    for block in loop.blocks & result.conditions.keys() if least else ():
        edges = {edge.kind: edge.target for edge in blocks[block].edges}
        if set(edges) == {TAKEN, FALL} and all((block, target) in result.executed for target in edges.values()):
            holds = _holds(values, result.conditions[block], least)
            if holds is not None:
                found.add((block, edges[FALL if holds else TAKEN]))
    return found


def _growing(analysis: Analysis, values: Values, loop: Loop) -> dict[Value, int]:
    """Variables of a loop that begin with a constant and never get less -> the constant."""
    found: dict[Value, int] = {}
    for phi, inputs in analysis.result.phis.items():
        if phi.arguments[1] != loop.header or loop.irreducible:
            continue
        first = {value for source, value in inputs.items() if source not in loop.blocks}
        following = {value for source, value in inputs.items() if source in loop.blocks}
        if len(first) == 1 and len(following) == 1:
            start, step = first.pop(), plain(values, following.pop())
            factors = dict(step.terms)
            factor = factors.get(phi, 0)
            small = 0 < factor < 2**31 and 0 <= step.signed < 2**31
            if start.is_constant and 0 <= start.signed < 2**31 and set(factors) == {phi} and small:
                found[phi] = start.signed
    return found


def _holds(values: Values, condition: Condition, least: dict[Value, int]) -> bool | None:
    """Whether a condition always holds, or never does; None when it depends."""
    difference = values.combine(plain(values, condition.left), plain(values, condition.right), -1)
    if len(difference.terms) != 1 or not (condition.signed or condition.relation in ("==", "!=")):
        return None
    atom, factor = difference.terms[0]
    if atom not in least or factor >= 2**31:
        return None
    lowest = difference.signed + factor * least[atom]
    if condition.relation in (">", "!=") and lowest > 0:
        return True
    if condition.relation == ">=" and lowest >= 0:
        return True
    if condition.relation in ("<=", "==") and lowest > 0:
        return False
    return False if condition.relation == "<" and lowest >= 0 else None


def final_values(analysis: Analysis, values: Values) -> None:
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
    if factor not in (1, 2**64 - 1) or not _outside(rest, loop):
        return None
    final = values.scale(rest, -1 if factor == 1 else 1)
    return own[0], values.zero_extended(final, 4) if stays.size == 4 else final


def _outside(value: Value, loop: Loop) -> bool:
    """Whether a value is made of nothing but what is the same in all iterations of a loop."""
    return all(
        atom.arguments[1] not in loop.blocks if atom.kind == PHI else atom.kind == INITIAL for atom in leaves(value)
    )


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
