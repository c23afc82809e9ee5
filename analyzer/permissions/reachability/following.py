"""Follows code forwards from a call site, instruction by instruction, with expressions over what registers and frame
cells hold there."""

from __future__ import annotations

from dataclasses import dataclass, field

from farlane.analyzer.externals.names import is_cuda
from farlane.analyzer.graph.control_flow import Block
from farlane.analyzer.machine.arithmetic import AFTER_COMPARISON, AFTER_LOGIC, AFTER_RESULT, MASK, NEGATED
from farlane.analyzer.machine.effects import Flags, flags, writes
from farlane.analyzer.machine.instruction import (
    CALLER_SAVED,
    NONE,
    RAX,
    RBP,
    RSP,
    XMM0,
    Immediate,
    Instruction,
    Memory,
    Operand,
    Register,
)
from farlane.analyzer.permissions.abstract.domain import ANYTHING, EXACT, FRAME
from farlane.analyzer.permissions.abstract.facts import Regions
from farlane.analyzer.permissions.abstract.memory import HIGHEST, LEAVES, LOWEST, WRITE, State
from farlane.analyzer.permissions.reachability.expressions import (
    ONE,
    ZERO,
    Expression,
    extended,
    negated,
    number,
    operation,
    placed,
)


@dataclass
class Known:
    """What registers and cells hold, as expressions over the site's."""

    registers: dict[int, Expression | None]
    cells: dict[tuple[int, int], Expression | None] = field(default_factory=dict)
    lost: list[tuple[int, int]] = field(default_factory=list)  # parts of the frame that are not as at the site
    flags: tuple[str, int, Expression | None, Expression | None] | None = None

    def copy(self) -> Known:
        return Known(dict(self.registers), dict(self.cells), list(self.lost), self.flags)

    def lose(self, low: int, high: int) -> None:
        self.lost.append((low, high))
        for offset, size in [key for key in self.cells if key[0] < high and low < key[0] + key[1]]:
            del self.cells[offset, size]


class Following:
    """Executes instructions of a function on expressions.

    Args:
        regions: of the function.
        state: at the site.
    """

    def __init__(self, regions: Regions, state: State) -> None:
        self._regions, self._state = regions, state
        self._private = FRAME not in state.escaped and ANYTHING not in state.escaped

    def lose(self, values: Known, block: Block, at: int) -> None:
        for access in self._regions.accesses[block.start]:
            touches = FRAME in access.objects or ANYTHING in access.objects
            if access.at == at and access.kind in (WRITE, LEAVES) and touches:
                values.lose(access.low, access.high)

    def execute(self, block: Block, instruction: Instruction, values: Known) -> None:
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
            self.lose(values, block, instruction.address)
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
            self.lose(values, block, instruction.address)
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
        self.lose(values, block, instruction.address)
        lose_registers(values, instruction)
        if flags(name) not in (Flags.KEEPS, Flags.READS):
            values.flags = None

    def _arithmetic(self, block: Block, instruction: Instruction, values: Known) -> None:
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
            self.lose(values, block, instruction.address)

    def _scaled(self, block: Block, instruction: Instruction, values: Known) -> bool:
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

    def _get(self, values: Known, operand: Operand) -> Expression | None:
        """An operand, zero-extended."""
        if isinstance(operand, Immediate):
            return extended(number(operand.value), operand.size)
        if isinstance(operand, Register):
            if not 0 <= operand.number < XMM0 or operand.offset:
                return None
            return extended(values.registers[operand.number], operand.size)
        return self._load(values, _address(values, operand), operand.size)

    def _place(self, values: Known, memory: Memory) -> Expression | None:
        """An address that an instruction computes; one in the file is a number only where the file cannot be moved."""
        if memory.base == NONE and memory.indexed == NONE and not memory.thread:
            return placed(self._state.image, memory.displacement & MASK)
        return _address(values, memory)

    def _load(self, values: Known, address: Expression | None, size: int) -> Expression | None:
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
        self, values: Known, block: Block, instruction: Instruction, target: Operand, value: Expression | None
    ) -> None:
        self.lose(values, block, instruction.address)
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


def _address(values: Known, memory: Memory) -> Expression | None:
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


def _lose_place(values: Known, address: Expression | None, size: int) -> None:
    """What is at an address, `size` bytes or, from LOWEST, all below it, is changed; anything where the address is not
    known."""
    if address is None or address[0] != "frame":
        values.lose(LOWEST, HIGHEST)
    elif size == LOWEST:
        values.lose(LOWEST, address[1])
    else:
        values.lose(address[1], address[1] + size)


def lose_registers(values: Known, instruction: Instruction) -> None:
    """Whatever an instruction may write, known or not."""
    for register in writes(instruction):
        if 0 <= register < XMM0:
            values.registers[register] = None


def condition(mnemonic: str, flags: tuple[str, int, Expression | None, Expression | None] | None) -> Expression | None:
    """The condition of a branch as a 0-or-1 expression; None when it is not known exactly."""
    if flags is None:
        return None
    kind, size, first, second = flags
    table = {"compare": AFTER_COMPARISON, "logic": AFTER_LOGIC, "result": AFTER_RESULT}[kind]
    if mnemonic not in table or first is None or second is None:
        return None
    asked, as_signed = table[mnemonic]
    negate = asked in ("!=", ">=", ">")
    relation = {"==": "eq", "<": "slt" if as_signed else "ult", "<=": "sle" if as_signed else "ule"}[
        NEGATED[asked] if negate else asked
    ]
    first, second = (extended(each, size, relation in ("slt", "sle")) for each in (first, second))
    result = operation(relation, first, second)
    if result is None:
        return None
    return negated(result) if negate else result
