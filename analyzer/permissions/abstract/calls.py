"""What calls of imported functions do to a state: CUDA's by roles, the C and C++ libraries' by a table, all others
anything."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from farlane.analyzer.externals import interface, library
from farlane.analyzer.externals.forms import (
    DEVICE_TO_DEVICE,
    DEVICE_TO_HOST,
    HOST_TO_DEVICE,
    HOST_TO_HOST,
    Copy,
    Launch,
    StructuredCopy,
)
from farlane.analyzer.graph.kernels import Passed
from farlane.analyzer.machine.instruction import ARGUMENTS, CALLER_SAVED, RAX, REGISTERS, RSP, XMM0
from farlane.analyzer.permissions.abstract.arguments import host_memory, passed, structured_host
from farlane.analyzer.permissions.abstract.domain import (
    ANY,
    CONSTANT,
    EXACT,
    FRAME,
    IN_ANYTHING,
    IN_FRAME,
    IN_GLOBAL,
    IN_OUTSIDE,
    NONE,
    NUMBER,
    UNKNOWN,
    Heap,
    Objects,
    Value,
    based_on,
    beginning,
    blurred,
    constant,
)
from farlane.analyzer.permissions.abstract.memory import (
    CALLED,
    FREE,
    GIVEN,
    HIGHEST,
    LEAVES,
    LOWEST,
    READ,
    WRITE,
    Access,
    State,
)

# Conversions that read or write memory: texts (also wide, or by locale), counts of what was printed.
_READS_TEXT = re.compile(r"%[^%a-zA-Z]*(?:hh|ll|[hljztLqw])*[nsSm]")
MAXIMUM_PARAMETERS = 256
_NO_VECTORS = [UNKNOWN] * (REGISTERS - XMM0)


class Call:
    """One call of an imported function.

    Args:
        state: at the call instruction; changed in place.
        records: every access is appended.
        at: the instruction of the analyzed function that stands for it.
        chain: the call instruction, and those that lead to it.
        bounds: rising offsets of the frame that no argument and no copy of a parameter lies across: where return
            addresses stand, and where the parts for stack arguments end; the calling function's such part ends at the
            first of them above the stack pointer, if `pushed`.
        pushed: whether the calling function has pushed something for this call.
        name: the function's.
        passed: what kernels are passed.
        apart: whether the code at hand alone can see what the device holds (`facts.Facts.apart`).
    """

    def __init__(
        self,
        state: State,
        records: list[Access],
        at: int,
        chain: tuple[int, ...],
        bounds: tuple[int, ...],
        pushed: bool,
        name: str,
        passed: Passed = lambda host: None,
        apart: bool = False,
    ) -> None:
        self._passed, self._apart = passed, apart
        self._brought: Objects = NONE  # of what the call writes, what may be addresses
        self._keeps: Callable[[Objects], Objects] = frozenset  # of what a kernel is given, what others may reach
        self.state, self.records, self.at, self.chain, self.name = state, records, at, chain, name
        self.bounds, self.pushed = bounds, pushed
        self.inputs = [state.registers[number] for number in ARGUMENTS]

    def touch(self, kind: str, address: Value, size: int | None) -> None:
        if address.kind == CONSTANT and address.number == 0:
            return
        access = self.state.access(self.at, kind, address, size, self.name, self.chain[-1])
        if access is not None:
            # A library function given the address of a part of an object may look at all of it.
            low = LOWEST if size is None and FRAME in access.objects else access.low
            self.records.append(access._replace(low=low))

    def leaves(self, objects: Objects = IN_ANYTHING) -> None:
        self.records.append(Access(self.at, LEAVES, objects, LOWEST, HIGHEST, self.name or "a call", self.chain[-1]))

    def finish(self, result: Value) -> None:
        """A call's effect on registers by the calling convention."""
        registers = self.state.registers
        for number in CALLER_SAVED:
            registers[number] = UNKNOWN
        registers[XMM0:] = _NO_VECTORS
        registers[RAX] = result
        self.state.recent = frozenset()
        self.state.flags = None

    # Unknown functions

    def unknown(self, own: bool = False) -> None:
        """It may keep what it is given, change what it can reach, and never come back; `own`: it is of this file."""
        state = self.state
        stack = state.registers[RSP]
        given: Objects = NONE
        for value in (*self.inputs, state.registers[RAX], state.registers[10], *state.registers[XMM0 : XMM0 + 16]):
            given |= value.objects
        for value in self.stack_arguments():
            given |= value.objects
        state.escape(given | state.carried)
        self.havoc()
        self.leaves(IN_OUTSIDE | state.escaped)
        # A function of this file may be known, to who calls it, to leave registers alone.
        held = [(number, state.registers[number].objects) for number in range(REGISTERS)]
        self.finish(UNKNOWN)
        if own:
            for number, objects in held:
                state.registers[number] = blurred(state.registers[number], objects) if number != RSP else stack

    def havoc(self) -> None:
        """Everything that can be reached from elsewhere may have changed."""
        state = self.state
        if FRAME in state.escaped or state.escaped & IN_ANYTHING:
            state.cells = {offset: (size, blurred(value, IN_OUTSIDE)) for offset, (size, value) in state.cells.items()}

    def stack_arguments(self) -> Iterator[Value]:
        """Cells that may be arguments on the stack; everything when that is not known."""
        state = self.state
        stack = state.registers[RSP]
        yield based_on(state.loose)
        if stack.kind != EXACT:
            yield based_on(state.held())
            return
        if self.pushed:
            end = self._bound(stack.number)
        else:
            end = stack.number
            while end in state.recent:
                end += 8
        for offset, (size, value) in state.cells.items():
            if offset + size > stack.number and offset < end:
                yield value

    # Known functions

    def library(self) -> bool:
        """A function of the table; False when it is not there."""
        known = library.TRUSTED.get(self.name)
        if known is None:
            return False
        self.records.append(Access(self.at, CALLED, NONE, HIGHEST, LOWEST, self.name, self.chain[-1]))
        self._apply(list(self._letters(known.arguments)))
        self.finish(self._result(known.result))
        return True

    def _letters(self, row: Sequence[str]) -> Iterator[tuple[str, Value]]:
        for index, letter in enumerate(row):
            if letter.endswith("*"):
                kind = letter[:-1]
                form = self._format(index)
                if kind == "r":
                    yield "r", self.inputs[index]
                    if form is not None and not _READS_TEXT.search(form):
                        continue
                    kind = "b"
                for value in self.inputs[index:]:
                    yield kind, value
                for value in self.stack_arguments():
                    yield kind, value
            elif index < len(self.inputs):
                yield letter, self.inputs[index]

    def _format(self, index: int) -> str | None:
        """The format, when it is a constant text."""
        value = self.inputs[index]
        if value.kind != CONSTANT or not value.objects:
            return None
        segment = self.state.image.segment(value.number)
        return self.state.image.string(value.number) if segment is not None and not segment.writable else None

    def _size(self, letter: str) -> int | None:
        if "<" in letter:
            return None  # perhaps fewer
        if "@" in letter:
            value = self.inputs[int(letter.split("@")[1])]
            return value.number if value.kind == CONSTANT and 0 <= value.number < 2**40 else None
        return int(letter[1:]) if letter[1:] else None

    def _apply(self, row: list[tuple[str, Value]]) -> None:
        state = self.state
        target: tuple[Value, int | None] | None = None
        for letter, value in row:
            kind, size = letter[0], self._size(letter)
            if kind == "v" and value.objects - IN_OUTSIDE - IN_GLOBAL:
                self.touch(WRITE, value, None)  # host memory where the device's is expected
            if kind in "rbcdlo":
                self.touch(READ, value, size)
            if kind == "d":
                self._give(state.pointees(value, size))
            if kind in "wblo":
                self.touch(WRITE, value, size)
                if size is None and value.kind == EXACT:
                    value = Value(ANY, 0, value.objects)
                state.write_range(value, size, self._brought)
                target = (value, size) if target is None else target
            if kind == "h":
                self.touch(WRITE, value, 8)
                state.write(value, 8, self._new())
            if kind == "f":
                self.touch(FREE, value, None)
            if kind == "c" and target is not None:
                state.write_range(target[0], target[1], state.pointees(value, size))

    def _new(self) -> Value:
        return beginning(Heap(self.chain, interface.plain(self.name) in interface.HOST_ALLOCATORS))

    def _result(self, letter: str) -> Value:
        if letter == "h":
            return self._new()
        if letter in ("0", "p"):
            value = self.inputs[0]
            exact = letter == "0" and self.name.startswith(("mem", "__mem"))
            return value if exact else based_on(value.objects)
        return NUMBER if letter == "n" else UNKNOWN

    # CUDA

    def cuda(self) -> None:
        """A call of the runtime or the driver that succeeds."""
        name = interface.plain(self.name)
        values = self.inputs
        if name in interface.COPIES_TO_HOST or "h" in interface.ROLES.get(name, "").split():
            self._brought = self.state.carried
        launch, copy = interface.LAUNCHES.get(name), interface.COPIES.get(name)
        structured = interface.STRUCTURED_COPIES.get(name)
        if name == interface.PUSH:
            pass
        elif name == interface.POP:
            for value, size in ((values[0], 12), (values[1], 12), (values[2], 8), (values[3], 8)):
                self._apply([(f"w{size}", value)])
        elif name == interface.GET_KERNEL:
            self._apply([("w8", values[0])])
        elif launch is not None and self._in_array(launch):
            self._launch(launch)
        elif copy is not None:
            self._copy(copy)
        elif structured is not None:
            self._structured_copy(structured)
        elif launch is None and (name in interface.TOUCHES or name in interface.ROLES):
            self._apply(list(self._letters((interface.TOUCHES.get(name) or _letters(interface.ROLES[name])).split())))
        else:
            self.unknown()
            return
        self.finish(UNKNOWN if name in interface.NO_CODES else constant(0))

    def _copy(self, copy: Copy) -> None:
        target, source = passed(self.state, copy.destination), passed(self.state, copy.source)
        direction: int | None = copy.direction
        if copy.kind is not None:
            flavour = passed(self.state, copy.kind, 4)
            direction = flavour.number if flavour.kind == CONSTANT else None
        count = f"@{copy.size}" if copy.size is not None else ""
        row = [("v", target), ("v", source)] if direction != HOST_TO_HOST else []
        if direction == DEVICE_TO_HOST:
            del row[0]
        if direction == HOST_TO_DEVICE:
            del row[1]
        if direction not in (DEVICE_TO_HOST, DEVICE_TO_DEVICE):
            row.append((f"d{count}", source))
        if direction not in (HOST_TO_DEVICE, DEVICE_TO_DEVICE):
            row.append((f"w{count}", target))
        if direction not in (0, 1, 2, 3) or direction == HOST_TO_HOST:
            # What is copied within the host may hold addresses.
            self.state.write_range(target, None, self.state.pointees(source, None))
        self._apply(row)

    def _structured_copy(self, copy: StructuredCopy) -> None:
        """One that a structure describes: a side that is not surely the device's may be the host's."""
        self._apply([(f"r{copy.size}", self.inputs[0])])
        from_host, to_host = (host_memory(self.state, copy, side) for side in (0, 1))
        source, target = (structured_host(self.state, copy, side) for side in (0, 1))
        if from_host is not False and to_host is not False:
            self.state.write_range(target, None, self.state.pointees(source, None))
        if from_host is not False:
            self._apply([("d", source)])
        if to_host is not False:
            self._apply([("w", target)])

    def _give(self, objects: Objects) -> None:
        """A device is given addresses of these objects. It can follow those of pinned memory alone, and hand on the others."""
        if self._apart:
            self.state.escape(_pinned(objects))
            self.state.carry(objects)
        else:
            self.state.escape(self._keeps(objects))

    def _in_array(self, form: Launch) -> bool:
        """Whether a launch's configuration is passed by value, and its parameters in an array of their addresses."""
        if form.structure is not None:
            return False
        extra = None if form.extra is None else passed(self.state, form.extra)
        return extra is None or (extra.kind == CONSTANT and extra.number == 0)

    def _launch(self, form: Launch) -> None:
        """The kernel is given what its parameters hold: their addresses stand in an array, whose length is known when
        the kernel is."""
        state = self.state
        array, kernel = passed(state, form.parameters), passed(state, form.kernel)
        sizes = None
        if form.handle:
            self._keeps = _pinned
        elif kernel.kind == CONSTANT:
            sizes = self._passed(kernel.number)
        if sizes is not None and array.kind == EXACT:
            places = [state.cells.get(array.number + 8 * index) for index in range(len(sizes))]
            known = [each[1].number for each in places if each is not None and each[0] == 8 and each[1].kind == EXACT]
            if len(known) == len(sizes):
                for start, size in zip(known, sizes, strict=True):
                    self._parameter(start, start + size)
                return
        starts: list[int] = []
        if array.kind == EXACT:
            for index in range(MAXIMUM_PARAMETERS):
                held = state.cells.get(array.number + 8 * index)
                if held is None or held[0] != 8 or not held[1].objects:
                    break
                value = held[1]
                if value.kind == EXACT:
                    starts.append(value.number)
                elif FRAME in value.objects or value.objects & IN_ANYTHING:
                    self._give(state.held())
                    self._gives(LOWEST, HIGHEST)
                else:
                    self.touch(GIVEN, value, None)
                    self._give(state.pointees(value, None))
        else:
            self._give(state.pointees(array, None) | state.held())
            self._gives(LOWEST, HIGHEST)
        for start in starts:
            end = min([other for other in (*starts, array.number) if other > start], default=HIGHEST)
            self._parameter(start, min(end, self._bound(start)))

    def _bound(self, offset: int) -> int:
        return next((bound for bound in self.bounds if bound > offset), HIGHEST)

    def _parameter(self, start: int, end: int) -> None:
        """The kernel is given what may stand in a range of the frame; where nothing is known to, what was stored at a
        place that is not."""
        state = self.state
        self._gives(start, end)
        at = start
        for offset, (size, value) in sorted(state.cells.items()):
            if offset + size > start and offset < end:
                self._give(value.objects)
                if offset <= at:
                    at = max(at, offset + size)
        if at < end:
            self._give(state.loose)

    def _gives(self, start: int, end: int) -> None:
        """The kernel is passed what stands in a range of the frame."""
        self.records.append(Access(self.at, GIVEN, IN_FRAME, start, end, self.name, self.chain[-1]))


def _pinned(objects: Objects) -> Objects:
    """Those that a device may reach."""
    return frozenset(each for each in objects if isinstance(each, Heap) and each.pinned)


def _letters(roles: str) -> str:
    """`interface.ROLES` in the letters of the table."""
    translated = {"v": "v", "w": ".", "d": "r", "s": "d", "h": "w", "-": ".", "O": "w"}
    return " ".join(translated.get(role) or f"w{role[1:]}" for role in roles.split())
