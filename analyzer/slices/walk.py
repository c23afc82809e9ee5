"""From a loop's machine code to the graph of a slice: follows the code from the entry on, through the functions that it
calls, until it comes back to the entry or leaves the loop.

The program's own functions are put in the place of their calls, as the abstract machine has executed them: where each
access goes is what it has found in that activation. A block is lifted once for each chain of calls that leads to it.
"""

from __future__ import annotations

from typing import NamedTuple

from farlane.analyzer.externals import interface, names
from farlane.analyzer.graph import kernels
from farlane.analyzer.graph.control_flow import EXCEPTION, FALL, RETURN, TAKEN, Block
from farlane.analyzer.graph.program import UNKNOWN, Callee
from farlane.analyzer.graph.structure import Loop
from farlane.analyzer.machine.effects import Flags, flags, writes
from farlane.analyzer.machine.instruction import NONE, RDI, RSI, RSP, Instruction, Memory, Register
from farlane.analyzer.permissions.abstract.domain import CONSTANT, EXACT, Heap, Objects
from farlane.analyzer.permissions.abstract.domain import NONE as NOTHING
from farlane.analyzer.permissions.abstract.facts import Regions
from farlane.analyzer.permissions.abstract.instructions import Step
from farlane.analyzer.permissions.abstract.memory import State
from farlane.analyzer.permissions.abstract.operands import Refused
from farlane.analyzer.permissions.abstract.walk import Walker
from farlane.analyzer.slices import extents, reasons
from farlane.analyzer.slices.form import Branch, Called, Jump, Leave
from farlane.analyzer.slices.given import Given
from farlane.analyzer.slices.lifting.calls import Calls
from farlane.analyzer.slices.raw import Graph, RawBlock, RawCall, RefusedError
from farlane.limits.generated import SLICE_BLOCKS

MAXIMUM_STEPS = 20_000  # before what is not wanted is taken out
# Change how floating-point numbers are computed.
_CONTROL = frozenset({"ldmxcsr", "vldmxcsr", "fldcw", "fldenv", "frstor", "fninit", "finit", "xrstor", "fxrstor"})


class _Key(NamedTuple):
    """Where code stands: the chain of calls that leads there, the block, its first instruction, and the flags there."""

    chain: tuple[int, ...]
    block: int
    first: int
    flags: tuple[str, int] | None


