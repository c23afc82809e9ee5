"""The loops with CUDA calls of a whole program: classes, trip counts, reasons.

Predictions only: what a loop's calls will be, as far as the code tells. Nothing here is a permission to defer a call.
"""

from __future__ import annotations

import dataclasses
import gc
from collections.abc import Iterable, Sequence
from pathlib import Path

from farlane.analyzer.analysis.assuming import SecondReading
from farlane.analyzer.analysis.describing import Describer
from farlane.analyzer.analysis.shares import Asking, Share, answered, both, divide
from farlane.analyzer.flow.function import Analysis
from farlane.analyzer.flow.summary import Functions
from farlane.analyzer.graph.program import Program
from farlane.analyzer.limits import AnalysisError, Budget
from farlane.analyzer.loader import elf, lines
from farlane.analyzer.loader.lines import Lines
from farlane.analyzer.loops.dependence.called import Wholes
from farlane.analyzer.loops.model import LoopReport, ProgramReport
from farlane.analyzer.loops.shape.rewriting import final_values, remove_untaken
from farlane.analyzer.machine.decoder import Decoder
from farlane.analyzer.permissions.prove import Prover
from farlane.analyzer.slices.extract import Extractor

SECONDS = 60.0  # of the processor, for a whole binary; functions beyond it are listed as skipped


def analyze(
    path: Path,
    seconds: float = SECONDS,
    in_callees: bool = True,
    beside: bool = False,
    program: Program | None = None,
    spent: float = 0.0,
) -> ProgramReport:
    """Analyzes an executable.

    Args:
        program: the file, where it is loaded already; `spent`: the seconds that loading it took, of those given.
        in_callees: whether continuations are wanted for calls in called functions too, of which no manifest tells.
        beside: whether a large one's second share is analyzed in a process of its own; this one must have no other
            threads then.

    Raises:
        AnalysisError: it cannot be read.
    """
    collecting = gc.isenabled()
    # What is made here is kept to the end: looking for garbage among it finds none, and takes a tenth of the time.
    gc.disable()
    try:
        return _analyze(path, Budget(seconds, spent), in_callees, beside, program)
    finally:
        if collecting:
            gc.enable()


def _analyze(path: Path, budget: Budget, in_callees: bool, beside: bool, loaded: Program | None) -> ProgramReport:
    program = Program(elf.load(path), Decoder()) if loaded is None else loaded
    source = lines.read(path)
    cuda = sorted(program.cuda)
    prover = Prover(program, budget)
    parts = divide(program, cuda)

    def share(part: Sequence[int], asking: Asking, within: Budget) -> Share:
        return _read(program, part, asking, source, in_callees, within)

    if len(parts) == 1:
        whole = share(cuda, prover, budget)
        spent = 0.0
    else:
        first, second = both(share, parts, budget, beside)
        loops, skipped = answered((*first.loops, *second.loops), prover), [*first.skipped, *second.skipped]
        whole = Share(loops, skipped, second.out_of_time)
        spent = second.spent
    extractor = Extractor(program, budget)
    slices = [each for start in cuda for each in extractor.loops(start)]
    joined = [
        dataclasses.replace(each, name=program.ranges[start].name, line=source.at(each.site))
        for start in cuda
        for each in prover.joined(start)
    ]
    return ProgramReport(
        path=str(path),
        identity=program.image.identity,
        functions=len(program.functions()),
        cuda_functions=len(cuda),
        seconds=budget.spent() + spent,
        loops=tuple(whole.loops),
        skipped=tuple(whole.skipped),
        out_of_time=budget.used_up() or whole.out_of_time,
        slices=tuple(slices),
        joined=tuple(sorted(joined, key=lambda each: each.site)),
    )


def _read(
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
        analysis = functions.analysis(start)
        if analysis is None:
            skipped.append((name, functions.failed.get(start, "it calls itself")))
            continue
        try:
            loops += _function(functions, prover, wholes, analysis, source, in_callees)
        except AnalysisError as error:
            skipped.append((name, str(error)))

    def describe(again: Functions, analysis: Analysis) -> Iterable[LoopReport]:
        return _function(again, prover, wholes, analysis, source, in_callees)

    return Share(SecondReading(program, budget, describe).improved(loops), skipped)


def may_hold(functions: Functions, start: int) -> bool:
    """Whether a loop of a function may hold a CUDA call, by its graph alone: else its values are wanted only where it
    is called."""
    if not functions.program.may_loop(start):
        return False
    try:
        structure = functions.structure(start)
    except AnalysisError:
        return True  # its analysis says why there is none
    calling = functions.calling(structure.flow)
    return any(not loop.blocks.isdisjoint(calling) for loop in structure.loops.values())


def _function(
    functions: Functions, prover: Asking, wholes: Wholes, analysis: Analysis, source: Lines, in_callees: bool
) -> Iterable[LoopReport]:
    structure, result = analysis.structure, analysis.result
    remove_untaken(analysis, functions.values)
    final_values(analysis, functions.values)
    analysis.forget()
    wholes.forget(analysis)
    hidden = functions.calling(structure.flow) & result.unknown_calls.keys() if structure.loops else set()
    for header in sorted(structure.loops):
        loop = structure.loops[header]
        runs = any((latch, header) in result.executed for latch in loop.latches)
        if runs and any(block in result.calls or block in hidden for block in loop.blocks):
            yield Describer(functions, prover, wholes, analysis, loop, hidden).report(source.at(header), in_callees)
