"""The analyzer of guest executables: finds the loops that contain CUDA calls and says what is known of the calls'
arguments.

    import farlane.analyzer

    program = farlane.analyzer.open("./app")
    for loop in program.loops:
        print(loop.function, loop.class_, loop.trip_count)

Stages, each importing only those before it: `limits`, `loader` (ELF files), `machine` (x86 instructions), `postfix`
(the manifest's code), `externals` (what functions outside the file do), `graph` (control flow, loops, calls), `values`
and `semantics` (symbolic values, what instructions do to them), `flow` (the values of whole functions), `permissions`
(proofs, which rest on none of the three before), `loops` (classes, trip counts), `analysis` (a whole program), `api`,
`report`, `manifest`, `commands`. An executable is untrusted input: every failure is an `AnalysisError`, every stage is
bounded, and what was skipped is listed.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from farlane.analyzer.api.program import Executable


def open(path: Path | str, seconds: float = 60.0) -> Executable:
    """Opens an executable or shared object for analysis; docs/howto/analyze-a-program.md, "From Python".

    Args:
        seconds: the processor time that the analysis may take.

    Raises:
        AnalysisError: the file cannot be read.
    """
    # Late: the stages import this package themselves.
    from farlane.analyzer.api.program import Executable

    return Executable(path, seconds)
