"""The loops with CUDA calls of a whole program: classes, trip counts, reasons.

Predictions only: what a loop's calls will be, as far as the code tells. Nothing here is a permission to defer a call.
"""

from __future__ import annotations

import dataclasses
import gc
from collections.abc import Sequence
from pathlib import Path

from farlane.analyzer.analysis.shares import Asking, Share, answered, both, divide
from farlane.analyzer.graph.program import Program
from farlane.analyzer.limits import Budget
from farlane.analyzer.loader import elf, lines
from farlane.analyzer.loops.model import ProgramReport
from farlane.analyzer.machine.decoder import Decoder
from farlane.analyzer.permissions.prove import Prover
from farlane.analyzer.slices.form import Sliced

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
    repeating = {start for start in cuda if program.may_repeat(start)}
    prover = Prover(program, budget)
    parts = divide(program, cuda)

    def share(part: Sequence[int], asking: Asking, within: Budget) -> Share:
        if repeating.isdisjoint(part):
            return Share([], [])
        # Imported where it is wanted: that takes as long as analyzing a small program.
        from farlane.analyzer.analysis.reading import read

        return read(program, part, asking, source, in_callees, within)

    if len(parts) == 1:
        whole = share(cuda, prover, budget)
        spent = 0.0
    else:
        first, second = both(share, parts, budget, beside)
        loops, skipped = answered((*first.loops, *second.loops), prover), [*first.skipped, *second.skipped]
        whole = Share(loops, skipped, second.out_of_time)
        spent = second.spent
    joined = [
        dataclasses.replace(each, name=program.ranges[start].name, line=source.at(each.site))
        for start in cuda
        for each in prover.joined(start)
    ]
    # Last, as they take what the proofs have found.
    slices = _slices(program, sorted(repeating), budget, prover) if repeating else []
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


def _slices(program: Program, starts: Sequence[int], budget: Budget, prover: Prover) -> list[Sliced]:
    from farlane.analyzer.slices.extract import Extractor

    extractor = Extractor(program, budget, prover.found)
    return [each for start in starts for each in extractor.loops(start)]
