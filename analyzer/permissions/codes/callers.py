"""Who calls a function: needed where something may be returned in a register that the function did not mean to return.

A function's callers are known when its address stands nowhere but in direct calls and jumps of functions that were
decoded.
"""

from __future__ import annotations

from farlane.analyzer.loader.elf import STUB_SECTIONS
from farlane.analyzer.loader.image import Function, Segment
from farlane.analyzer.machine.instruction import NONE, Immediate, Instruction, Memory
from farlane.analyzer.permissions.abstract.walk import Walker

_CHUNK = 256
_ABSOLUTE = 0x10000  # the least address in a file that is not position-independent


class Callers:
    """Answers for one program."""

    def __init__(self, walker: Walker) -> None:
        self._walker, self._program, self._image = walker, walker.program, walker.image
        self._known: dict[int, bool] = {}

    def of(self, start: int) -> list[tuple[int, int, bool]]:
        """(function, instruction, whether it is a call) of all direct calls and jumps; raises Refused."""
        found = []
        for caller in self._program.functions():
            if any(callee.address == start for callee in self._program.callees[caller]):
                flow = self._walker.structure(caller).flow
                for block in flow.blocks.values():
                    for instruction in block.instructions:
                        callee = flow.calls.get(instruction.address)
                        if callee is not None and callee.address == start:
                            found.append((caller, instruction.address, instruction.mnemonic == "call"))
        return found

    def known(self, start: int) -> bool:
        """Whether `of` lists all that may call a function."""
        if start not in self._known:
            self._known[start] = self._all_direct(start)
        return self._known[start]

    def _all_direct(self, start: int) -> bool:
        image = self._image
        if start == image.entry or any(start in each.values() for each in (image.pointers, image.choosers)):
            return False
        direct = {address for _, address, _ in self.of(start)}
        address = start.to_bytes(8, "little")
        for segment in image.segments:
            if segment.name == ".dynsym":
                if address in [segment.data[at + 8 : at + 16] for at in range(0, len(segment.data) - 23, 24)]:
                    return False
            elif segment.code:
                if not all(self._harmless(place, start, direct) for place in self._mentions(segment, start)):
                    return False
            elif start >= _ABSOLUTE and address in segment.data:
                return False
        return True

    def _mentions(self, segment: Segment, start: int) -> set[int]:
        """Places in code whose four bytes would mean the address, as a displacement or as they are."""
        found: set[int] = set()
        data, end = segment.data, len(segment.data) - 4
        # A displacement counts from the next instruction; an immediate of up to 4 bytes may stand between. Within a
        # chunk of the code, displacements that mean the address have the same upper bytes, or one of few: these are
        # looked for.
        for low in range(0, end + 1, _CHUNK):
            high = min(low + _CHUNK, end + 1)
            nearest, farthest = start - segment.start - high - 7, start - segment.start - low - 4
            for upper in range(nearest >> 8, (farthest >> 8) + 1):
                pattern = (upper & 0xFFFFFF).to_bytes(3, "little")
                at = data.find(pattern, low + 1, high + 3)
                while at >= 0:
                    place = at - 1
                    distance = int.from_bytes(data[place : place + 4], "little", signed=True)
                    if start - segment.start - place - 4 - distance in (0, 1, 2, 4):
                        found.add(segment.start + place)
                    at = data.find(pattern, at + 1, high + 3)
        if _ABSOLUTE <= start < 2**31:
            pattern = start.to_bytes(4, "little")
            at = data.find(pattern)
            while at >= 0:
                found.add(segment.start + at)
                at = data.find(pattern, at + 1)
        return found

    def _harmless(self, place: int, start: int, direct: set[int]) -> bool:
        """Whether such a place is a direct call, padding, or part of an instruction that means something else."""
        around: Function | Segment | None = self._image.function_at(place)
        if around is None:
            if start - 16 <= place < start:
                return True
            around = self._image.segment(place)
            if around is None or around.name not in STUB_SECTIONS:
                return False
        code = self._image.read(around.start, around.end - around.start) or b""
        for instruction in self._program.decoder.decode(code, around.start):
            if instruction.address <= place < instruction.end:
                return instruction.address in direct or not _means(instruction, start)
        return False


def _means(instruction: Instruction, start: int) -> bool:
    for operand in instruction.operands:
        if isinstance(operand, Immediate) and operand.value & 0xFFFFFFFF == start & 0xFFFFFFFF:
            return True
        if isinstance(operand, Memory) and operand.base == NONE and operand.displacement == start:
            return True
    return False
