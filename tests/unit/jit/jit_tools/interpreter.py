"""The reference implementation of PTX execution: one thread after the other, one instruction after the other, on Python integers.

Slow and obvious on purpose. It shares the parser with the translator and nothing else: no control-flow graph, no values per warp, no analysis. What the
translator makes of a kernel must agree with it bit for bit (test_reference.py). It has the instructions that random_kernels.py generates, and refuses others.

A thread runs until it ends, or meets others: at a block's barrier, or at an instruction of its warp. It goes on when all of them are there.

Source: PTX ISA, "Instruction Set".
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from farlane.backend.jit import parse_module
from farlane.backend.jit.ptx.model import Address, Immediate, Instruction, Negated, Register, Special, Symbol, Vector
from farlane.backend.jit.ptx.parser import body_of

from jit_tools import reference
from jit_tools.reference import signed

BYTES = {"8": 1, "16": 2, "32": 4, "64": 8}
COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge,
    "lo": operator.lt, "ls": operator.le, "hi": operator.gt, "hs": operator.ge,
}  # fmt: skip
Triple = tuple[int, int, int]
LOCAL = 258 << 32  # where generic addresses of local memory begin


class Refused(Exception):
    """An instruction that the interpreter does not have, or threads that wait for ever."""


def width_of(kind: str) -> int:
    """Bytes of a type such as "u32"."""
    return 1 if kind == "pred" else BYTES[kind.lstrip("usbf")]


@dataclass
class Memory:
    """Device memory: a copy of some ranges of addresses."""

    ranges: dict[int, bytearray]

    def place(self, address: int, size: int) -> tuple[bytearray, int]:
        for start, data in self.ranges.items():
            if start <= address and address + size <= start + len(data):
                return data, address - start
        raise Refused(f"an access to {address:#x}")


@dataclass
class Meeting:
    """What a waiting thread waits for: the block's barrier, or the warp's other threads at an instruction, with its operands."""

    instruction: Instruction
    values: list[int] = field(default_factory=list)


class Thread:
    """One thread: its registers, and a generator that runs it."""

    def __init__(self, block: Block, index: int) -> None:
        x, y, _ = block.shape
        self.block, self.index = block, index
        self.place = (index % x, index // x % y, index // (x * y))
        self.registers: dict[str, int] = {}
        self.local = bytearray(block.local_size)
        self.steps = self._run()
        self.meeting: Meeting | None = None
        self.done = False

    def resume(self, *results: int) -> None:
        """Runs on to the next meeting or the end. `results` are those of the last meeting."""
        try:
            self.meeting = self.steps.send(results if self.meeting is not None else None)
        except StopIteration:
            self.meeting, self.done = None, True

    def _run(self) -> Generator[Meeting, Any, None]:
        body = self.block.body
        at = 0
        while at < len(body.instructions):
            i = body.instructions[at]
            at += 1
            if i.guard is not None and bool(self.registers[i.guard[0].name]) == i.guard[1]:
                continue
            if i.base == "bra":
                at = body.labels[i.labels[0]]
            elif i.base in ("ret", "exit"):
                return
            elif i.base in ("bar", "shfl", "vote"):
                results = yield Meeting(i, [self.read(source, self._kind(i)) for source in i.sources])
                for register, result in zip(i.destinations, results, strict=False):
                    self.write(register, result)
            elif i.base in ("ld", "st", "red", "atom"):
                self._access(i)
            else:
                self.write(i.destinations[0], compute(self, i))

    @staticmethod
    def _kind(i: Instruction) -> str:
        return "pred" if i.base == "vote" else "b32"

    # Operands ----------------------------------------------------------------------------------------------------
    def read(self, operand: Any, kind: str) -> int:
        """An operand's bits, as many as the type has."""
        mask = (1 << 8 * width_of(kind)) - 1
        if isinstance(operand, Register):
            return self.registers.get(operand.name, 0) & mask
        if isinstance(operand, Immediate):
            return operand.value & mask
        if isinstance(operand, Negated):
            return int(not self.read(operand.operand, kind))
        if isinstance(operand, Special):
            return self._special(operand.name) & mask
        if isinstance(operand, Symbol) and operand.name in self.block.local_offsets:
            return (self.block.local_offsets[operand.name] + operand.offset) & mask
        if isinstance(operand, Symbol):
            return (self.block.shared_offsets[operand.name] + operand.offset) & mask
        raise Refused(f"operand {operand}")

    def _special(self, name: str) -> int:
        base, _, axis = name.partition(".")
        number = "xyz".find(axis)
        if base == "laneid":
            return self.index % 32
        triples = {"tid": self.place, "ntid": self.block.shape, "ctaid": self.block.place, "nctaid": self.block.grid}
        if base not in triples or not axis:
            raise Refused(f"special register {name}")
        return triples[base][number]

    def write(self, register: Any, value: int) -> None:
        if isinstance(register, Register):
            self.registers[register.name] = value & ((1 << 8 * width_of(register.type)) - 1)

    # Memory ------------------------------------------------------------------------------------------------------
    def _access(self, i: Instruction) -> None:
        kind = i.modifiers[-1]
        size = width_of(kind)
        count = next((int(item[1]) for item in i.modifiers if item in ("v2", "v4")), 1)
        if i.base == "ld" and "param" in i.modifiers:
            start = self.block.parameter_offsets[i.sources[0].base.name] + i.sources[0].offset
            self.write(i.destinations[0], int.from_bytes(self.block.parameters[start : start + size], "little"))
            return
        data, at = self._place(i, size * count)
        if i.base == "ld":
            for number, register in enumerate(i.destinations):
                piece = int.from_bytes(data[at + size * number : at + size * (number + 1)], "little")
                self.write(register, signed(piece, 8 * size) if kind[0] == "s" else piece)
        elif i.base == "st":
            items = i.sources[1].items if isinstance(i.sources[1], Vector) else (i.sources[1],)
            for number, item in enumerate(items):
                data[at + size * number : at + size * (number + 1)] = self.read(item, kind).to_bytes(size, "little")
        else:
            old = int.from_bytes(data[at : at + size], "little")
            operands = [self.read(source, kind) for source in i.sources[1:]]
            new = update(i.modifiers[-2], kind, old, operands)
            data[at : at + size] = (new & ((1 << 8 * size) - 1)).to_bytes(size, "little")
            for register in i.destinations:
                self.write(register, old)

    def _place(self, i: Instruction, size: int) -> tuple[bytearray, int]:
        operand: Address = i.sources[0]
        address = self.read(operand.base, "b64") + operand.offset
        if address % size:
            raise Refused(f"{i.text} at {address:#x} is misaligned")
        if "global" in i.modifiers:
            return self.block.memory.place(address & ((1 << 64) - 1), size)
        if "local" in i.modifiers or (LOCAL <= address < LOCAL + len(self.local) and "shared" not in i.modifiers):
            return self.local, address & (LOCAL - 1) & 0xFFFF_FFFF
        if "shared" in i.modifiers and 0 <= address <= len(self.block.shared) - size:
            return self.block.shared, address
        raise Refused(f"{i.text} at {address:#x}")


