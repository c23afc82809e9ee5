"""`farlane.analyzer.open`: an executable with its functions, graphs, loops, calls and claims, each found when it is
asked for.

Graphs need no more than the code; loops, calls and claims need the whole analysis, which runs once. Raises
AnalysisError where the file cannot be read, or a function's graph is not known. Not for several threads at once.
"""

from __future__ import annotations

from functools import cached_property
from pathlib import Path

from farlane.analyzer.analysis import program as analysis
from farlane.analyzer.analysis.claims import Claim, claims
from farlane.analyzer.graph import digraphs
from farlane.analyzer.graph.digraphs import DiGraph
from farlane.analyzer.graph.program import Callee, Program
from farlane.analyzer.graph.structure import Loop, Structure, build
from farlane.analyzer.limits import AnalysisError, Budget
from farlane.analyzer.loader import elf
from farlane.analyzer.loops.model import Call, LoopReport, ProgramReport
from farlane.analyzer.machine.decoder import Decoder


class Function:
    """One function of an executable.

    Attributes:
        name: its symbol, or a name made of its address where the file is stripped.
        address: where it starts.
    """

    def __init__(self, executable: Executable, address: int) -> None:
        self._executable, self._program, self.address = executable, executable.program, address
        self.name: str = self._program.ranges[address].name

    def __repr__(self) -> str:
        return f"<function {self.name} at {self.address:#x}>"

    @property
    def reaches_cuda(self) -> bool:
        """Whether it calls, however deep, a CUDA function."""
        return self.address in self._program.cuda

    @property
    def callees(self) -> tuple[Callee, ...]:
        """What it calls: functions of the file by address, imported ones by name."""
        return tuple(sorted(self._program.callees[self.address], key=lambda each: (each.address or 0, each.name)))

    @cached_property
    def structure(self) -> Structure:
        """Its blocks, dominators and loops, as the analysis sees them."""
        return build(self._program, self.address)

    @property
    def control_flow(self) -> DiGraph:
        """Its control-flow graph, a `networkx.DiGraph`; attributes as in `digraphs.control_flow_graph`."""
        return digraphs.control_flow_graph(self.structure, self.disassembly)

    @property
    def loop_graph(self) -> DiGraph:
        """Its loops, nested: a `networkx.DiGraph`; attributes as in `digraphs.loop_graph`."""
        return digraphs.loop_graph(self.structure)

    @property
    def natural_loops(self) -> tuple[Loop, ...]:
        """Its loops, with and without CUDA calls."""
        return tuple(loop for _, loop in sorted(self.structure.loops.items()))

    @property
    def loops(self) -> tuple[LoopReport, ...]:
        """Its loops with CUDA calls, as the analysis describes them."""
        return tuple(loop for loop in self._executable.loops if loop.entry == self.address)

    @cached_property
    def disassembly(self) -> dict[int, str]:
        """Address -> text of each instruction."""
        program, found = self._program, dict[int, str]()
        for part in program.parts(self.address):
            code = program.image.read(part.start, part.end - part.start) or b""
            found.update(program.decoder.text(code, part.start))
        return found


class Executable:
    """An executable or shared object, as the analyzer sees it.

    Args:
        path: the file.
        seconds: the processor time that the analysis may take; functions beyond it are listed in `report.skipped`.
        in_callees: whether the exit tests behind calls in called functions are wanted too.
        beside: whether a large file's second share may be analyzed in a process of its own; this one must have no other
            threads then.

    Raises:
        AnalysisError: the file cannot be read.
    """

    def __init__(
        self, path: Path | str, seconds: float = analysis.SECONDS, in_callees: bool = True, beside: bool = False
    ) -> None:
        self.path, loading = Path(path), Budget(seconds)
        self.program = Program(elf.load(self.path), Decoder())
        self._spent = loading.spent()
        self._seconds, self._in_callees, self._beside = seconds, in_callees, beside

    @property
    def identity(self) -> str:
        """The build-id, or a digest of code and constants."""
        return self.program.image.identity

    @cached_property
    def functions(self) -> tuple[Function, ...]:
        """The file's functions, by address."""
        return tuple(Function(self, start) for start in sorted(self.program.functions()))

    def function(self, which: str | int) -> Function:
        """A function by its name, or by its address; raises AnalysisError where there is none, or several have the
        name."""
        found = [each for each in self.functions if which in (each.name, each.address)]
        if len(found) != 1:
            raise AnalysisError(f"{self.path}: {len(found)} functions are called {which}")
        return found[0]

    @property
    def call_graph(self) -> DiGraph:
        """Who calls whom: a `networkx.DiGraph`; attributes as in `digraphs.call_graph`."""
        return digraphs.call_graph(self.program)

    @cached_property
    def report(self) -> ProgramReport:
        """The whole analysis."""
        return analysis.analyze(self.path, self._seconds, self._in_callees, self._beside, self.program, self._spent)

    @property
    def loops(self) -> tuple[LoopReport, ...]:
        """The loops with CUDA calls: class, trip count, calls, reasons."""
        return self.report.loops

    @property
    def calls(self) -> tuple[Call, ...]:
        """The CUDA calls in loops, with their arguments and permissions; a call in nested loops once for each."""
        return tuple(call for loop in self.loops for call in loop.calls)

    @cached_property
    def claims(self) -> tuple[Claim, ...]:
        """Everything that the analysis says: predictions, and permissions, which are proven."""
        return tuple(claims(self.report))
