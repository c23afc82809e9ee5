"""Is a call's error code only compared with success, and does the other way end the program?

The code is followed from the call through registers, cells of the frame and calls of the program's own functions.
Copying it is allowed, comparing it with 0 is; the way of failure must lead to the end of the program, whatever it does
with the code on the way; behind the way of success the code is known and may be used. Any other use refuses. A code
still in rax when the function returns is followed into every caller; the callers must be known.

`tracker` follows it through instructions; here stand the cells, by the abstract machine's accesses, the calls, and the
returns.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import TypeAlias

from farlane.analyzer.externals import interface
from farlane.analyzer.graph.control_flow import EXCEPTION, RETURN, TAIL, Block, ControlFlow
from farlane.analyzer.graph.structure import Structure
from farlane.analyzer.machine.effects import reads
from farlane.analyzer.machine.instruction import (
    ARGUMENTS,
    CALLER_SAVED,
    NONE,
    RAX,
    RSP,
    XMM0,
    Instruction,
    Memory,
    Operand,
    Register,
)
from farlane.analyzer.permissions.abstract.domain import ANYTHING, FRAME
from farlane.analyzer.permissions.abstract.facts import Regions
from farlane.analyzer.permissions.abstract.memory import READ, WRITE
from farlane.analyzer.permissions.abstract.operands import Refused
from farlane.analyzer.permissions.abstract.walk import Walker
from farlane.analyzer.permissions.codes.callers import Callers
from farlane.analyzer.permissions.codes.endings import Endings
from farlane.analyzer.permissions.codes.fast import refusal, verdict
from farlane.analyzer.permissions.codes.tracker import CODE, Held, Place, Tracker

MAXIMUM_DEPTH = 6
# Stands among what holds the code as long as it has not been compared, where every way must compare it.
UNDECIDED = "undecided"
MAXIMUM_SETS = 16  # of holders at one block
_Holders: TypeAlias = "frozenset[tuple[Place, str]]"


class Codes:
    """Judges how error codes are used in one program.

    Attributes:
        endings: where the program ends.
    """

    def __init__(self, walker: Walker) -> None:
        self._walker, self._program = walker, walker.program
        self._regions: dict[int, Regions | str] = {}
        self._callers, self.endings = Callers(walker), Endings(walker)
        self._judged: dict[tuple[int, frozenset[int]], str] = {}
        self._facts: list[str] = []

    def structure(self, start: int) -> Structure:
        """A function's graph; raises Refused."""
        return self._walker.structure(start)

    def calls(self, start: int, wanted: Container[str]) -> bool:
        """Whether a function may call an imported one of such a name itself."""
        callees = self._program.callees[start]
        return any(callee.address is None and interface.plain(callee.name) in wanted for callee in callees)

    def regions(self, start: int) -> Regions:
        """The function's regions, kept; raises Refused."""
        if start not in self._regions:
            try:
                self._regions[start] = self._walker.regions(start)
            except Refused as refusal_:
                self._regions[start] = str(refusal_)
        known = self._regions[start]
        if isinstance(known, str):
            raise Refused(known)
        return known

    def found(self, start: int) -> Regions | None:
        """The function's regions, where they were asked for and found."""
        known = self._regions.get(start)
        return known if isinstance(known, Regions) else None

    def proof(self, start: int, site: int) -> str:
        """How the code of the call at `site` in the function `start` is used; raises Refused."""
        seen = verdict(self._walker.structure(start).flow, self.endings, site)
        if seen is not None and seen.refused:
            raise Refused(seen.refused)
        self._facts = list(seen.facts) if seen is not None else []
        if seen is None:
            refused = refusal(self._walker.structure(start).flow, self.endings, site)
            if refused is not None:
                raise Refused(refused)
            self._after_call(start, site, 0)
        return "; ".join(dict.fromkeys(self._facts)) or "the code is not used"

    def _after_call(self, start: int, site: int, depth: int) -> None:
        regions = self.regions(start)
        block = regions.structure.flow.holding(site)
        if block is None or block.start not in regions.before:
            raise Refused(f"{site:#x} is not reached")
        rest = [i for i in block.instructions if i.address > site]
        self._follow(start, regions, (block, rest, {RAX: CODE}), depth)

    def _follow(
        self, start: int, regions: Regions, first: tuple[Block, Iterable[Instruction], Held], depth: int
    ) -> None:
        """Follows the code from some instructions of a block on, to everywhere it may be."""
        if depth > MAXIMUM_DEPTH:
            raise Refused("the code goes too deep")
        tracker = _Proven(self, regions, depth)
        blocks = regions.structure.flow.blocks
        seen: dict[int, set[_Holders]] = {}
        work = [first]
        while work:
            block, instructions, held = work.pop()
            tested = tracker.follow(block, instructions, held)
            if tested is not None:
                refused, fact = tracker.failure(block, tested)
                if refused:
                    raise Refused(refused)
                self._facts.append(fact)
                continue
            if block.end in (RETURN, TAIL):
                if UNDECIDED in held:
                    raise Refused(f"{regions.structure.flow.name} may return without comparing the code")
                if RAX in held:
                    self._returned(start, depth)
            for target in regions.edges.get(block.start, []) if held else ():
                if target not in regions.before:
                    continue
                known, after = seen.setdefault(target, set()), frozenset(held.items())
                if after not in known:
                    known.add(after)
                    if len(known) > MAXIMUM_SETS:
                        raise Refused("the code is kept in too many ways")
                    work.append((blocks[target], blocks[target].instructions, dict(held)))

    # Calls and returns

    def top(self, start: int) -> int | None:
        """As `Facts.top`."""
        return self._walker.top(start)

    def parameters(self, start: int, registers: frozenset[int], depth: int) -> None:
        """A function that is given the code must compare it on every way to its return; raises Refused.

        Args:
            registers: where the code stands at the call; the function's parameters are some of them.
        """
        start = self._program.owner.get(start, start)
        key = (start, registers)
        known = self._judged.get(key)
        if known is None:
            known = self._judged[key] = self._judge(start, registers, depth)
        if known:
            raise Refused(known)
        name = self._program.ranges[start].name
        self._facts.append(f"{name} compares it with 0 and ends the program otherwise")

    def _judge(self, start: int, registers: frozenset[int], depth: int) -> str:
        """Why a function does not only compare its parameter with success; "" when it does."""
        self._judged[start, registers] = "it calls itself"
        facts, self._facts = self._facts, []
        try:
            regions = self.regions(start)
            entry = regions.structure.flow.blocks[start]
            held: Held = {**dict.fromkeys(registers, CODE), UNDECIDED: CODE}
            self._follow(start, regions, (entry, entry.instructions, held), depth + 1)
        except Refused as refusal_:
            return str(refusal_)
        finally:
            self._facts = facts
        return ""

    def _returned(self, start: int, depth: int) -> None:
        """The code may still be in rax when the function returns: no caller may look at it."""
        if depth >= MAXIMUM_DEPTH:
            raise Refused("the code is returned too far")
        if not self._callers.known(start):
            raise Refused(
                f"the code may be returned by {self._program.ranges[start].name}, whose callers are not all known"
            )
        for caller, site, called in self._callers.of(start):
            if called:
                self._unused(caller, site, depth)
            else:
                self._returned(caller, depth + 1)

    def _unused(self, caller: int, site: int, depth: int) -> None:
        """A caller that may get the code in rax must overwrite it before it reads it."""
        flow = self._walker.structure(caller).flow
        first = flow.holding(site)
        assert first is not None
        work, seen = [(first, site)], {-1}
        while work:
            block, after = work.pop()
            rest = [i for i in block.instructions if i.address > after]
            alive = next((self._keeps(flow, i) for i in rest if self._keeps(flow, i) is not None), True)
            if alive is False:
                continue
            if block.end in (RETURN, TAIL):
                self._returned(caller, depth + 1)
            for edge in block.edges:
                if edge.kind != EXCEPTION and edge.target not in seen:
                    seen.add(edge.target)
                    work.append((flow.blocks[edge.target], -1))

    def _keeps(self, flow: ControlFlow, instruction: Instruction) -> bool | None:
        """False: rax is overwritten; None: it is left alone; raises Refused when it is read."""
        if instruction.address in flow.calls or instruction.mnemonic == "call":
            for operand in instruction.operands:
                if RAX in (
                    (operand.base, operand.indexed)
                    if isinstance(operand, Memory)
                    else (getattr(operand, "number", NONE),)
                ):
                    raise Refused(f"the returned code is used at {instruction.address:#x}")
            callee = flow.calls.get(instruction.address)
            return False if callee is None or RAX in self.endings.clobbered(callee) else None
        if RAX in reads(instruction):
            raise Refused(f"the returned code is used at {instruction.address:#x}")
        target = instruction.operands[0] if instruction.operands else None
        written = isinstance(target, Register) and target.number == RAX and target.size >= 4
        return False if written and instruction.mnemonic not in ("cmp", "test", "push") else None


