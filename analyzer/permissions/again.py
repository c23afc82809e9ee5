"""Is the site reached again before the destination is touched? As an expression over values at the site.

From the site the code is followed forwards, instruction by instruction, with expressions over what registers and frame cells
hold at the site. Where all ways lead back to the site without touching the destination, the answer is 1. Where one leads elsewhere
(out of the loop, to an access) the answer is that of the branches in between; a branch that is not understood counts as if it went
the worse way. So 1 is a promise, and 0 is none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from farlane.analyzer.graph.control_flow import FALL, RETURN, TAIL, TAKEN, Block
from farlane.analyzer.graph.names import is_cuda
from farlane.analyzer.graph.reach import reached
from farlane.analyzer.graph.structure import Loop
from farlane.analyzer.machine.instruction import (
    CALLER_SAVED,
    NONE,
    RAX,
    RBP,
    RCX,
    RDI,
    RDX,
    RSI,
    RSP,
    XMM0,
    Immediate,
    Instruction,
    Memory,
    Operand,
    Register,
)
from farlane.analyzer.permissions.domain import ANYTHING, EXACT, FRAME
from farlane.analyzer.permissions.memory import HIGHEST, LEAVES, LOWEST, WRITE, Access, State
from farlane.analyzer.permissions.symbols import (
    MASK,
    ONE,
    ZERO,
    Expression,
    both,
    either,
    extended,
    negated,
    number,
    operation,
    placed,
)
from farlane.analyzer.permissions.walk import Regions

MAXIMUM_BLOCKS = 200

_KEEPS_FLAGS = ("mov", "lea", "set", "cmov", "nop", "push", "pop", "cdq", "cqo", "cwde", "cdqe", "endbr", "prefetch")
_RELATIONS = {
    "je": ("eq", 0),
    "jl": ("slt", 0),
    "jle": ("sle", 0),
    "jb": ("ult", 0),
    "jbe": ("ule", 0),
    "jne": ("eq", 1),
    "jge": ("slt", 1),
    "jg": ("sle", 1),
    "jae": ("ult", 1),
    "ja": ("ule", 1),
}
_OF_RESULT = {"je": ("eq", 0), "jne": ("eq", 1), "js": ("slt", 0), "jns": ("slt", 1)}
# After `and`, `or`, `xor`, `test` there is neither carry nor overflow.
_OF_LOGIC = {**_OF_RESULT, "jl": ("slt", 0), "jge": ("slt", 1), "jle": ("sle", 0), "jg": ("sle", 1)}


@dataclass
class _Values:
    """What registers and cells hold, as expressions over the site's."""

    registers: dict[int, Expression | None]
    cells: dict[tuple[int, int], Expression | None] = field(default_factory=dict)
    lost: list[tuple[int, int]] = field(default_factory=list)  # parts of the frame that are not as at the site
    flags: tuple[str, int, Expression | None, Expression | None] | None = None

    def copy(self) -> _Values:
        return _Values(dict(self.registers), dict(self.cells), list(self.lost), self.flags)

    def lose(self, low: int, high: int) -> None:
        self.lost.append((low, high))
        for offset, size in [key for key in self.cells if key[0] < high and low < key[0] + key[1]]:
            del self.cells[offset, size]