class Walk(Calls):
    """Makes the graph for one entry.

    Args:
        regions: of the loop's function; those of the functions that it calls are in them.
        entry: the call instruction at which the slice begins, in the function itself.
    """

    def __init__(self, walker: Walker, regions: Regions, loop: Loop, entry: int) -> None:
        super().__init__(walker.image)
        self._walker, self._regions, self._loop, self._entry = walker, regions, loop, entry
        self._kernels = kernels.of(walker.program)
        state = regions.sites[entry]
        holding = regions.structure.flow.holding(entry)
        assert holding is not None
        end = next(each.end for each in holding.instructions if each.address == entry)
        self.graph = Graph(end, state.registers[RSP].number)
        self.entry_stack, self.regions = self.graph.stack, self.graph.regions
        self.arrays, self.extents = extents.copied(regions, loop.blocks)
        self.graph.extents = self.extents
        self._given = Given(walker.program, regions, loop, self.graph.stack)
        self._chain: tuple[int, ...] = ()
        self.graph.addresses = self._given.addresses
        self._indices: dict[_Key, int] = {}
        self._work: list[_Key] = []
        self._raw = RawBlock()
        self.escaped: Objects = NOTHING  # whose addresses are known elsewhere, at any place of the loop
        self._stuck: int | None = None

    def run(self) -> Graph:
        """Raises RefusedError."""
        holding = self._regions.structure.flow.holding(self._entry)
        assert holding is not None
        self._index(_Key((), holding.start, self._entry, None))
        while self._work:
            key = self._work.pop()
            self._lift(key)
            if (
                sum(len(block.steps) for block in self.graph.blocks) > MAXIMUM_STEPS
                or len(self._indices) > 4 * SLICE_BLOCKS
            ):
                raise RefusedError(reasons.TOO_LONG, "the host code between the calls")
        self.graph.floating = self.floating
        return self.graph

    def given(self, base: int, behind: int, size: int) -> int | None:
        return None if self._chain else self._given.place(self.source(base), behind, size)

    def sizes(self, host: int) -> tuple[int, ...] | None:
        return self._kernels.sizes(host)

    # Blocks

    def _index(self, key: _Key) -> int:
        if key not in self._indices:
            self._indices[key] = len(self.graph.blocks)
            self.graph.blocks.append(RawBlock())
            self._work.append(key)
        return self._indices[key]

    def _of(self, chain: tuple[int, ...]) -> Regions:
        regions = self._regions
        for call in chain:
            regions = regions.inner[call]
        return regions

    def _start(self, raw: RawBlock) -> None:
        self._raw, self.steps = raw, raw.steps

    def _lift(self, key: _Key) -> None:
        regions = self._of(key.chain)
        block = regions.structure.flow.blocks[key.block]
        before = regions.before.get(key.block)
        if before is None:
            raise RefusedError(reasons.CONTROL, f"{key.block:#x} is not reached")
        pads = {edge.target for edge in block.edges if edge.kind == EXCEPTION}
        if pads & set(regions.edges.get(key.block, ())):
            raise RefusedError(reasons.EXCEPTIONS, f"a call in the block at {key.block:#x} may throw, and is caught")
        self._start(self.graph.blocks[self._indices[key]])
        self._chain = key.chain
        self.flags, self.dividend = key.flags, None
        self.accesses = {}
        for access in regions.accesses[key.block]:
            if access.at == access.source:
                self.accesses.setdefault(access.at, []).append(access)
        self.escaped |= regions.escaped[key.block] | before.escaped
        state = before.copy()
        step = Step(state, [])
        self.values = state.registers
        for instruction in block.instructions:
            if instruction.address < key.first:
                self._follow(state, step, instruction, regions)
                continue
            at_entry = instruction.address == self._entry and not key.chain
            if at_entry and instruction.address != key.first:
                self._raw.end = Jump(0)
                return
            stack = state.registers[RSP]
            if stack.kind != EXACT:
                raise RefusedError(reasons.CONTROL, f"the stack pointer at {instruction.address:#x}")
            self.stack = stack.number - self.graph.stack
            if self._calls(instruction, regions):
                if self._call(key, block, instruction, regions):
                    return
            else:
                self._instruction(instruction)
            self._follow(state, step, instruction, regions)
        self._finish(key, block, regions)

    def _calls(self, instruction: Instruction, regions: Regions) -> bool:
        return instruction.mnemonic == "call" or instruction.address in regions.structure.flow.calls

    def _follow(self, state: State, step: Step, instruction: Instruction, regions: Regions) -> None:
        """Keeps the abstract stack pointer; calls give it back."""
        if not self._calls(instruction, regions):
            try:
                step.execute(instruction)
            except Refused as refused:
                raise RefusedError(reasons.INSTRUCTION, str(refused)) from refused

    def _instruction(self, instruction: Instruction) -> None:
        name = instruction.mnemonic
        if name in _CONTROL:
            raise RefusedError(reasons.INSTRUCTION, f"{name} at {instruction.address:#x}")
        if name.startswith("j"):
            return
        known = self.vectors(instruction) or self.packed(instruction) or self.integers(instruction)
        if not known and not self.strings(instruction):
            self.forget(instruction)
            if flags(name) not in (Flags.KEEPS, Flags.READS):
                self.flags = None
        self.noticed(instruction)

    def _finish(self, key: _Key, block: Block, regions: Regions) -> None:
        """The way on from a block's end."""
        if block.end == RETURN:
            self._raw.end = self._return(key.chain)
            return
        targets = regions.edges.get(key.block, [])
        if not targets:
            self._raw.end = Leave(0)
            return
        if len(set(targets)) == 1:
            self._raw.end = self._to(key.chain, targets[0])
            return
        alive = [target for target in targets if not self._bad_cast(regions, target)]
        if len(alive) == 1:
            self._raw.end = self._to(key.chain, alive[0])
            return
        by_kind = {edge.kind: edge.target for edge in block.edges}
        last = block.instructions[-1]
        if set(by_kind) != {TAKEN, FALL} or len(targets) != 2:
            raise RefusedError(reasons.CONTROL, f"a jump by a table at {last.address:#x}")
        held = self.condition(last.mnemonic[1:])
        if held is None:
            detail = f"{last.mnemonic} at {last.address:#x}"
            held = self.unknown(self.temporary(), reasons.INSTRUCTION, detail)
        ways = [self._number(self._to(key.chain, by_kind[kind])) for kind in (TAKEN, FALL)]
        self._raw.end = Branch(held, *ways)

    @staticmethod
    def _bad_cast(regions: Regions, start: int) -> bool:
        """Whether a block says that a stream has no character type, as inlined std::endl asks: it has."""
        flow = regions.structure.flow
        called = (flow.calls.get(each.address) for each in flow.blocks[start].instructions)
        first = next((callee for callee in called if callee is not None), None)
        return first is not None and first.address is None and first.name == names.BAD_CAST

    def _number(self, end: Jump | Leave) -> int:
        if isinstance(end, Jump):
            return end.block
        self.graph.blocks.append(RawBlock(end=end))
        return len(self.graph.blocks) - 1

    def _to(self, chain: tuple[int, ...], target: int) -> Jump | Leave:
        if not chain and target not in self._loop.blocks:
            return Leave(target)
        block = self._of(chain).structure.flow.blocks[target]
        return Jump(self._index(_Key(chain, target, target, self._wanted(block, target))))

    def _wanted(self, block: Block, first: int) -> tuple[str, int] | None:
        """The flags, where a block looks at them before it changes them."""
        for instruction in block.instructions:
            if instruction.address < first:
                continue
            kind = flags(instruction.mnemonic)
            if kind == Flags.READS:
                return self.flags
            if kind != Flags.KEEPS or instruction.mnemonic == "call":
                return None
        return None

    def _return(self, chain: tuple[int, ...]) -> Jump | Leave:
        """Behind the call that a chain ends with; a jump to another function has nothing behind it."""
        while chain:
            call, chain = chain[-1], chain[:-1]
            regions = self._of(chain)
            block = regions.structure.flow.holding(call)
            assert block is not None
            instruction = next(each for each in block.instructions if each.address == call)
            if instruction.mnemonic != "call":
                continue
            if block.instructions[-1].address != call:
                return Jump(self._index(_Key(chain, block.start, instruction.end, None)))
            targets = [t for t in regions.edges.get(block.start, []) if t == instruction.end]
            return self._to(chain, targets[0]) if targets else Leave(0)
        return Leave(0)

    # Calls

    def _call(self, key: _Key, block: Block, instruction: Instruction, regions: Regions) -> bool:
        """A call; whether the block ends here."""
        callee = regions.structure.flow.calls.get(instruction.address, UNKNOWN)
        where = f"{callee.name or 'a computed call'} at {instruction.address:#x}"
        if instruction.mnemonic not in ("call", "jmp"):
            raise RefusedError(reasons.CONTROL, where)
        if callee.address is not None:
            if instruction.address not in regions.inner:
                raise RefusedError(reasons.UNKNOWN_FUNCTION, where)
            inner = regions.inner[instruction.address]
            chain = (*key.chain, instruction.address)
            entry = inner.structure.flow.entry
            self._raw.end = Jump(self._index(_Key(chain, entry, entry, None)))
            return True
        if not names.is_cuda(callee.name) and not self._walker.program.returns(callee):
            self._raw.end = Leave(0)
            return True
        state = regions.sites.get(instruction.address) or regions.tails.get(instruction.address)
        if state is None:
            raise RefusedError(reasons.CONTROL, f"{where} is not reached")
        self.escaped |= state.escaped
        if not names.is_cuda(callee.name):
            if callee == UNKNOWN and self._walker.widens(regions.structure.flow, block):
                callee = Callee(names.WIDEN, None)
            self.library(callee.name, instruction, state)
            return self._ends(key.chain, instruction)
        host = (
            self._launched(key.chain, instruction, block)
            if interface.plain(callee.name) in interface.LAUNCHES
            else None
        )
        made = self.called(callee.name, instruction, state, host)
        if made is not None:
            self._made(made)
        self.returned(callee.name, instruction, state)
        return self._ends(key.chain, instruction)

    def _ends(self, chain: tuple[int, ...], instruction: Instruction) -> bool:
        """Behind a call: whether it was a jump, whose function comes back to the caller."""
        if instruction.mnemonic == "call":
            return False
        self._raw.end = self._return(chain)
        return True

    def _made(self, call: RawCall) -> None:
        self.graph.calls.append(call)
        self.graph.blocks.append(RawBlock())
        self._raw.end = Called(len(self.graph.calls) - 1, len(self.graph.blocks) - 1)
        self._start(self.graph.blocks[-1])

    def require(self, held: int) -> None:
        """Goes on where a register is not 0; else the evaluation goes round for ever, and so is stuck."""
        blocks = self.graph.blocks
        if self._stuck is None:
            self._stuck = len(blocks)
            blocks.append(RawBlock(end=Jump(self._stuck)))
        blocks.append(RawBlock())
        self._raw.end = Branch(held, len(blocks) - 1, self._stuck)
        self._start(blocks[-1])

    def addressed(self, heap: Heap, register: int) -> None:
        number = self.extents[heap].number
        found = extents.address(self._regions.sites[self._entry], heap, self.source(register))
        if found is not None:
            self.graph.addresses.setdefault(number, found)

    def _launched(self, chain: tuple[int, ...], instruction: Instruction, block: Block) -> int | None:
        """The host's address of the kernel that a call launches: the argument; or, where that is a handle (CUDA 13), what
        the kernel's stub has asked for it with, in this function or in the one that has called it for the launch."""
        kernel = self._of(chain).sites[instruction.address].registers[RDI]
        if kernel.kind == CONSTANT:
            return kernel.number
        asked = self._asked(chain)
        if asked:
            found = asked.get(_loaded(block, instruction) or 0, set())
            return found.pop() if len(found) == 1 else None
        while chain and not asked:
            chain = chain[:-1]
            asked = self._asked(chain)
        hosts = set().union(*asked.values()) if asked else set()
        return hosts.pop() if len(hosts) == 1 else None

    def _asked(self, chain: tuple[int, ...]) -> dict[int, set[int]]:
        """Handles that a function asks for: the variable that each is put in -> the kernels' addresses of the host."""
        regions, found = self._of(chain), dict[int, set[int]]()
        for site, callee in regions.structure.flow.calls.items():
            state = regions.sites.get(site)
            if callee.name == interface.GET_KERNEL and state is not None:
                handle, host = state.registers[RDI], state.registers[RSI]
                known = handle.kind == CONSTANT and host.kind == CONSTANT
                found.setdefault(handle.number if known else 0, set()).add(host.number if known else 0)
        return found


def _loaded(block: Block, call: Instruction) -> int | None:
    """The global variable that a call's first argument was loaded from, in its block."""
    wanted = RDI
    for instruction in reversed([each for each in block.instructions if each.address < call.address]):
        if wanted not in writes(instruction):
            continue
        operands = instruction.operands
        if instruction.mnemonic != "mov" or operands[0] != Register(wanted, 8):
            return None
        source = operands[1]
        if isinstance(source, Register):
            wanted = source.number
        elif isinstance(source, Memory) and source.base == source.indexed == NONE and not source.thread:
            return source.displacement
        else:
            return None
    return None
