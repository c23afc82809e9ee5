"""Memory that a loop is given: members of an object, or of a structure, whose address came from elsewhere and stays.

What stands there is taken when the slice begins, so no other code may change it while the loop runs. The loop's own
code does not: no access of the loop writes to anything but the function's own objects, of which no address is known
elsewhere, and the variables of kernels' stubs, which only the compiler knows. No other code does in a program without
threads, signal handlers and shared memory, which `extract` asks.

An address is a *root*: a register that the loop never writes, or a cell of the frame that it never writes. Several may
be the address of the same memory; as it does not change, each may have it.
"""

from __future__ import annotations

from functools import cached_property

from farlane.analyzer.externals import interface
from farlane.analyzer.graph.program import Program
from farlane.analyzer.graph.structure import Loop
from farlane.analyzer.machine.effects import writes
from farlane.analyzer.machine.instruction import CALLEE_SAVED
from farlane.analyzer.permissions.abstract.domain import FRAME, IN_GLOBAL, Heap
from farlane.analyzer.permissions.abstract.facts import Regions
from farlane.analyzer.permissions.abstract.memory import FREE, LEAVES, WRITE, Access
from farlane.analyzer.slices.form import Origin
from farlane.analyzer.slices.raw import FIRST_GIVEN, HEAPS
from farlane.limits.generated import SLICE_FRAME_BYTES

LONGEST = 4096  # bytes behind an address
_GUARDS = frozenset({"__cxa_guard_acquire", "__cxa_guard_release", "__cxa_guard_abort", "_Unwind_Resume"})
_IN_STUBS = _GUARDS | {interface.POP, interface.GET_KERNEL, *interface.LAUNCHES, "__stack_chk_fail"}


class Given:
    """What one loop is given.

    Attributes:
        addresses: the number of each root -> where it stands at the entry, for `raw.Graph.addresses`.
    """

    def __init__(self, program: Program, regions: Regions, loop: Loop, stack: int) -> None:
        self._program, self._regions, self._stack = program, regions, stack
        self._blocks = [each for each in loop.blocks if each in regions.before]
        self._numbers: dict[tuple[Origin, int], int] = {}
        self.addresses: dict[int, tuple[Origin, int]] = {}

    def place(self, source: tuple[Origin, int] | None, behind: int, size: int) -> int | None:
        """Where bytes behind an address stand in a slice's memory; None: they are not given.

        Args:
            source: what the address comes from in its block: a register, or a place of the frame.
        """
        if source is None or not 0 <= behind <= LONGEST - size or not self._constant or not self._stays(source):
            return None
        origin, where = source
        if source not in self._numbers:
            number = FIRST_GIVEN + len(self._numbers)
            self._numbers[source] = number
            self.addresses[number] = (origin, where - self._stack if origin == Origin.FRAME else where)
        return HEAPS + (self._numbers[source] << 16) + behind

    def _stays(self, source: tuple[Origin, int]) -> bool:
        """Whether the loop never writes a root."""
        origin, where = source
        if origin == Origin.REGISTER:
            return where in CALLEE_SAVED and where not in self._written
        inside = 0 <= where - self._stack <= SLICE_FRAME_BYTES - 8
        return inside and not any(
            FRAME in each.objects and each.low < where + 8 and where < each.high for each in self._writes
        )

    @cached_property
    def _written(self) -> frozenset[int]:
        blocks = self._regions.structure.flow.blocks
        return frozenset(
            number for block in self._blocks for each in blocks[block].instructions for number in writes(each)
        )

    @cached_property
    def _writes(self) -> list[Access]:
        all_ = (each for block in self._blocks for each in self._regions.accesses[block])
        return [each for each in all_ if each.kind in (WRITE, FREE, LEAVES)]

    @cached_property
    def _constant(self) -> bool:
        """Whether the loop writes to the function's own objects alone."""
        escaped = any(self._regions.escaped[block] | self._regions.before[block].escaped for block in self._blocks)
        return not escaped and all(self._own(access) for access in self._writes)

    def _own(self, access: Access) -> bool:
        if all(isinstance(each, Heap) or each == FRAME for each in access.objects):
            return True
        function = self._program.image.function_at(access.source)
        return (
            access.kind == WRITE and access.objects == IN_GLOBAL and function is not None and self._stub(function.start)
        )

    def _stub(self, start: int) -> bool:
        """Whether a function is the compiler's, for a launch, and nothing else."""
        program, seen = self._program, set[int]()
        work, called = [program.owner.get(start, start)], set[str]()
        direct = {interface.plain(callee.name) for callee in program.callees.get(work[0], ())}
        while work:
            each = work.pop()
            if each not in seen:
                seen.add(each)
                for callee in program.callees.get(each, ()):
                    if callee.address is None:
                        called.add(interface.plain(callee.name))
                    else:
                        work.append(program.owner.get(callee.address, callee.address))
        return interface.POP in direct and called <= _IN_STUBS