class Again:
    """Answers the question for one site.

    Args:
        regions: of the site's function.
        loop: the loop; leaving it counts as touching.
        site: the call instruction.
        bad: accesses that touch the destination, or after which the program may go on anywhere.
        escapes: blocks after which the destination's address is known elsewhere.
    """

    def __init__(
        self, regions: Regions, loop: Loop, site: int, bad: Callable[[Access], bool], escapes: Iterable[int]
    ) -> None:
        self._regions, self._loop, self._site = regions, loop, site
        self._blocks = regions.structure.flow.blocks
        start = regions.structure.flow.holding(site)
        assert start is not None
        self._start = start.start
        self._escapes = set(escapes)
        self._bad_blocks = {block for block in regions.before if self._is_bad(self._blocks[block], bad)}
        head = [i.address for i in self._blocks[self._start].instructions if i.address < site]
        tail = [i.address for i in self._blocks[self._start].instructions if i.address > site]
        accesses = [access for access in regions.accesses[self._start] if bad(access)]
        self._head_bad = any(access.at in head for access in accesses) or self._start in self._escapes
        self._tail_bad = any(access.at in tail for access in accesses)
        self._can_go_bad = self._backwards()
        state = regions.sites[site]
        self.stack = state.registers[RSP].number
        self._walked = 0
        self._private = FRAME not in state.escaped and ANYTHING not in state.escaped
        self._state = state

    def more(self) -> Expression:
        """1 in every execution in which it evaluates to 1."""
        if self._tail_bad or self._head_bad:
            return ZERO
        block = self._blocks[self._start]
        values = self._at_site(self._state)
        values.registers.update(dict.fromkeys(CALLER_SAVED))
        values.registers[RAX] = ZERO
        rest = [i for i in block.instructions if i.address > self._site]
        # What the site's own call writes is no longer as it was.
        self._lose(values, block, self._site)
        return self._run(block, rest, values, frozenset())

    def _is_bad(self, block: Block, bad: Callable[[Access], bool]) -> bool:
        if block.start in self._escapes or block.end in (RETURN, TAIL):
            return True
        return any(bad(access) for access in self._regions.accesses[block.start] if access.at != self._site)

    def _backwards(self) -> set[int]:
        """Blocks from which a bad one, or one outside the loop that does not end the program, is reached, not through the site."""
        sources: dict[int, list[int]] = {}
        for source, targets in self._regions.edges.items():
            for target in targets:
                sources.setdefault(target, []).append(source)
        outside = set(self._regions.before) - self._loop.blocks
        # Outside the loop: whatever does not only lead to the end of the program.
        found = {block for block in outside if block in self._bad_blocks}
        found |= {block for block in outside if any(t in self._loop.blocks for t in self._regions.edges.get(block, []))}
        found |= {block for block in self._bad_blocks if block != self._start}
        return reached(found, sources, self._start)

    def _at_site(self, state: State) -> _Values:
        registers: dict[int, Expression | None] = {}
        for register in range(16):
            value = state.registers[register]
            registers[register] = ("frame", value.number) if value.kind == EXACT else ("register", register)
        return _Values(registers)

    # Following the code

    def _reach(self, start: int, values: _Values, path: frozenset[int]) -> Expression:
        if start == self._start:
            return ZERO if self._head_bad else ONE
        if start not in self._can_go_bad:
            return ONE
        if start in self._bad_blocks or start not in self._loop.blocks or start in path:
            return ZERO
        self._walked += 1
        if self._walked > MAXIMUM_BLOCKS:
            return ZERO
        inner = self._regions.structure.loops.get(start)
        if inner is not None and self._start not in inner.blocks:
            return self._past(inner, values, path | {start})
        block = self._blocks[start]
        return self._run(block, block.instructions, values, path | {start})

    def _past(self, inner: Loop, values: _Values, path: frozenset[int]) -> Expression:
        """Behind an inner loop with one exit: what it changes is not known."""
        edges = self._regions.edges
        blocks = [block for block in inner.blocks if block in self._regions.before]
        targets = {target for block in blocks for target in edges.get(block, []) if target not in inner.blocks}
        if len(targets) != 1 or inner.irreducible or any(block in self._bad_blocks for block in blocks):
            return ZERO
        for start in blocks:
            block = self._blocks[start]
            for instruction in block.instructions:
                self._lose(values, block, instruction.address)
                _lose_registers(values, instruction)
        values.flags = None
        return self._reach(targets.pop(), values, path)

    def _run(
        self, block: Block, instructions: Iterable[Instruction], values: _Values, path: frozenset[int]
    ) -> Expression:
        for instruction in instructions:
            self._execute(block, instruction, values)
        targets = self._regions.edges.get(block.start, [])
        if not targets:
            return ONE  # the program ends here
        if len(targets) == 1:
            return self._reach(targets[0], values, path)
        kinds = {edge.kind: edge.target for edge in block.edges}
        answers = {target: self._reach(target, values.copy(), path) for target in set(targets)}
        if len(answers) == 1:
            return next(iter(answers.values()))
        if set(kinds) == {TAKEN, FALL} and len(block.edges) == 2:
            test = condition(block.instructions[-1].mnemonic, values.flags)
            taken, falls = answers[kinds[TAKEN]], answers[kinds[FALL]]
            if taken == falls:
                return taken
            if test is not None:
                return either(both(test, taken), both(negated(test), falls))
        result = ONE
        for answer in answers.values():
            result = both(result, answer)
        return result

    def _lose(self, values: _Values, block: Block, at: int) -> None:
        for access in self._regions.accesses[block.start]:
            touches = FRAME in access.objects or ANYTHING in access.objects
            if access.at == at and access.kind in (WRITE, LEAVES) and touches:
                values.lose(access.low, access.high)

    def _execute(self, block: Block, instruction: Instruction, values: _Values) -> None:
        name, operands = instruction.mnemonic, instruction.operands
        registers = values.registers
        if name == "call" and instruction.address in self._regions.expanded:
            registers[RSP] = operation("sub", registers[RSP], number(8))
            _lose_place(values, registers[RSP], 8)
            return
        if name == "ret":
            registers[RSP] = operation("add", registers[RSP], number(8))
            return
        if name == "leave":
            registers[RSP] = operation("add", registers[RBP], number(8))
            registers[RBP] = self._load(values, registers[RBP], 8)
            return
        if name == "call":
            _lose_place(values, registers[RSP], LOWEST)
            self._lose(values, block, instruction.address)
            registers.update(dict.fromkeys(CALLER_SAVED))
            callee = self._regions.structure.flow.calls.get(instruction.address)
            if callee is not None and callee.address is None and is_cuda(callee.name):
                registers[RAX] = None
            values.flags = None
            return
        result: Expression | None = None
        if name in ("mov", "movabs", "movzx", "movsx", "movsxd", "lea", "pop"):
            target = operands[0]
            if name == "pop":
                result = self._load(values, registers[RSP], 8)
                registers[RSP] = operation("add", registers[RSP], number(8))
            elif name == "lea" and isinstance(operands[1], Memory):
                result = self._place(values, operands[1])
            else:
                result = self._get(values, operands[1])
                if name in ("movsx", "movsxd"):
                    result = extended(result, operands[1].size, True)
            self._put(values, block, instruction, target, result)
            return
        if name == "push":
            result = self._get(values, operands[0])
            registers[RSP] = operation("sub", registers[RSP], number(8))
            self._lose(values, block, instruction.address)
            where = registers[RSP]
            if where is not None and where[0] == "frame":
                values.cells[where[1], 8] = result
            return
        if name in ("add", "sub", "and", "or", "xor", "inc", "dec", "cmp", "test") and operands[0].size in (1, 2, 4, 8):
            self._arithmetic(block, instruction, values)
            return
        if name in ("shl", "sal", "shr", "sar", "imul") and self._scaled(block, instruction, values):
            return
        if name == "cdqe":
            registers[RAX] = extended(registers[RAX], 4, True)
            return
        self._lose(values, block, instruction.address)
        _lose_registers(values, instruction)
        if not name.startswith(_KEEPS_FLAGS) and not name.startswith("j"):
            values.flags = None

    def _arithmetic(self, block: Block, instruction: Instruction, values: _Values) -> None:
        name, operands = instruction.mnemonic, instruction.operands
        size = operands[0].size
        first = self._get(values, operands[0])
        second = self._get(values, operands[1]) if len(operands) > 1 else ONE
        if len(operands) > 1 and isinstance(operands[1], Immediate):
            second = extended(number(operands[1].value), size)
        stem = {"inc": "add", "dec": "sub", "cmp": "sub", "test": "and"}.get(name, name)
        if stem in ("xor", "sub") and len(operands) > 1 and operands[0] == operands[1]:
            result: Expression | None = ZERO
        elif stem == "and" and first == second:
            result = first
        else:
            result = operation(stem, first, second)
        result = extended(result, size)
        if stem == "sub" and name != "dec":
            values.flags = ("compare", size, extended(first, size), extended(second, size))
        else:
            values.flags = ("logic" if stem in ("and", "or", "xor") else "result", size, result, ZERO)
        if name not in ("cmp", "test"):
            flags = values.flags
            self._put(values, block, instruction, operands[0], result)
            values.flags = flags
        else:
            self._lose(values, block, instruction.address)

    def _scaled(self, block: Block, instruction: Instruction, values: _Values) -> bool:
        name, operands = instruction.mnemonic, instruction.operands
        size = operands[0].size
        if size not in (4, 8) or len(operands) < 2:
            return False
        if name == "imul":
            first = self._get(values, operands[-2])
            second = self._get(values, operands[-1])
            if isinstance(operands[-1], Immediate):
                second = number(operands[-1].value)
            result = extended(operation("mul", first, second), size)
        else:
            if not isinstance(operands[1], Immediate):
                return False
            first = extended(self._get(values, operands[0]), size, name == "sar")
            count = number(operands[1].value & (63 if size == 8 else 31))
            result = extended(operation("shl" if name == "sal" else name, first, count), size)
        self._put(values, block, instruction, operands[0], result)
        values.flags = None
        return True

    def _get(self, values: _Values, operand: Operand) -> Expression | None:
        """An operand, zero-extended."""
        if isinstance(operand, Immediate):
            return extended(number(operand.value), operand.size)
        if isinstance(operand, Register):
            if not 0 <= operand.number < XMM0 or operand.offset:
                return None
            return extended(values.registers[operand.number], operand.size)
        return self._load(values, _address(values, operand), operand.size)

    def _place(self, values: _Values, memory: Memory) -> Expression | None:
        """An address that an instruction computes; one in the file is a number only where the file cannot be moved."""
        if memory.base == NONE and memory.indexed == NONE and not memory.thread:
            return placed(self._state.image, memory.displacement & MASK)
        return _address(values, memory)

    def _load(self, values: _Values, address: Expression | None, size: int) -> Expression | None:
        if address is None or address[0] != "frame" or size not in (1, 2, 4, 8) or not self._private:
            return None
        offset = address[1]
        if (offset, size) in values.cells:
            return values.cells[offset, size]
        overlapping = any(low < offset + size and offset < high for low, high in values.lost)
        if overlapping or any(o < offset + size and offset < o + s for o, s in values.cells):
            return None
        held = self._state.cells.get(offset)
        if size == 8 and held is not None and held[0] == 8 and held[1].kind == EXACT:
            return ("frame", held[1].number)  # a saved frame pointer
        return ("cell", offset, size)

    def _put(
        self, values: _Values, block: Block, instruction: Instruction, target: Operand, value: Expression | None
    ) -> None:
        self._lose(values, block, instruction.address)
        if isinstance(target, Register):
            if not 0 <= target.number < XMM0:
                return
            if target.size < 4 or target.offset:
                value = None
            values.registers[target.number] = extended(value, target.size)
        elif isinstance(target, Memory):
            address = _address(values, target)
            if address is not None and address[0] == "frame":
                values.lose(address[1], address[1] + target.size)
                values.cells[address[1], target.size] = extended(value, target.size)