class _Proven(Tracker):
    """Knows of memory and calls what the abstract machine found of one function."""

    def __init__(self, codes: Codes, regions: Regions, depth: int) -> None:
        super().__init__(regions.structure.flow, codes.endings)
        self._codes, self._regions, self._depth = codes, regions, depth

    def stop(self, why: str) -> Exception:
        return Refused(why)

    def place(self, block: Block, instruction: Instruction, operand: Operand) -> Place | None:
        if isinstance(operand, Register):
            return operand.number if 0 <= operand.number < XMM0 and not operand.offset else None
        return self._cell(block, instruction, operand) if isinstance(operand, Memory) else None

    def target(self, block: Block, instruction: Instruction, operand: Operand) -> Place | None:
        place = self.place(block, instruction, operand)
        if isinstance(place, int):
            return place if operand.size >= 4 else None
        # A cell that no other code can look at.
        return None if self._regions.before[block.start].escaped & {FRAME, ANYTHING} else place

    def _cell(self, block: Block, instruction: Instruction, operand: Memory) -> tuple[int, int] | None:
        """The exact cell of the frame that an operand is: its offset and bytes."""
        for access in self._regions.accesses[block.start]:
            here = access.at == instruction.address and access.kind in (READ, WRITE) and access.objects == {FRAME}
            if here and access.high - access.low == operand.size:
                return access.low, operand.size
        return None

    def memory(self, block: Block, instruction: Instruction, held: Held) -> None:
        cells = [place for place in held if isinstance(place, tuple)]
        if not cells:
            return
        for access in self._regions.accesses[block.start]:
            if access.at != instruction.address or not access.objects & {FRAME, ANYTHING}:
                continue
            for low, size in cells:
                if access.low < low + size and low < access.high:
                    exact = access.low <= low and low + size <= access.high <= access.low + 32
                    if access.kind == WRITE and exact and instruction.mnemonic != "call":
                        self.changed((low, size), held)
                    else:
                        raise Refused(f"{access.text} may use the code")

    def changed(self, place: Place, held: Held) -> None:
        held.pop(place, None)
        if isinstance(place, tuple):
            low, size = place
            for each in [each for each in held if isinstance(each, tuple)]:
                if each[0] >= low and each[0] + each[1] <= low + size:
                    del held[each]

    def returned(self, instruction: Instruction, held: Held) -> None:
        pass  # judged at the block's end

    def undecided(self, block: Block, at: int) -> None:
        if self._regions.edges.get(block.start):
            raise Refused(f"the code's comparison at {at:#x} is used elsewhere")

    def call(self, block: Block, instruction: Instruction, held: Held) -> None:
        callee = self.flow.calls.get(instruction.address)
        if any(not held.keys().isdisjoint(_parts(operand)) for operand in instruction.operands):
            raise Refused(f"the code is used at {instruction.address:#x}")
        given = [number for number in ARGUMENTS if number in held]
        if given:
            if callee is None or callee.address is None or instruction.mnemonic != "call":
                raise Refused(
                    f"the code is given to {callee.name if callee else 'a function'} at {instruction.address:#x}"
                )
            if any(held[number] != CODE for number in given):
                raise Refused(f"the code is used at {instruction.address:#x}")
            self._codes.parameters(callee.address, frozenset(given), self._depth)
        self.memory(block, instruction, held)
        self._stack_arguments(instruction, held)
        for number in CALLER_SAVED if callee is None else self.endings.clobbered(callee):
            held.pop(number, None)
        if given:
            held.clear()  # the callee has compared it: behind it, it is success

    def _stack_arguments(self, instruction: Instruction, held: Held) -> None:
        """Refuses where a cell that holds the code may be an argument on the stack."""
        state = self._regions.sites.get(instruction.address)
        cells = [place for place in held if isinstance(place, tuple)]
        if not cells:
            return
        if state is None:
            raise Refused(f"the code may be given away at {instruction.address:#x}")
        end = stack = state.registers[RSP].number
        while end in state.recent:
            end += 8
        end = max(end, self._codes.top(self.flow.entry) or end)
        if any(low < end and low + size > stack for low, size in cells):
            raise Refused(f"the code may be an argument at {instruction.address:#x}")


def _parts(operand: Operand) -> tuple[int, ...]:
    """The registers of an operand."""
    if isinstance(operand, Memory):
        return operand.base, operand.indexed
    return (operand.number,) if isinstance(operand, Register) else (NONE,)
