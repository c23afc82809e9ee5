"""Joined copies: copies to the host that may wait until the next call that waits (JOIN_NEXT_WAIT in protos/manifest.md).

`copy; copy; copy; look at all three` needs one answer of the host. A copy joins when, on every way from its return to
the next call that waits, nothing touches its destination. Which calls wait is decided together: a copy that joins does
not wait itself. Copies are judged from the function's end backward, and one that is not judged yet counts as one that
does not wait.

A destination is *own* or *shared*. Own is what DEFER_READ knows: an object whose address no other code has. Only
the function's own code can look at it, so all that counts is what this code touches.

A shared destination came from elsewhere, or its address is known elsewhere. What is between is then code of the
function's own that others cannot notice: no loop, no function of a library, no write but to the function's own objects,
nothing that may block. So no other thread can tell the moment at which the copy is done from a slower copy. What the
code between reads must be a variable or a part of the frame at a known place: the shim compares these ranges with the
destination when the copy is made. It also sees to it that no second thread has used CUDA.
"""

from __future__ import annotations

from collections.abc import Iterator

from farlane.analyzer.externals import interface, names
from farlane.analyzer.graph.control_flow import RETURN, TAIL
from farlane.analyzer.limits import AnalysisError, Budget
from farlane.analyzer.machine.instruction import RSP
from farlane.analyzer.permissions.abstract.domain import (
    ANYTHING,
    EXACT,
    FRAME,
    GLOBAL,
    IN_FRAME,
    IN_GLOBAL,
    OUTSIDE,
    Objects,
    Value,
)
from farlane.analyzer.permissions.abstract.facts import Regions
from farlane.analyzer.permissions.abstract.memory import CALLED, FREE, GIVEN, LEAVES, WRITE, Access, State
from farlane.analyzer.permissions.abstract.operands import Refused
from farlane.analyzer.permissions.codes.proof import Codes
from farlane.analyzer.permissions.model import JoinedCopy, Range
from farlane.analyzer.permissions.target import Target, copied
from farlane.limits.generated import JOINED_RANGES

_LONGEST = 4096  # bytes of one of them


class Shared:
    """A destination that others may know. It gathers what the code between reads, for the shim to compare with it."""

    own = False

    def __init__(self, state: State, address: Value, threads: bool) -> None:
        self.objects: Objects = state.touched(address)
        self._threads = threads
        self._stack = state.registers[RSP].number
        self._ranges: set[Range] = set()

    @property
    def lowest(self) -> int:
        """No part of the destination lies in the frame below."""
        return self._stack

    def check(self, access: Access, escaped: Objects) -> None:
        """Raises Refused: the access may be to the destination, or somebody may notice when it happens."""
        if access.kind == GIVEN or interface.plain(access.name) in interface.COPIES:
            return  # the shim completes what is outstanding of it first, and writes in the order of the calls
        if access.kind in (LEAVES, CALLED):
            raise Refused(
                f"{access.text} comes before the next call that waits, and the destination may be known to it"
            )
        known = escaped | {OUTSIDE, GLOBAL, ANYTHING}
        if access.kind in (WRITE, FREE) and (access.objects - IN_FRAME) & known:
            raise Refused(f"{access.text}: a {access.kind} that others may see")
        if access.objects == IN_FRAME:
            self._in_frame(access, FRAME in escaped or ANYTHING in escaped)
        elif access.objects == IN_GLOBAL:
            if self.objects & {GLOBAL, OUTSIDE, ANYTHING}:
                self._add(access, Range(access.low, access.high - access.low, False))
        elif access.objects & (self.objects | {OUTSIDE, ANYTHING}) or ANYTHING in self.objects:
            raise Refused(f"{access.text}: a {access.kind} that may touch it")

    def _in_frame(self, access: Access, escaped: bool) -> None:
        if access.high <= self._stack:
            return  # a called function's
        if access.kind == WRITE and escaped and self._threads:
            raise Refused(f"{access.text}: a write that another thread may see")
        if self.objects & {FRAME, ANYTHING}:
            self._add(access, Range(access.low - self._stack, access.high - access.low, True))

    def _add(self, access: Access, read: Range) -> None:
        if not 0 < read.size <= _LONGEST or (read.frame and read.start < 0):
            raise Refused(f"{access.text}: an access to a place that is not known")
        self._ranges.add(read)

    def ranges(self) -> tuple[Range, ...]:
        """What the shim compares with the destination; raises Refused: it is too much."""
        found: list[Range] = []
        for each in sorted(self._ranges, key=lambda each: (each.frame, each.start, each.size)):
            last = found[-1] if found else None
            if last is not None and last.frame == each.frame and each.start <= last.start + last.size:
                end = max(last.start + last.size, each.start + each.size)
                found[-1] = Range(last.start, end - last.start, last.frame)
            else:
                found.append(each)
        if len(found) > JOINED_RANGES:
            raise Refused("the code up to the next call that waits reads too much")
        return tuple(found)

    def text(self, stack: int) -> str:
        return "a destination that others may know"


class Own:
    """A destination whose address no other code has."""

    own = True

    def __init__(self, target: Target) -> None:
        self._target = target
        self.objects = target.objects

    @property
    def lowest(self) -> int:
        return self._target.low

    def check(self, access: Access, escaped: Objects) -> None:
        if self._target.touched(access):
            leaves = access.kind == LEAVES
            what = "after it the program may go on anywhere" if leaves else f"a {access.kind} that may touch it"
            raise Refused(f"{access.text}: {what}")

    def ranges(self) -> tuple[Range, ...]:
        return ()

    def text(self, stack: int) -> str:
        return f"{self._target.text(stack)}, its address is known nowhere else"


