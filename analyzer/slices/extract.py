"""Which loops have a slice: the extraction from the machine code, and its proof.

Owns the conditions under which only the loop's own code touches what a slice is made of:

- its bytes of the frame: no address of the frame is known elsewhere, at any place of the loop (permissions/abstract
  keeps account); so no other thread, no signal handler and no library's function reaches them;
- its bytes of global variables: nothing in the loop may write them but at a known place (what may be the same memory
  loses what is known of it), and the program starts no threads and handles no signals;
- everything that the loop calls is followed or known, comes back, and asks neither a clock nor the system.

The rest follows from the form: what is not understood is unknown, and where it is wanted, there is no slice.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

from farlane.analyzer.externals import interface, names
from farlane.analyzer.externals.names import is_cuda
from farlane.analyzer.graph.program import Program
from farlane.analyzer.graph.structure import Loop
from farlane.analyzer.limits import AnalysisError, Budget
from farlane.analyzer.permissions.abstract.domain import ANYTHING, FRAME
from farlane.analyzer.permissions.abstract.facts import Regions
from farlane.analyzer.permissions.abstract.operands import Refused
from farlane.analyzer.permissions.abstract.walk import Walker
from farlane.analyzer.slices import reasons
from farlane.analyzer.slices.check import successors
from farlane.analyzer.slices.compact import compact
from farlane.analyzer.slices.form import Call, Slice, Sliced
from farlane.analyzer.slices.lifting.calls import hopeless
from farlane.analyzer.slices.raw import ADDRESSES, GIVEN, GLOBALS, HEAPS, RefusedError
from farlane.analyzer.slices.simplify import simplify, touched
from farlane.analyzer.slices.walk import Walk

PROGRAM, TOTAL = 250_000, 120_000  # instructions that are executed for a program, and for one function
MAXIMUM_ENTRIES = 4  # call sites of a loop that are tried
# Let others than the program's own code change its variables.
_SHARES = frozenset(
    {
        "timer_create",
        "aio_read",
        "lio_listio",
        "io_submit",
        "cudaHostRegister",
        "cuMemHostRegister",
        "mmap",
        "mmap64",
        "shmat",
        "dlopen",
        "dlmopen",
    }
)


def _brings(call: Call) -> bool:
    """Whether a call of a slice copies to the host: it is not told where to, nor which variable."""
    copies = "Memcpy" in call.name and "ToSymbol" not in call.name
    return copies and all(argument.number != 0 for argument in call.arguments)


class _Bounded(Walker):
    """Has bounds of its own."""

    def __init__(self, program: Program) -> None:
        super().__init__(program)
        self._all, self._total = PROGRAM, TOTAL


class Extractor:
    """Extracts the slices of one program.

    Args:
        budget: the time after which every loop is refused; None: any.
        proven: what the permissions' proofs have found of a function; None: they did not execute it, or not to its end.
    """

    def __init__(
        self,
        program: Program,
        budget: Budget | None = None,
        proven: Callable[[int], Regions | None] = lambda start: None,
    ) -> None:
        self._program, self._budget, self._proven = program, budget, proven
        self._walker = _Bounded(program)
        self._regions: dict[int, Regions | RefusedError] = {}

    @cached_property
    def _copying(self) -> frozenset[int]:
        """The functions that may copy to the host, themselves or in what they call."""
        copies = interface.COPIES_TO_HOST
        return frozenset(self._program.reaching(lambda name: interface.plain(name) in copies))

    def reads(self, start: int, loop: Loop) -> bool:
        """Whether a loop of such a function may copy to the host, itself or in what it calls."""
        flow = self._walker.structure(start).flow
        for site, callee in flow.calls.items():
            block = flow.holding(site)
            if block is not None and block.start in loop.blocks:
                owner = None if callee.address is None else self._program.owner.get(callee.address, callee.address)
                if owner in self._copying or interface.plain(callee.name) in interface.COPIES_TO_HOST:
                    return True
        return False

    def loops(self, start: int) -> list[Sliced]:
        """What was found of the loops of a function that copy to the host: of the outermost ones that have a slice, which
        is one of the loops inside, too, and of the innermost ones where none has. Compilers make several loops of one.
        """
        if start not in self._copying:
            return []
        try:
            structure = self._walker.structure(start)
            reading = [loop for _, loop in sorted(structure.loops.items()) if self.reads(start, loop)]
        except (AnalysisError, Refused):
            return []
        found: dict[int, Sliced] = {}
        covered: set[int] = set()
        for loop in sorted(reading, key=lambda loop: (loop.depth, loop.header)):
            if loop.header in covered:
                continue
            each = self._loop(start, loop)
            if each.slice is not None:
                covered |= loop.blocks
            if each.slice is None or any(map(_brings, each.slice.calls)):
                found[loop.header] = each
        blocks = {loop.header: loop.blocks for loop in reading}
        return [
            each
            for header, each in sorted(found.items())
            if each.slice is not None or not any(other in blocks[header] for other in found if other != header)
        ]

    def _loop(self, start: int, loop: Loop) -> Sliced:
        try:
            if self._budget is not None and self._budget.used_up():
                raise RefusedError(reasons.TIME, "the time is used up")
            self._allowed(start, loop)
            return Sliced(start, loop.header, self._first(self._executed(start), loop))
        except RefusedError as refused:
            return Sliced(start, loop.header, None, refused.reason, refused.detail)

    def _allowed(self, start: int, loop: Loop) -> None:
        """Raises RefusedError where there is no slice by what the graph alone tells."""
        imports = self._walker.imports
        called_back = {name for name in imports if interface.plain(name) in interface.CALLS_BACK}
        forbidden = sorted(called_back | (imports & names.REFUSED_IMPORTS))
        if forbidden:
            raise RefusedError(reasons.UNKNOWN_FUNCTION, f"the program uses {forbidden[0]}")
        per_thread = sorted(name for name in imports if name.endswith(("_ptsz", "_ptds")))
        if per_thread:
            raise RefusedError(reasons.UNKNOWN_API, f"{per_thread[0]} has a default stream for each thread")
        if imports & names.SIGNALS and (imports & names.JUMPS or self._walker.catches):
            raise RefusedError(reasons.SIGNALS, "a signal's handler may leave the loop")
        if imports & names.SIGNALS and self._by_pointer:
            raise RefusedError(reasons.SIGNALS, f"{self._by_pointer[0]} uses CUDA, and may be a signal's handler")
        if loop.irreducible:
            raise RefusedError(reasons.IRREDUCIBLE, "the loop has several entries")
        structure = self._walker.structure(start)
        calls = [(structure.flow.holding(site), site, callee) for site, callee in structure.flow.calls.items()]
        inside = [(block.start, site, callee) for block, site, callee in calls if block and block.start in loop.blocks]
        if not any(callee.address is None and is_cuda(callee.name) for _, _, callee in inside):
            raise RefusedError(reasons.CALLEE, "no call of the loop stands in its own function")
        for _, site, callee in sorted(inside):
            imported = callee.address is None and callee.name and not is_cuda(callee.name)
            if imported and self._program.returns(callee) and (why := hopeless(callee.name)) is not None:
                raise RefusedError(why, f"{callee.name} at {site:#x}")

    @cached_property
    def _by_pointer(self) -> list[str]:
        """Functions that use CUDA, however deep, and that no function calls by name: a pointer leads there, if anything does. The
        compiler's stubs of kernels are not among them."""
        program = self._program
        callees = program.callees
        addresses = {each.address for all_ in callees.values() for each in all_ if each.address is not None}
        called = {program.owner.get(each, each) for each in addresses}
        works = program.reaching(lambda name: is_cuda(name) and not name.startswith("__cuda"))
        stubs = {
            start for start, all_ in callees.items() if any(interface.plain(c.name) == interface.POP for c in all_)
        }
        found = (program.ranges[start].name for start in works - called - stubs)
        return sorted(name for name in found if name not in ("main", "_start"))

    def _executed(self, start: int) -> Regions:
        known = self._regions.get(start)
        if known is None:
            try:
                known = self._proven(start) or self._walker.regions(start)
            except (Refused, AnalysisError) as refused:
                text = str(refused)
                jumps = any(name in text for name in names.RETURNS_TWICE)
                known = RefusedError(reasons.UNKNOWN_FUNCTION if jumps else reasons.INSTRUCTION, text)
            self._regions[start] = known
        if isinstance(known, RefusedError):
            raise known
        return known

    def _first(self, regions: Regions, loop: Loop) -> Slice:
        """The slice from the first entry that has one; raises RefusedError."""
        flow = regions.structure.flow
        sites = [
            instruction.address
            for start in regions.structure.order
            if start in loop.blocks and start in regions.before
            for instruction in flow.blocks[start].instructions
            if instruction.address in flow.calls
            and is_cuda(flow.calls[instruction.address].name)
            and flow.calls[instruction.address].address is None
            and instruction.address in regions.sites
        ]
        if not sites:
            raise RefusedError(reasons.CALLEE, "no call of the loop stands in its own function")
        first: RefusedError | None = None
        for site in sites[:MAXIMUM_ENTRIES]:
            try:
                return self._sliced(regions, loop, site)
            except RefusedError as refused:
                first = first or refused
                if refused.reason not in (reasons.NESTED, reasons.ENTRY):
                    break  # another entry makes no difference
        assert first is not None
        raise first

    def _sliced(self, regions: Regions, loop: Loop, site: int) -> Slice:
        walk = Walk(self._walker, regions, loop, site)
        graph = walk.run()
        demand = simplify(graph)
        found = compact(graph, demand)
        if not any(0 in successors(block) for block in found.blocks):
            raise RefusedError(reasons.NESTED, "the loop's calls do not come again in it")
        bytes_ = touched(graph, demand)
        if walk.escaped & {FRAME, ANYTHING} and any(each < GLOBALS for each in bytes_):
            raise RefusedError(reasons.ESCAPES, "an address of the frame is known elsewhere")
        for heap, extent in graph.extents.items():
            used = any(extent.low <= each < extent.low + extent.size for each in bytes_)
            if used and walk.escaped & {heap, ANYTHING}:
                raise RefusedError(reasons.ESCAPES, "an address of a heap block is known elsewhere")
        if any(GLOBALS <= each < HEAPS for each in bytes_):
            self._unshared("a global variable")
        if any(GIVEN <= each < ADDRESSES for each in bytes_):
            self._unshared("memory of an address from elsewhere")
        return found

    def _unshared(self, what: str) -> None:
        """Raises RefusedError where memory that others know may change behind the loop's back."""
        imports, image = self._walker.imports, self._walker.image
        for reason, bad in (
            (reasons.THREADS, {name for name in imports if name.startswith(names.THREADS)}),
            (reasons.SIGNALS, imports & names.SIGNALS),
            (reasons.MEMORY, imports & _SHARES),
        ):
            if bad:
                raise RefusedError(reason, f"{what} is looked at, and the program uses {min(bad)}")
        if image.entry == 0:
            raise RefusedError(reasons.MEMORY, f"{what} is looked at, in a shared object")