def _address(values: _Values, memory: Memory) -> Expression | None:
    if memory.thread or memory.base >= XMM0 or memory.indexed >= XMM0:
        return None
    total: Expression | None = number(memory.displacement)
    if memory.base != NONE:
        total = operation("add", values.registers[memory.base], total)
    if memory.indexed != NONE:
        scaled = values.registers[memory.indexed]
        if memory.scale != 1:
            scaled = operation("mul", scaled, number(memory.scale))
        total = operation("add", total, scaled)
    return total


def _lose_place(values: _Values, address: Expression | None, size: int) -> None:
    """What is at an address, `size` bytes or, from LOWEST, all below it, is changed; anything where the address is not known."""
    if address is None or address[0] != "frame":
        values.lose(LOWEST, HIGHEST)
    elif size == LOWEST:
        values.lose(LOWEST, address[1])
    else:
        values.lose(address[1], address[1] + size)


def _lose_registers(values: _Values, instruction: Instruction) -> None:
    """Whatever an instruction may write, known or not."""
    name = instruction.mnemonic
    lost = [*instruction.writes]
    written = instruction.operands if name in ("xchg", "xadd", "cmpxchg") else instruction.operands[:1]
    lost += [operand.number for operand in written if isinstance(operand, Register)]
    if name == "call":
        lost += CALLER_SAVED
    if name in ("push", "pop", "leave", "enter"):
        lost += [RSP, RBP] if name in ("leave", "enter") else [RSP]
    if name in ("cdq", "cqo", "mul", "div", "idiv", "imul", "cwde", "cdqe", "cpuid", "rdtsc", "cmpxchg"):
        lost += [RAX, RCX, RDX]
    if name.startswith("rep") or name[:4] in ("movs", "stos", "lods", "scas", "cmps"):
        lost += [RAX, RCX, RSI, RDI]
    for number_ in lost:
        if 0 <= number_ < XMM0:
            values.registers[number_] = None


def condition(mnemonic: str, flags: tuple[str, int, Expression | None, Expression | None] | None) -> Expression | None:
    """The condition of a branch as a 0-or-1 expression; None when it is not known exactly."""
    if flags is None:
        return None
    kind, size, first, second = flags
    table = {"compare": _RELATIONS, "logic": _OF_LOGIC, "result": _OF_RESULT}[kind]
    if mnemonic not in table or first is None or second is None:
        return None
    relation, negate = table[mnemonic]
    if relation in ("slt", "sle"):
        first, second = extended(first, size, True), extended(second, size, True)
    else:
        first, second = extended(first, size), extended(second, size)
    result = operation(relation, first, second)
    if result is None:
        return None
    return negated(result) if negate else result
