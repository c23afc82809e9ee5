"""The loops of a share of a program's functions: those that are analyzed, each reported, and read a second time where
that may tell more.

Apart from `program`, which imports this where a loop may hold a CUDA call: importing what it needs takes as long as
analyzing a small program.
"""

from __future__ import annotations

from collections.abc import Container, Iterable

from farlane.analyzer.analysis.assuming import SecondReading
from farlane.analyzer.analysis.describing import Describer
from farlane.analyzer.analysis.shares import Asking, Share
from farlane.analyzer.flow.function import Analysis
from farlane.analyzer.flow.summary import Functions
from farlane.analyzer.graph.program import Program
from farlane.analyzer.limits import AnalysisError, Budget
from farlane.analyzer.loader.lines import Lines
from farlane.analyzer.loops.dependence.called import Wholes
from farlane.analyzer.loops.model import LoopReport
from farlane.analyzer.loops.shape.rewriting import final_values, remove_untaken


def read(
    program: Program, starts: Iterable[int], prover: Asking, source: Lines, in_callees: bool, budget: Budget
) -> Share:
    """The loops of some functions that reach CUDA."""
    functions = Functions(program, budget)
    wholes = Wholes(program)
    loops: list[LoopReport] = []
    skipped: list[tuple[str, str]] = []
    for start in starts:
        name = program.ranges[start].name
        if budget.used_up():
            skipped.append((name, "the time for the binary is used up"))
            continue
        if not may_hold(functions, start):
            continue
        analysis = functions.analysis(start, headers=_headers(functions, start))
        if analysis is None:
            skipped.append((name, functions.failed.get(start, "it calls itself")))
            continue
        try:
            loops += _function(functions, prover, wholes, analysis, source, in_callees, analysis.structure.loops)
        except AnalysisError as error:
            skipped.append((name, str(error)))

    def describe(again: Functions, start: int, wanted: frozenset[int]) -> Iterable[LoopReport]:
        analysis = again.analysis(start, headers=None if start in program.called else wanted)
        return [] if analysis is None else _function(again, prover, wholes, analysis, source, in_callees, wanted)

    return Share(SecondReading(program, budget, describe).improved(loops), skipped)


def may_hold(functions: Functions, start: int) -> bool:
    """Whether a loop of a function may hold a CUDA call, by its graph alone: else its values are wanted only where it
    is called."""
    if not functions.program.may_repeat(start):
        return False
    try:
        structure = functions.structure(start)
    except AnalysisError:
        return True  # its analysis says why there is none
    return bool(functions.loops(structure))


def _headers(functions: Functions, start: int) -> frozenset[int] | None:
    """Of the loops that are wanted of a function; None: it is called, so callers want the rest of it, too."""
    if start in functions.program.called:
        return None
    try:
        return frozenset(functions.loops(functions.structure(start)))
    except AnalysisError:
        return None  # its analysis says why there is none


def _function(
    functions: Functions,
    prover: Asking,
    wholes: Wholes,
    analysis: Analysis,
    source: Lines,
    in_callees: bool,
    wanted: Container[int],
) -> Iterable[LoopReport]:
    """The loops of a function that are wanted, by their headers."""
    structure, result = analysis.structure, analysis.result
    remove_untaken(analysis, functions.values)
    final_values(analysis, functions.values)
    analysis.forget()
    wholes.forget(analysis)
    hidden = functions.calling(structure.flow) & result.unknown_calls.keys() if structure.loops else set()
    for header in sorted(structure.loops):
        loop = structure.loops[header]
        runs = header in wanted and any((latch, header) in result.executed for latch in loop.latches)
        if runs and any(block in result.calls or block in hidden for block in loop.blocks):
            yield Describer(functions, prover, wholes, analysis, loop, hidden).report(source.at(header), in_callees)
