"""Which permissions a call site gets: the proofs of `codes`, `walk` and `reachability` put together.

Everything is refused that is not proven, with a text that says what stood in the way.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from farlane.analyzer.externals import interface, names
from farlane.analyzer.externals.names import is_cuda
from farlane.analyzer.graph import control_flow
from farlane.analyzer.graph.control_flow import RETURN, TAIL
from farlane.analyzer.graph.program import Callee, Program
from farlane.analyzer.graph.structure import Loop, Structure
from farlane.analyzer.limits import AnalysisError, Budget
from farlane.analyzer.machine.instruction import RSP
from farlane.analyzer.permissions.abstract.domain import ANYTHING, EXACT, FRAME
from farlane.analyzer.permissions.abstract.facts import Regions
from farlane.analyzer.permissions.abstract.memory import LEAVES, State
from farlane.analyzer.permissions.abstract.operands import Refused
from farlane.analyzer.permissions.abstract.walk import Walker
from farlane.analyzer.permissions.codes.proof import Codes
from farlane.analyzer.permissions.joined import Joining
from farlane.analyzer.permissions.model import JoinedCopy, Permission
from farlane.analyzer.permissions.reachability.expressions import ZERO, Expression, both, either, encode, moved, show
from farlane.analyzer.permissions.reachability.inlining import guard, inlined
from farlane.analyzer.permissions.reachability.reachable import Reachability
from farlane.analyzer.permissions.target import Target, copied

MAXIMUM_CHAINS = 500  # of calls that are followed to copies in callees, in one program
MAXIMUM_LINKS = 6  # of one chain
_PERMITTED = interface.COPIES_TO_HOST | interface.WAITS  # what anything may be permitted at


class _Reached(NamedTuple):
    """What was proven of a copy in a callee for one chain of calls.

    Attributes:
        place: the loop, as (function, header).
        more: with the return addresses on the stack.
        stack: the stack pointer at the site, as an offset of `more`.
    """

    place: tuple[int, int]
    more: Expression
    stack: int
    proof: str


class Prover:
    """Proves permissions for the sites of one program.

    Args:
        budget: the time after which everything is refused; None: any.
    """

    def __init__(self, program: Program, budget: Budget | None = None) -> None:
        self._program = program
        self._walker = Walker(program)
        self._codes = Codes(self._walker)
        self._budget = budget
        self._known: dict[tuple[int, int], Permission | None] = {}
        self._chains: set[tuple[int, tuple[int, ...], int]] = set()
        self._reached: dict[int, list[_Reached]] = {}
        self._joining = Joining(self._codes, self._walker.imports, self._walker.catches, budget)

    def _late(self) -> bool:
        return self._budget is not None and self._budget.used_up()

    def structure(self, function: int) -> Structure:
        """A function's graph; raises Refused."""
        return self._walker.structure(function)

    def found(self, function: int) -> Regions | None:
        """What the proofs have found of a function so far; None: they did not execute it, or not to its end."""
        return self._codes.found(function)

    def permission(self, function: int, site: int) -> Permission | None:
        """What is permitted at a call instruction of a function; None when nothing ever is at such a call."""
        key = (function, site)
        if key not in self._known:
            self._known[key] = self._permission(function, site)
        return self._known[key]

    def reached(self, outer: int, chain: tuple[int, ...], function: int, site: int) -> Permission | None:
        """What is permitted at a call instruction of a function that a chain of calls leads to from a loop of `outer`.

        What was proven for the chains that were asked for before is part of the answer.
        """
        own = self.permission(function, site)
        if own is None or own.any:
            return own
        refused = own.refused
        key = (outer, chain, site)
        if key not in self._chains:
            self._chains.add(key)
            try:
                if len(self._chains) > MAXIMUM_CHAINS or len(chain) > MAXIMUM_LINKS:
                    raise Refused("too many chains of calls lead there")
                if self._late():
                    raise Refused("the time is used up")
                self._reached.setdefault(site, []).append(self._through(own, outer, chain))
            except Refused as refusal:
                refused = str(refusal)
        return self._together(own, self._reached.get(site, [])) or replace(own, refused=refused)

    def joined(self, function: int) -> Iterator[JoinedCopy]:
        """Which copies of a function may wait until the next call that waits, and why others may not."""
        try:
            self._allowed()
        except Refused:
            return
        yield from self._joining.of(function)

    def _through(self, own: Permission, outer: int, chain: tuple[int, ...]) -> _Reached:
        self._allowed()
        code = self._codes.proof(own.function, own.site)
        regions = self._codes.regions(outer)
        whole = inlined(regions, chain)
        name = interface.plain(whole.structure.flow.calls[own.site].name)
        block = whole.structure.flow.holding(own.site)
        assert block is not None
        loop = whole.structure.innermost(block.start)
        if block.start not in whole.before:
            raise Refused(f"{own.site:#x} is not reached")
        more, stack, _, proof = self._copy(whole, name, loop, own.site, code)
        if more == ZERO or loop is None:
            raise Refused("whether the site is reached again is not known")
        around = self._program.image.function_at(loop.header)
        assert around is not None
        place = (self._program.owner.get(around.start, around.start), loop.header)
        condition = both(guard(self._program.image, regions, chain), more)
        calls = " ".join(f"{call:#x}" for call in chain)
        return _Reached(place, condition, stack, f"when called by {calls}: {'; '.join(proof)}")

    def _together(self, own: Permission, parts: list[_Reached]) -> Permission | None:
        """The permission of a site by all chains for which there is a proof; of so many as the manifest's code can tell
        apart."""
        taken: list[_Reached] = []
        encoded: bytes | None = None
        more = ZERO
        for part in parts:
            # The stack pointer is the same number below each chain's return address: the texts tell it from each
            # chain's function.
            held = either(more, moved(part.more, part.stack))
            code = encode(held, 0)
            if code is not None:
                taken, encoded, more = [*taken, part], code, held
        if encoded is None:
            return None
        return replace(
            own,
            defer_read=True,
            more=encoded,
            more_text=show(more, 0),
            proof=" / ".join(dict.fromkeys(part.proof for part in taken)),
            refused="",
            loops=tuple(dict.fromkeys(part.place for part in taken)),
        )

    def _allowed(self) -> None:
        """Raises Refused where no permission is given to anything."""
        imports = self._walker.imports
        calling = {name for name in imports if interface.plain(name) in interface.CALLS_BACK}
        forbidden = sorted(calling | (imports & names.REFUSED_IMPORTS))
        if forbidden:
            raise Refused(f"the program uses {forbidden[0]}")

    def _permission(self, function: int, site: int) -> Permission | None:
        try:
            callee = control_flow.build(self._program, function).calls.get(site, Callee("", None))
            name = interface.plain(callee.name)
            if callee.address is not None or not is_cuda(name) or name not in _PERMITTED:
                return None
            structure = self._walker.structure(function)
        except (AnalysisError, Refused):
            return None
        block = structure.flow.holding(site)
        if block is None:
            return None
        instruction = next(i for i in block.instructions if i.address == site)
        if instruction.mnemonic != "call":
            return None
        loop = structure.innermost(block.start)
        found = Permission(site, instruction.end, function, loop.header if loop else 0)
        if self._late():
            return replace(found, refused="the time is used up")
        try:
            self._allowed()
            code = self._codes.proof(function, site)
            if name in interface.WAITS:
                return replace(found, local_sync=True, proof=f"code: {code}")
            more, stack, complete, proof = self._copy(self._codes.regions(function), name, loop, site, code)
        except Refused as refusal:
            return replace(found, refused=str(refusal))
        encoded = None if more == ZERO else encode(more, stack)
        text = show(more, stack) if encoded is not None else ""
        return replace(
            found,
            defer_read=True,
            complete_at_call=complete,
            more=encoded or b"",
            more_text=text,
            proof="; ".join(proof),
        )

    # Copies

    def _copy(
        self, regions: Regions, name: str, loop: Loop | None, site: int, code: str
    ) -> tuple[Expression, int, bool, list[str]]:
        """`more` (ZERO: not known), the stack pointer at the site, whether COMPLETE_AT_CALL holds, the proof; raises
        Refused."""
        if loop is None:
            raise Refused("it is in no loop of this function")
        if loop.irreducible:
            raise Refused("the loop has several entries")
        imports = self._walker.imports
        if imports & names.SIGNALS and (imports & names.JUMPS or self._walker.catches):
            raise Refused("a signal's handler may leave the loop")
        state = regions.sites.get(site)
        if state is None:
            raise Refused(f"{site:#x} is not reached")
        target = self._target(state, name)
        escapes = [block for block, after in regions.escaped.items() if after & (target.objects | {ANYTHING})]
        if FRAME in target.objects:
            stacks = (regions.before[block].registers[RSP] for block in loop.blocks if block in regions.before)
            if any(stack.kind != EXACT or stack.number > target.low for stack in stacks):
                raise Refused("the destination's part of the frame may be given back in the loop")
        reachable = Reachability(regions, loop, site, target.touched, escapes)
        more = reachable.more()
        if more != ZERO and encode(more, reachable.stack) is None:
            more = ZERO
        complete = self._completes(regions, loop, site, target, set(escapes))
        if more == ZERO and not complete:
            raise Refused(self._why(regions, loop, site, target) or "whether the site is reached again is not known")
        proof = [f"code: {code}", f"destination: {target.text(reachable.stack)}, its address is known nowhere else"]
        if more != ZERO:
            proof.append(f"reached again before anything touches it when {show(more, reachable.stack)}")
        if complete:
            proof.append("behind the loop, a CUDA call comes before anything touches it")
        return more, reachable.stack, complete, proof

    def _target(self, state: State, name: str) -> Target:
        copy = copied(state, name)
        if copy is None:
            raise Refused("it is no copy to the host, or may be another one")
        return Target(state, *copy)

    def _completes(self, regions: Regions, loop: Loop, site: int, target: Target, escapes: set[int]) -> bool:
        """Whether every way from the site makes a CUDA call outside the loop before anything touches the
        destination."""
        flow = regions.structure.flow
        first = flow.holding(site)
        assert first is not None
        work, seen = [(first.start, site)], set()
        while work:
            each, after = work.pop()
            block = flow.blocks[each]
            accesses = regions.accesses[each]
            completed = False
            for instruction in block.instructions:
                if instruction.address <= after or instruction.address == site:
                    continue
                callee = flow.calls.get(instruction.address)
                imported = each not in loop.blocks and callee is not None and callee.address is None
                if imported and callee is not None and interface.plain(callee.name) in interface.COMPLETES:
                    state = regions.sites.get(instruction.address)  # none for a jump: then the frame is gone
                    if state is None or (FRAME in target.objects and state.registers[RSP].number > target.low):
                        return False
                    completed = True
                    break
                if any(access.at == instruction.address and target.touched(access) for access in accesses):
                    return False
            if completed:
                continue
            if each in escapes or block.end in (RETURN, TAIL):
                return False
            for following in regions.edges.get(each, []):
                if following not in seen:
                    seen.add(following)
                    work.append((following, -1))
        return True

    def _why(self, regions: Regions, loop: Loop, site: int, target: Target) -> str:
        """Some access in the loop that stands in the way."""
        for block in sorted(loop.blocks & regions.before.keys()):
            for access in regions.accesses[block]:
                if access.at != site and target.touched(access):
                    what = (
                        "after it the program may go on anywhere"
                        if access.kind == LEAVES
                        else f"a {access.kind} that may touch it"
                    )
                    return f"{access.text}: {what}"
        return ""