def update(operation: str, kind: str, old: int, operands: list[int]) -> int:
    """What an atomic operation leaves."""
    bits = 8 * width_of(kind)
    value = operands[0]
    x, y = (signed(old, bits), signed(value, bits)) if kind[0] == "s" else (old, value)
    if operation == "cas":
        return operands[1] if old == value else old
    return {
        "add": x + y, "min": min(x, y), "max": max(x, y), "and": x & y, "or": x | y, "xor": x ^ y, "exch": y,
    }[operation]  # fmt: skip


def compute(thread: Thread, i: Instruction) -> int:
    """The result of an instruction that touches no memory and no other thread."""
    kind = i.modifiers[-1]
    base, modifiers = i.base, i.modifiers
    if base == "selp":
        return thread.read(i.sources[0 if thread.read(i.sources[2], "pred") else 1], kind)
    if base == "cvt":
        return convert(thread.read(i.sources[0], kind), modifiers)
    if kind == "f32":
        operands = [thread.read(source, kind) for source in i.sources]
        return {"add": reference.add, "mul": reference.mul, "fma": reference.fma}[base](*operands, "f32")
    bits = 8 * width_of(kind)
    shifted = base in ("shl", "shr")
    raw = [thread.read(source, "b32" if shifted and n == 1 else kind) for n, source in enumerate(i.sources)]
    values = [signed(value, bits) for value in raw] if kind[0] == "s" else raw
    if base == "setp":
        return int(COMPARISONS[modifiers[0]](values[0], values[1]))
    if base in ("mul", "mad"):
        product = values[0] * values[1]
        if "wide" in modifiers:
            return product + (thread.read(i.sources[2], f"{kind[0]}64") if base == "mad" else 0)
        product = product >> bits if "hi" in modifiers else product
        return product + (values[2] if base == "mad" else 0)
    if shifted:
        amount = min(raw[1], bits)
        return values[0] << amount if base == "shl" else values[0] >> amount
    plain: dict[str, Callable[[], int]] = {
        "mov": lambda: values[0],
        "cvta": lambda: values[0] & 0xFFFF_FFFF if "to" in modifiers else values[0] | LOCAL,
        "add": lambda: values[0] + values[1],
        "sub": lambda: values[0] - values[1],
        "min": lambda: min(values[0], values[1]),
        "max": lambda: max(values[0], values[1]),
        "rem": lambda: values[0] % values[1],
        "and": lambda: values[0] & values[1],
        "or": lambda: values[0] | values[1],
        "xor": lambda: values[0] ^ values[1],
        "not": lambda: ~values[0],
        "neg": lambda: -values[0],
        "abs": lambda: abs(values[0]),
        "popc": lambda: raw[0].bit_count(),
        "clz": lambda: bits - raw[0].bit_length(),
        "brev": lambda: int(f"{raw[0]:0{bits}b}"[::-1], 2),
    }
    if base not in plain:
        raise Refused(f"{i.text}, line {i.line}")
    return plain[base]()