class Joining:
    """Proves JOIN_NEXT_WAIT for the copies of one program.

    Args:
        imports, catches: of the program: what it imports, whether it catches exceptions.
    """

    def __init__(self, codes: Codes, imports: frozenset[str], catches: bool, budget: Budget | None) -> None:
        self._codes, self._budget = codes, budget
        self._signals = bool(imports & names.SIGNALS)
        self._jumps = bool(imports & names.JUMPS) or catches
        self._threads = any(name.startswith(names.THREADS) for name in imports)

    def of(self, start: int) -> Iterator[JoinedCopy]:
        """What is known of a function's copies to the host, where it has several calls that wait."""
        if not self._codes.calls(start, interface.JOINS):
            return
        try:
            structure = self._codes.structure(start)
        except (AnalysisError, Refused):
            return
        flow = structure.flow
        place = {block: index for index, block in enumerate(structure.order)}
        copies: dict[int, tuple[int, str, int]] = {}  # site -> its block, the function, the return address
        waits: set[int] = set()
        for block in flow.blocks.values():
            for instruction in block.instructions:
                callee = flow.calls.get(instruction.address)
                if callee is None or callee.address is not None or instruction.mnemonic != "call":
                    continue
                name = interface.plain(callee.name)
                if name in interface.JOINS:
                    copies[instruction.address] = block.start, name, instruction.end
                elif name in interface.JOINED:
                    waits.add(instruction.address)
        if not copies or len(copies) + len(waits) < 2 or (self._budget is not None and self._budget.used_up()):
            return
        try:
            regions = self._codes.regions(start)
        except Refused as refusal:
            yield from (JoinedCopy(site, end, start, refused=str(refusal)) for site, (_, _, end) in copies.items())
            return
        surely = {site for site, (_, name, _) in copies.items() if self._is_to_host(regions, site, name)}
        joining = set(surely)
        for site in sorted(surely, key=lambda site: (place.get(copies[site][0], -1), site), reverse=True):
            _, name, end = copies[site]
            window = _Window(regions, place, waits | (surely - joining))
            try:
                yield self._judged(window, start, site, name, end)
            except Refused as refusal:
                joining.discard(site)
                yield JoinedCopy(site, end, start, refused=str(refusal))

    def _is_to_host(self, regions: Regions, site: int, name: str) -> bool:
        state = regions.sites.get(site)
        return state is not None and copied(state, name) is not None

    def _judged(self, window: _Window, start: int, site: int, name: str, end: int) -> JoinedCopy:
        code = self._codes.proof(start, site)
        state = window.regions.sites[site]
        stack = state.registers[RSP]
        to = copied(state, name)
        assert to is not None
        if stack.kind != EXACT:
            raise Refused("the stack pointer is not known")
        destination = self._destination(state, *to)
        window.follow(site, destination)
        ranges = destination.ranges()
        proof = f"code: {code}; destination: {destination.text(stack.number)}; nothing touches it before a call waits"
        return JoinedCopy(site, end, start, shared=not destination.own, ranges=ranges, proof=proof)

    def _destination(self, state: State, address: Value, size: int | None) -> Own | Shared:
        try:
            own = Own(Target(state, address, size))
        except Refused:
            if self._signals:
                raise Refused("a signal's handler may look at the destination") from None
            return Shared(state, address, self._threads)
        if self._signals and self._jumps:
            raise Refused("a signal's handler may go on elsewhere")
        return own


class _Window:
    """The code between a copy and the next calls that wait, of one function.

    Args:
        place: block -> its place in reverse postorder.
        waits: the sites of calls that wait.
    """

    def __init__(self, regions: Regions, place: dict[int, int], waits: set[int]) -> None:
        self.regions, self._place, self._waits = regions, place, waits

    def follow(self, site: int, destination: Own | Shared) -> None:
        """Goes all ways from a site; raises Refused."""
        first = self.regions.structure.flow.holding(site)
        assert first is not None
        work, seen = [(first.start, site)], set()
        while work:
            start, after = work.pop()
            if self._waits_in(start, after, site, destination):
                continue
            for following in self.regions.edges.get(start, []):
                if not destination.own and self._place[following] <= self._place[start]:
                    raise Refused("a loop comes before the next call that waits")
                if following not in seen:
                    seen.add(following)
                    work.append((following, -1))

    def _waits_in(self, start: int, after: int, site: int, destination: Own | Shared) -> bool:
        """Whether a block waits behind an instruction."""
        block = self.regions.structure.flow.blocks[start]
        accesses, escaped = self.regions.accesses[start], self.regions.escaped[start]
        before = self.regions.before[start]
        framed = FRAME in destination.objects or ANYTHING in destination.objects
        if framed and after < 0:
            self._keeps_frame(before, destination)
        for instruction in block.instructions:
            if instruction.address <= after:
                continue
            state = self.regions.sites.get(instruction.address)
            if state is not None and framed:
                self._keeps_frame(state, destination)
            if instruction.address in self._waits:
                return True
            for access in accesses:
                if access.at == instruction.address and instruction.address != site:
                    destination.check(access, before.escaped | escaped)
        if block.end in (RETURN, TAIL):
            raise Refused("the function returns before the next call that waits")
        if destination.own and escaped & (destination.objects | {ANYTHING}):
            raise Refused("the destination's address becomes known before the next call that waits")
        return False

    @staticmethod
    def _keeps_frame(state: State, destination: Own | Shared) -> None:
        stack = state.registers[RSP]
        if stack.kind != EXACT or stack.number > destination.lowest:
            raise Refused("the destination's part of the frame may be given back")
