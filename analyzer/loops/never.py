"""Ways through a loop that are never taken: a test of a variable that only grows, against less than where it began.

Optimizers leave such tests (`for (k = 2; k <= n; k *= 2) for (j = k / 2; ...)`: is k above 1?), and behind them copies of the loop's end, which
have no exit test. Like all counts, this assumes that the variable does not overflow. The edges are taken out of what the engine
found, once for a function.
"""

from __future__ import annotations

from farlane.analyzer.flow.condition import Condition
from farlane.analyzer.flow.engine import END
from farlane.analyzer.flow.expression import Value, Values
from farlane.analyzer.flow.summary import Analysis
from farlane.analyzer.graph.control_flow import FALL, TAKEN
from farlane.analyzer.graph.structure import Loop
from farlane.analyzer.loops.variables import plain


def prune(analysis: Analysis, values: Values) -> None:
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