def convert(value: int, modifiers: tuple[str, ...]) -> int:
    """cvt between integers, from s32 to f32 (rn) and from f32 to s32 (rzi)."""
    target, source = modifiers[-2:]
    if target == "f32":
        return reference.rounded(Fraction(signed(value, 32)), "f32")
    if source == "f32":
        kind = reference.kind_of(value, "f32")
        if kind == "nan":
            return 0
        if kind == "inf":
            return -(1 << 31) if reference.is_negative(value, "f32") else (1 << 31) - 1
        return max(-(1 << 31), min((1 << 31) - 1, int(reference.value_of(value, "f32"))))
    bits = 8 * width_of(source)
    return signed(value, bits) if source[0] == "s" else value


class Block:
    """One block: its shared memory, and its threads in turn."""

    def __init__(self, machine: Machine, place: Triple) -> None:
        self.body, self.memory = machine.body, machine.memory
        self.grid, self.shape, self.place = machine.grid, machine.block, place
        self.parameters, self.parameter_offsets = machine.parameters, machine.parameter_offsets
        self.shared_offsets: dict[str, int] = {}
        size = 0
        for item in self.body.storage.values():
            if item.space == "shared":
                size = -(-size // item.align) * item.align
                self.shared_offsets[item.name] = size
                size += item.size
        self.shared = bytearray(size)
        self.local_offsets: dict[str, int] = {}
        self.local_size = 0
        for item in self.body.storage.values():
            if item.space == "local":
                self.local_size = -(-self.local_size // item.align) * item.align
                self.local_offsets[item.name] = self.local_size
                self.local_size += item.size
        x, y, z = self.shape
        self.threads = [Thread(self, index) for index in range(x * y * z)]

    def run(self) -> None:
        for thread in self.threads:
            thread.resume()
        while live := [thread for thread in self.threads if not thread.done]:
            if self._meet_in_warps():
                continue
            at_barrier = [thread for thread in live if thread.meeting and thread.meeting.instruction.base == "bar"]
            if len(at_barrier) < len(live):
                raise Refused("threads wait for others that do not come")
            for thread in at_barrier:
                thread.resume()

    def _meet_in_warps(self) -> bool:
        """Lets warps whose threads are all at the same warp-wide instruction go on."""
        found = False
        for first in range(0, len(self.threads), 32):
            warp = self.threads[first : first + 32]
            meetings = [thread.meeting for thread in warp]
            head = meetings[0]
            if head is None or (head.instruction.base == "bar" and "warp" not in head.instruction.modifiers):
                continue
            if any(meeting is None or meeting.instruction is not head.instruction for meeting in meetings):
                continue
            results = together(head.instruction, [meeting.values for meeting in meetings if meeting is not None])
            for thread, result in zip(warp, results, strict=True):
                thread.resume(*result)
            found = True
        return found


def together(i: Instruction, values: list[list[int]]) -> list[tuple[int, ...]]:
    """The results of a warp-wide instruction for each lane; all lanes of the warp take part."""
    count = len(values)
    if i.base == "bar":
        return [()] * count
    if i.base == "vote":
        truths = [bool(lane[0]) for lane in values]
        result = {
            "all": int(all(truths)),
            "any": int(any(truths)),
            "uni": int(all(truths) or not any(truths)),
            "ballot": sum(truth << lane for lane, truth in enumerate(truths)),
        }[i.modifiers[1]]
        return [(result,)] * count
    results = []
    for lane, (value, amount, limits, *_) in enumerate(values):
        amount &= 31
        segment, clamp = limits >> 8 & 31, limits & 31
        most = lane & segment | clamp & ~segment
        least = lane & segment
        source = {
            "up": lane - amount, "down": lane + amount, "bfly": lane ^ amount, "idx": least | amount & ~segment,
        }[i.modifiers[1]]  # fmt: skip
        inside = source >= most if i.modifiers[1] == "up" else source <= most
        results.append((values[source][0] if inside else value, int(inside)))
    return results


class Machine:
    """A launch.

    Args:
        text: the module.
        kernel: its entry.
        parameters: the parameter buffer.
        memory: what the kernel may access; changed.
    """

    def __init__(self, text: str, kernel: str, grid: Triple, block: Triple, parameters: bytes, memory: Memory) -> None:
        module = parse_module(text)  # of its own: the translator rewrites what it has parsed
        self.body = body_of(module, module.functions[kernel])
        self.parameter_offsets = {item.name: item.offset for item in module.entries[kernel].parameters}
        self.grid, self.block, self.parameters, self.memory = grid, block, parameters, memory

    def run(self) -> None:
        x, y, z = self.grid
        for number in range(x * y * z):
            Block(self, (number % x, number // x % y, number // (x * y))).run()
