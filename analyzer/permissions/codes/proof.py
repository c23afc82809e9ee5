"""Is a call's error code only compared with success, and does the other way end the program?

The code is followed from the call through registers, cells of the frame and calls of the program's own functions. Copying it is
allowed, comparing it with 0 is; the way of failure must lead to the end of the program, whatever it does with the code
on the way; behind the way of success the code is known and may be used. Any other use refuses. A code still in rax when the function returns is
followed into every caller; the callers must be known.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from farlane.analyzer.graph.control_flow import EXCEPTION, FALL, RETURN, TAIL, TAKEN, Block, ControlFlow
from farlane.analyzer.machine.effects import reads
from farlane.analyzer.machine.instruction import (
    ARGUMENTS,
    CALLER_SAVED,
    NONE,
    RAX,
    RSP,
    XMM0,
    Immediate,
    Instruction,
    Memory,
    Register,
)
from farlane.analyzer.permissions.abstract.domain import ANYTHING, FRAME
from farlane.analyzer.permissions.abstract.facts import Regions
from farlane.analyzer.permissions.abstract.memory import READ, WRITE
from farlane.analyzer.permissions.abstract.operands import Refused
from farlane.analyzer.permissions.abstract.walk import Walker
from farlane.analyzer.permissions.codes import outright
from farlane.analyzer.permissions.codes.callers import Callers
from farlane.analyzer.permissions.codes.endings import Endings
from farlane.analyzer.permissions.codes.refusing import refusal

CODE, FAILED, SUCCEEDED = "code", "failed", "succeeded"  # the code itself; 1 when it is no success; 1 when it is
MAXIMUM_DEPTH = 6
_COPIES = {"mov", "movzx"}

# A place that holds the code (a register, a cell's offset and size) and as what. All places of a set hold it at once.
Holders: TypeAlias = frozenset[tuple[object, str]]
# Stands in the set as long as the code has not been compared, where every way must compare it.
UNDECIDED = ("undecided", CODE)
MAXIMUM_SETS = 16  # of holders at one block

# What leaves the flags as they are.
_KEEPS_FLAGS = (
    "mov",
    "lea",
    "nop",
    "endbr",
    "push",
    "pop",
    "cvt",
    "cdq",
    "cqo",
    "cwde",
    "cdqe",
    "leave",
    "pxor",
    "unpck",
    "punpck",
)
_SETS_FLAGS = (
    "add",
    "sub",
    "cmp",
    "test",
    "and",
    "or",
    "xor",
    "inc",
    "dec",
    "neg",
    "shl",
    "sal",
    "sar",
    "shr",
    "imul",
    "comis",
    "ucomis",
)


class Codes:
    """Judges how error codes are used in one program."""

    def __init__(self, walker: Walker) -> None:
        self._walker, self._program = walker, walker.program
        self._regions: dict[int, Regions | str] = {}
        self._callers, self._endings = Callers(walker), Endings(walker)
        self._judged: dict[tuple[int, frozenset[int]], str] = {}
        self._facts: list[str] = []

    def regions(self, start: int) -> Regions:
        """The function's regions, kept; raises Refused."""
        if start not in self._regions:
            try:
                self._regions[start] = self._walker.regions(start)
            except Refused as refusal:
                self._regions[start] = str(refusal)
        known = self._regions[start]
        if isinstance(known, str):
            raise Refused(known)
        return known

    def proof(self, start: int, site: int) -> str:
        """How the code of the call at `site` in the function `start` is used; raises Refused."""
        seen = outright.verdict(self._walker.structure(start).flow, self._endings, site)
        if seen is not None and seen.refused:
            raise Refused(seen.refused)
        self._facts = list(seen.facts) if seen is not None else []
        if seen is None:
            refused = refusal(self._walker.structure(start).flow, self._endings, site)
            if refused is not None:
                raise Refused(refused)
            self._after_call(start, site, 0)
        return "; ".join(dict.fromkeys(self._facts)) or "the code is not used"

    def _after_call(self, start: int, site: int, depth: int) -> None:
        regions = self.regions(start)
        flow = regions.structure.flow
        block = flow.holding(site)
        if block is None or block.start not in regions.before:
            raise Refused(f"{site:#x} is not reached")
        rest = [i for i in block.instructions if i.address > site]
        self._follow(start, regions, [(block, rest, frozenset({(RAX, CODE)}))], depth)

    def _follow(
        self, start: int, regions: Regions, work: list[tuple[Block, list[Instruction], Holders]], depth: int
    ) -> None:
        if depth > MAXIMUM_DEPTH:
            raise Refused("the code goes too deep")
        blocks = regions.structure.flow.blocks
        seen: dict[int, set[Holders]] = {}
        while work:
            block, instructions, holders = work.pop()
            for target, after in self._block(start, regions, block, instructions, holders, depth):
                if not after or target not in regions.before:
                    continue
                known = seen.setdefault(target, set())
                if after not in known:
                    known.add(after)
                    if len(known) > MAXIMUM_SETS:
                        raise Refused("the code is kept in too many ways")
                    work.append((blocks[target], list(blocks[target].instructions), after))

    def _block(
        self,
        start: int,
        regions: Regions,
        block: Block,
        instructions: list[Instruction],
        holders: Holders,
        depth: int,
    ) -> Iterable[tuple[int, Holders]]:
        held = set(holders)
        decided: str | None = None  # FAILED: the zero flag says success; SUCCEEDED: the zero flag says failure
        tested = 0
        for instruction in instructions:
            if decided is not None and instruction.mnemonic.startswith("j") and instruction is block.instructions[-1]:
                return self._branch(start, regions, block, instruction, decided, tested, held)
            if decided is not None:
                kind = {"setne": FAILED, "sete": SUCCEEDED}.get(instruction.mnemonic)
                if kind is not None and isinstance(instruction.operands[0], Register):
                    opposite = {FAILED: SUCCEEDED, SUCCEEDED: FAILED}
                    self._forget(held, instruction.operands[0].number)
                    held.add((instruction.operands[0].number, kind if decided == FAILED else opposite[kind]))
                    continue
                if instruction.mnemonic in ("call", "ret") or instruction.mnemonic.startswith(_SETS_FLAGS):
                    decided = None
                elif not instruction.mnemonic.startswith(_KEEPS_FLAGS):
                    raise Refused(f"the code may be used at {instruction.address:#x}")
            found = self._test(regions, block, instruction, held)
            if found is not None:
                decided, tested = found, instruction.address
                continue
            if instruction.mnemonic == "call" or instruction.address in regions.structure.flow.calls:
                self._call(regions, block, instruction, held, depth)
                decided = None
                continue
            self._plain(regions, block, instruction, held)
        if decided is not None and regions.edges.get(block.start):
            raise Refused(f"the code's comparison at {tested:#x} is used elsewhere")
        if block.end in (RETURN, TAIL) and UNDECIDED in held:
            raise Refused(f"{regions.structure.flow.name} may return without comparing the code")
        if block.end in (RETURN, TAIL) and any(place == RAX for place, _ in held):
            self._returned(start, depth)
        after = frozenset(held)
        return [(target, after) for target in regions.edges.get(block.start, [])]

    # Comparisons

    def _test(
        self, regions: Regions, block: Block, instruction: Instruction, held: set[tuple[object, str]]
    ) -> str | None:
        """What the zero flag says after a comparison of the code with success."""
        name, operands = instruction.mnemonic, instruction.operands
        if name not in ("test", "cmp", "or", "and") or len(operands) != 2:
            return None
        first, second = operands
        if name == "cmp":
            if not isinstance(second, Immediate) or second.value != 0:
                return None
        elif first != second:
            return None
        kind = self._held(regions, block, instruction, first, held)
        if kind is None:
            return None
        return FAILED if kind in (CODE, FAILED) else SUCCEEDED

    def _held(
        self,
        regions: Regions,
        block: Block,
        instruction: Instruction,
        operand: object,
        held: set[tuple[object, str]],
    ) -> str | None:
        """What an operand holds of the code."""
        if isinstance(operand, Register):
            kind = next((kind for place, kind in held if place == operand.number), None)
            enough = operand.size >= 4 if kind == CODE else operand.offset == 0
            return kind if kind is not None and enough and not operand.offset else None
        if isinstance(operand, Memory):
            cell = self._cell(regions, block, instruction, operand)
            return next((kind for place, kind in held if place == cell), None) if cell is not None else None
        return None

    def _cell(
        self, regions: Regions, block: Block, instruction: Instruction, operand: Memory
    ) -> tuple[int, int] | None:
        """The exact cell of the frame that an operand is."""
        for access in regions.accesses[block.start]:
            here = access.at == instruction.address and access.kind in (READ, WRITE) and access.objects == {FRAME}
            if here and access.high - access.low == operand.size:
                return access.low, operand.size
        return None

    def _branch(
        self,
        start: int,
        regions: Regions,
        block: Block,
        jump: Instruction,
        decided: str,
        tested: int,
        held: set[tuple[object, str]],
    ) -> list[tuple[int, Holders]]:
        edges = {edge.kind: edge.target for edge in block.edges}
        if jump.mnemonic not in ("je", "jne") or set(edges) != {TAKEN, FALL}:
            raise Refused(f"the code decides a jump that does not ask for success at {jump.address:#x}")
        zero, other = (edges[TAKEN], edges[FALL]) if jump.mnemonic == "je" else (edges[FALL], edges[TAKEN])
        failure = other if decided == FAILED else zero
        if not self._endings.ends(regions.structure.flow, failure):
            raise Refused(f"when the code at {tested:#x} is no success, the program goes on at {failure:#x}")
        self._facts.append(f"the code is compared with 0 at {tested:#x}, the other way ends the program")
        return []

    # Copies and uses

    def _plain(self, regions: Regions, block: Block, instruction: Instruction, held: set[tuple[object, str]]) -> None:
        name, operands = instruction.mnemonic, instruction.operands
        if name in ("ret", "endbr64", "nop") or (name.startswith("j") and not operands):
            return
        if name in _COPIES and len(operands) == 2:
            target, source = operands
            kind = self._held(regions, block, instruction, source, held)
            if kind is not None:
                if isinstance(target, Register) and 0 <= target.number < XMM0 and target.size >= 4:
                    self._forget(held, target.number)
                    held.add((target.number, kind))
                    return
                cell = self._cell(regions, block, instruction, target) if isinstance(target, Memory) else None
                state = regions.before[block.start]
                private = not state.escaped & {FRAME, ANYTHING}
                if cell is not None and private:
                    self._overwrite(held, *cell)
                    held.add((cell, kind))
                    return
                raise Refused(f"the code is stored at {instruction.address:#x}")
        used = reads(instruction)
        if any(place in used for place, _ in held):
            raise Refused(f"the code is used at {instruction.address:#x}")
        self._memory(regions, block, instruction, held)
        for operand in operands[:1]:
            if isinstance(operand, Register) and operand.size >= 4 and name not in ("cmp", "test", "push"):
                self._forget(held, operand.number)
        for number in instruction.writes:
            self._forget(held, number)

    def _memory(self, regions: Regions, block: Block, instruction: Instruction, held: set[tuple[object, str]]) -> None:
        """An instruction's accesses against the cells that hold the code."""
        cells = [place for place, _ in held if isinstance(place, tuple)]
        if not cells:
            return
        for access in regions.accesses[block.start]:
            if access.at != instruction.address or not access.objects & {FRAME, ANYTHING}:
                continue
            for low, size in cells:
                if access.low < low + size and low < access.high:
                    exact = access.low <= low and low + size <= access.high <= access.low + 32
                    if access.kind == WRITE and exact and instruction.mnemonic != "call":
                        self._overwrite(held, low, size)
                    else:
                        raise Refused(f"{access.text} may use the code")

    @staticmethod
    def _forget(held: set[tuple[object, str]], register: int) -> None:
        held -= {each for each in held if each[0] == register}

    @staticmethod
    def _overwrite(held: set[tuple[object, str]], low: int, size: int) -> None:
        for each in list(held):
            place = each[0]
            if isinstance(place, tuple) and place[0] >= low and place[0] + place[1] <= low + size:
                held.discard(each)

    # Calls and returns

    def _stack_arguments(self, regions: Regions, instruction: Instruction, held: set[tuple[object, str]]) -> None:
        """Refuses where a cell that holds the code may be an argument on the stack."""
        state = regions.sites.get(instruction.address)
        cells = [place for place, _ in held if isinstance(place, tuple)]
        if not cells:
            return
        if state is None:
            raise Refused(f"the code may be given away at {instruction.address:#x}")
        end = stack = state.registers[RSP].number
        while end in state.recent:
            end += 8
        end = max(end, self._walker.top(regions.structure.flow.entry) or end)
        if any(low < end and low + size > stack for low, size in cells):
            raise Refused(f"the code may be an argument at {instruction.address:#x}")

    def _call(
        self, regions: Regions, block: Block, instruction: Instruction, held: set[tuple[object, str]], depth: int
    ) -> None:
        flow = regions.structure.flow
        callee = flow.calls.get(instruction.address)
        for operand in instruction.operands:
            parts = (
                (operand.base, operand.indexed) if isinstance(operand, Memory) else (getattr(operand, "number", NONE),)
            )
            if any(place in parts for place, _ in held):
                raise Refused(f"the code is used at {instruction.address:#x}")
        given = [number for number in ARGUMENTS if any(place == number for place, _ in held)]
        if given:
            if callee is None or callee.address is None or instruction.mnemonic != "call":
                raise Refused(
                    f"the code is given to {callee.name if callee else 'a function'} at {instruction.address:#x}"
                )
            if any(kind != CODE for place, kind in held if place in given):
                raise Refused(f"the code is used at {instruction.address:#x}")
            self._parameters(self._program.owner.get(callee.address, callee.address), frozenset(given), depth)
        self._memory(regions, block, instruction, held)
        self._stack_arguments(regions, instruction, held)
        for number in CALLER_SAVED if callee is None else self._endings.clobbered(callee):
            self._forget(held, number)
        if given:
            held.clear()  # the callee has compared it: behind it, it is success

    def _parameters(self, start: int, registers: frozenset[int], depth: int) -> None:
        """A function that is given the code must compare it on every way to its return.

        Args:
            registers: where the code stands at the call; the function's parameters are some of them.
        """
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
            holders: Holders = frozenset({*((register, CODE) for register in registers), UNDECIDED})
            self._follow(start, regions, [(entry, list(entry.instructions), holders)], depth + 1)
        except Refused as refusal:
            return str(refusal)
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
            return False if callee is None or RAX in self._endings.clobbered(callee) else None
        if RAX in reads(instruction):
            raise Refused(f"the returned code is used at {instruction.address:#x}")
        target = instruction.operands[0] if instruction.operands else None
        written = isinstance(target, Register) and target.number == RAX and target.size >= 4
        return False if written and instruction.mnemonic not in ("cmp", "test", "push") else None
