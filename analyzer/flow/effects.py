"""What calls of imported functions do to a state.

CUDA's calls follow `interface.ROLES`, those of the C and C++ libraries `library.EFFECTS`. Everything else is an unknown
function: whatever has escaped, and whatever it is given addresses of, may have changed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from farlane.analyzer.flow import interface, library
from farlane.analyzer.flow.expression import CALL, INITIAL, OPAQUE, OPERATION, OUT, VERSION, Value
from farlane.analyzer.flow.memory import LAUNCH_SLOT, OTHER, Filled, Store
from farlane.analyzer.flow.operands import lane
from farlane.analyzer.flow.state import CONFIGURATION, PUSHED, State
from farlane.analyzer.machine.instruction import ARGUMENTS, CALLEE_SAVED, CALLER_SAVED, RAX, RSP, XMM0

MAXIMUM_PARAMETERS = 64


class CudaCall(NamedTuple):
    """One CUDA call, its arguments as values at that point.

    Attributes:
        site: the address of the call instruction; for a launch with a push that is seen, the push's.
        chain: calls that lead to the site from the function it is reported for, outermost first; () when it is there.
        launch: for a launch, the same of the launching call itself: (call instruction, ...); () for other calls.
        push: for a launch, the value that says which push it belongs to.
        tail: whether the call is a jump at the function's end: it returns to behind the call of the function.
        name: the runtime's name without suffixes, or "launch".
        kernel: the kernel, for a launch: the address of its host function, None when that is not known.
        repeated: whether it stands in a loop of a called function.
        optional: whether a called function may return without having made it.
        handle, array: a launch's first argument and its array of parameters' addresses; None once they are resolved.
        arguments: (name, value) of what the device's host must know.
        sizes: of a launch's parameters, one after another, the bytes that were stored at once; more may follow.
        references: (name, address) of a launch's parameters that lie in a caller's frame, as long as that is not known.
        kind: a copy's kind when it is a constant, else None.
    """

    site: int
    chain: tuple[int, ...]
    name: str
    kernel: int | None
    arguments: tuple[tuple[str, Value], ...]
    kind: int | None = None
    handle: Value | None = None
    array: Value | None = None
    repeated: bool = False
    optional: bool = False
    launch: tuple[int, ...] = ()
    push: Value | None = None
    tail: bool = False
    sizes: tuple[int, ...] = ()
    references: tuple[tuple[str, Value], ...] = ()

    def seen_from(
        self,
        caller: int,
        seen: Callable[[Value], Value],
        repeated: bool,
        optional: bool,
    ) -> CudaCall:
        """The call as its function's caller sees it, through the call instruction `caller`.

        Args:
            seen: what a value is for the caller.
            repeated, optional: whether the call stands in a loop of the function, and whether that may return without it.
        """
        if not (self.push or self.handle or self.array or self.references or self.launch or self.tail):
            # Most are such calls.
            return CudaCall(
                self.site,
                (caller, *self.chain),
                self.name,
                self.kernel,
                tuple([(name, value if value.is_constant else seen(value)) for name, value in self.arguments])
                if self.arguments
                else (),
                self.kind,
                repeated=self.repeated or repeated,
                optional=self.optional or optional,
                sizes=self.sizes,
            )
        push = self.push and seen(self.push)
        pushed = push is not None and self.push is not None and self.push.kind == INITIAL and push.kind == OPAQUE
        return CudaCall(
            push.arguments[0] if pushed and push is not None else caller if self.tail else self.site,
            () if pushed or self.tail else (caller, *self.chain),
            self.name,
            self.kernel,
            tuple([(name, value if value.is_constant else seen(value)) for name, value in self.arguments]),
            self.kind,
            self.handle and seen(self.handle),
            self.array and seen(self.array),
            self.repeated or repeated,
            self.optional or optional,
            (caller, *self.launch) if self.launch else (),
            push,
            False,
            self.sizes,
            tuple([(name, seen(address)) for name, address in self.references]) if self.references else (),
        )


def cuda_call(state: State, name: str, site: int) -> CudaCall | None:
    """Applies a CUDA call; what is recorded of it (None: configuration and bookkeeping, no call of its own)."""
    written = interface.WRITES.get(name)
    name = interface.plain(name)
    values = state.memory.values
    inputs = [state.registers[number] for number in ARGUMENTS]
    if name == interface.PUSH:
        for index, value in enumerate(inputs):
            state.registers[CONFIGURATION + index] = values.zero_extended(value, 4) if index in (1, 3) else value
        state.registers[PUSHED] = values.atom(OPAQUE, site, interface.PUSH)
        lose_registers(state, site, values.zero)
        return None
    if name == interface.POP:
        held = state.registers[CONFIGURATION:PUSHED]
        configuration = [
            values.atom(OPAQUE, site, CONFIGURATION + index) if value.lost else value
            for index, value in enumerate(held)
        ]
        state.registers[CONFIGURATION:PUSHED] = state.memory.lost[CONFIGURATION:]  # it is for one launch
        writes = [(0, 0, 8, 0), (0, 8, 4, 1), (1, 0, 8, 2), (1, 8, 4, 3), (2, 0, 8, 4), (3, 0, 8, 5)]
        state.memory.storing = LAUNCH_SLOT
        for argument, offset, size, index in writes:
            state.write(values.add(inputs[argument], offset), size, configuration[index], site)
        state.memory.storing = OTHER
        lose_registers(state, site, values.zero)
        return None
    if name == interface.GET_KERNEL:
        if inputs[0].is_constant and inputs[1].is_constant:
            state.memory.note_handle(inputs[0].constant, inputs[1].constant)
        else:
            state.write(inputs[0], 8, values.atom(OPERATION, "kernel", inputs[1]), site)
        lose_registers(state, site, values.atom(CALL, site, name))
        return None
    if name in interface.LAUNCHES:
        return _launch(state, name, site, inputs)
    if name == interface.LAUNCH_BY_STRUCTURE:
        return _launch_by_structure(state, name, site, inputs)
    return _api(state, name, site, inputs, written)


def _launch(state: State, name: str, site: int, inputs: Sequence[Value]) -> CudaCall:
    values = state.memory.values
    arguments = [
        ("grid.xy", inputs[1]),
        ("grid.z", values.zero_extended(inputs[2], 4)),
        ("block.xy", inputs[3]),
        ("block.z", values.zero_extended(inputs[4], 4)),
        ("shared", state.read(state.registers[RSP], 8)),
        ("stream", state.read(values.add(state.registers[RSP], 8), 8)),
    ]
    push = state.registers[PUSHED]
    place = push.arguments[0] if push.kind == OPAQUE else site
    launch = CudaCall(place, (), interface.LAUNCH, None, tuple(arguments), None, inputs[0], inputs[5])
    launch = launch._replace(launch=(site,), push=push)
    launch = resolved(state, launch)
    state.registers[PUSHED] = values.zero  # a push is for one launch; another one may be made without
    lose_registers(state, site, values.atom(CALL, site, name))
    return launch


def _launch_by_structure(state: State, name: str, site: int, inputs: Sequence[Value]) -> CudaCall:
    values = state.memory.values
    configuration, kernel, parameters = inputs[:3]
    parts = {"grid.xy": (0, 8), "grid.z": (8, 4), "block.xy": (12, 8), "block.z": (20, 4), "shared": (24, 8)}
    parts |= {"stream": (32, 8), "attributes": (48, 4)}
    arguments = [(part, state.read(values.add(configuration, at), size)) for part, (at, size) in parts.items()]
    launch = CudaCall(site, (), interface.LAUNCH, None, tuple(arguments), None, kernel, parameters, launch=(site,))
    launch = resolved(state, launch)
    count = arguments[-1][1]
    if not count.is_constant or count.constant:
        attributes = _attributes(state, state.read(values.add(configuration, 40), 8), count)
        launch = launch._replace(arguments=launch.arguments + attributes)
    lose_registers(state, site, values.atom(CALL, site, name))
    return launch


def _attributes(state: State, address: Value, count: Value) -> tuple[tuple[str, Value], ...]:
    """A launch's attributes as far as the function has stored them; where the first one is, when it has not."""
    base, first = state.memory.values.base(address)
    cells = state.cells.get(base, {})
    end = first + interface.ATTRIBUTE * (
        count.constant if count.is_constant and count.constant < MAXIMUM_PARAMETERS else 1
    )
    stored = [
        (f"attribute + {at - first}", value)
        for (at, _), value in sorted(cells.items(), key=_by_place)
        if first <= at < end
    ]
    return tuple(stored[:MAXIMUM_PARAMETERS]) or (("attribute", state.read(address, 8)),)


def _by_place(cell: tuple[tuple[int, int], Value]) -> tuple[int, int]:
    return cell[0]


def resolved(state: State, launch: CudaCall) -> CudaCall:
    """The launch with its kernel and its parameters, as far as this state knows what their addresses mean."""
    handle, array = launch.handle, launch.array
    kernel = launch.kernel
    if handle is not None and handle.is_constant:
        kernel = handle.constant
    elif (
        handle is not None
        and handle.kind == OPERATION
        and handle.arguments[0] == "kernel"
        and handle.arguments[1].is_constant
    ):
        kernel = handle.arguments[1].constant
    arguments, sizes, references = launch.arguments, launch.sizes, launch.references
    # A stub of the kernel's own has one array in its frame, which tells enough: most programs are not asked for what they register.
    own = state.memory.in_stub and launch.push is not None and launch.push.kind == INITIAL
    known = None if kernel is None or array is None or own else state.memory.passed(kernel)
    found = None
    if known is not None and array is not None:
        found = _known_parameters(state, array, known)
    elif array is not None and array.stack and state.cells.get(state.memory.values.base(array)[0]):
        found = _parameters(state, array, own)
    if found is not None:
        for index, (value, size) in enumerate(found):
            if size is None:
                references += ((f"parameter {index}", value),)
            else:
                arguments += ((f"parameter {index}", value),)
        sizes = tuple(size or 0 for _, size in found)
        array = None
    for name, address in references:
        pieces = _object(state, name, address)
        if pieces:
            arguments += pieces
            references = tuple(each for each in references if each[0] != name)
    handle = handle if kernel is None else None
    return launch._replace(
        kernel=kernel, arguments=arguments, handle=handle, array=array, sizes=sizes, references=references
    )


def _object(state: State, name: str, address: Value) -> tuple[tuple[str, Value], ...]:
    """A structure in the frame, cell by cell, as far as it was stored piecewise: what follows it may be taken for a part of it."""
    values = state.memory.values
    base, offset = values.base(address)
    cells = state.cells.get(base)
    if not address.stack or not cells:
        return ()
    found: list[tuple[str, Value]] = []
    at = offset
    while len(found) < MAXIMUM_PARAMETERS:
        size = next((size for size in (8, 4, 2, 1) if (at, size) in cells), None)
        if size is None or (cells[at, size].kind == INITIAL and cells[at, size].arguments[0] in CALLEE_SAVED):
            break  # nothing there, or where the function keeps its caller's registers
        found.append((f"{name} + {at - offset}" if found else name, cells[at, size]))
        at += size
    return tuple(found) or ((name, state.read(address, 8)),)


def _parameters(state: State, array: Value, stub: bool) -> list[tuple[Value, int | None]]:
    """The kernel's parameters, each with its bytes that are known: cells in the frame that hold addresses of cells in the frame, one after another.

    The array has no length here. It ends where an element is no address of the frame: the frame's other cells with such
    addresses are rare, and a parameter too many only adds a value that was stored. Bytes of a parameter are those of the
    largest cell at its address: of a structure the first ones. 0 bytes: its memory is not followed, nor its length known.
    None: a structure whose address the function was given, a stub of the kernel's own (`stub`), and which stands for it.
    """
    values = state.memory.values
    found: list[tuple[Value, int | None]] = []
    for index in range(MAXIMUM_PARAMETERS):
        slot = values.add(array, 8 * index)
        base, offset = values.base(slot)
        address = state.cells.get(base, {}).get((offset, 8))
        given = stub and address is not None and address.kind == INITIAL and address.arguments[0] in ARGUMENTS
        if address is not None and given and not any(address is value for value, _ in found):
            found.append((address, None))
            continue
        if address is None or not address.stack:
            break
        start, low = values.base(address)
        cells = state.cells.get(start, {})
        size = next((size for size in (8, 4, 2, 1) if (low, size) in cells), 0)
        found.append((cells[low, size] if size else state.read(address, 8), size))
    return found


def _known_parameters(state: State, array: Value, sizes: Sequence[int]) -> list[tuple[Value, int | None]] | None:
    """The same of a kernel whose parameters' bytes are known: so many elements, and of each parameter its bytes, a structure's first ones. None:
    an element is not known, or the address of a structure outside the frame."""
    values = state.memory.values
    found: list[tuple[Value, int | None]] = []
    for index, size in enumerate(sizes):
        base, offset = values.base(values.add(array, 8 * index))
        address = state.cells.get(base, {}).get((offset, 8))
        if address is None or not (address.stack or size in (1, 2, 4, 8)):
            return None
        start, low = values.base(address)
        cells = state.cells.get(start, {})
        stored = size if size in (1, 2, 4, 8) else next((each for each in (8, 4, 2, 1) if (low, each) in cells), 0)
        found.append((state.read(address, stored or 8), stored))
    return found


def _api(state: State, name: str, site: int, inputs: Sequence[Value], written: int | None) -> CudaCall:
    """`written`: the bytes that it writes at most where its roles do not tell."""
    values = state.memory.values
    roles = interface.roles(name)
    if roles is None:
        arguments = tuple((f"argument {index}", value) for index, value in enumerate(inputs))
        unknown_call(state, site)
        state.registers[RAX] = values.atom(CALL, site, name)
        return CudaCall(site, (), name, None, arguments)
    kind: int | None = None
    letters = roles.split()
    if name in interface.COPIES or name in interface.COPIES_2D:
        if name in interface.COPIES:
            destination, source, _, place = interface.COPIES[name]
            flavour = values.zero_extended(inputs[place], 4)
        else:
            destination, source, place = interface.COPIES_2D[name]
            flavour = state.read(values.add(state.registers[RSP], 8 * (place - len(inputs))), 4)
        kind = flavour.constant if flavour.is_constant else None
        letters[destination] = "h" if kind in (interface.DEVICE_TO_HOST, interface.HOST_TO_HOST) else "v"
        letters[source] = "s" if kind in (interface.HOST_TO_DEVICE, interface.HOST_TO_HOST) else "v"
        if kind not in range(4):
            letters[destination] = "h"
    recorded = []
    size = inputs[2] if name in interface.COPIES or name in interface.FROM_SYMBOL else None
    for index, letter in enumerate(letters):
        value = inputs[index]
        if letter == "v":
            recorded.append((f"argument {index}", value))
        elif letter == "w":
            recorded.append((f"argument {index}", values.zero_extended(value, 4)))
    for index, letter in enumerate(letters):
        if letter.startswith("o"):
            made = values.atom(OUT, site, name, index, 0)
            if name in interface.HOST_ALLOCATORS:
                state.fresh(made)
            state.write(inputs[index], int(letter[1:]), made, site)
        elif letter == "O":
            state.write_range(inputs[index], None if written is None else values.constant(written), site)
            if written is not None and name not in interface.STRUCTURES:
                filled = Filled(inputs[index], written, site, name)
                state.memory.filled[values.atom(VERSION, site)] = filled
        elif letter == "h":
            if size is not None and size.is_constant and size.constant in (1, 2, 4, 8):
                state.write(inputs[index], size.constant, values.atom(OUT, site, name, index, 0), site)
            else:
                state.write_range(inputs[index], size, site, values.atom(OUT, site, name, index, 0))
    lose_registers(state, site, inputs[0] if name in interface.STRUCTURES else values.atom(CALL, site, name))
    return CudaCall(site, (), name, None, tuple(recorded), kind)


def library_call(state: State, name: str, site: int) -> None:
    """Applies a call of another imported function."""
    values = state.memory.values
    known = library.effect(name)
    if known is None:
        unknown_call(state, site)
        return
    inputs = [state.registers[number] for number in ARGUMENTS]
    if known.stream and inputs[0].stack and not state.memory.separate:
        state.write_range(inputs[0], values.constant(library.STREAM), site)
    for argument, size in known.writes:
        target = inputs[argument]
        if target is values.zero:
            continue
        length = inputs[-2 - size] if size <= -2 else None if size == library.ANY else values.constant(size)
        state.write_range(target, length, site)
    if known.returns == 0 and len(known.writes) == 1 and known.writes[0][1] < 0:
        state.escape_range(inputs[1])
    if known.points:
        state.escape(inputs[0])
    result = values.atom(CALL, site, name)
    if known.allocates:
        state.fresh(result)
    floating = library.PURE.get(name)
    if floating is None:
        lose_registers(state, site, result if known.returns is None else inputs[known.returns])
        return
    # A function of its arguments alone: of the numbers, and of the integer that ldexp and scalbn have.
    of = [state.registers[lane(XMM0 + index)] for index in range(floating)]
    if name.startswith(("ldexp", "scalbn")):
        of.append(values.zero_extended(inputs[0], 4))
    result = values.atom(OPERATION, name, *of)
    lose_registers(state, site, result)
    state.registers[lane(XMM0)] = result


def unknown_call(state: State, site: int, quiet: bool = False) -> None:
    """A function of which nothing is known was called: it may keep what it is given and change what it can reach.

    `quiet`: all the same it is known to make no CUDA calls.
    """
    unknown_memory(state, site, quiet)
    lose_registers(state, site, state.memory.values.atom(CALL, site, ""))


def unknown_memory(state: State, site: int, quiet: bool = False) -> None:
    """What an unknown function may do to memory."""
    if state.memory.log is not None:
        state.memory.log.append(Store(None, None, None, quiet))
    given_away(state)
    state.clobber(site)


def given_away(state: State) -> None:
    """A called function may keep what it is given."""
    for number in ARGUMENTS:
        state.escape(state.registers[number])
    stack_pointer, lowest = state.memory.values.base(state.registers[RSP])
    # Arguments on the stack may be addresses too.
    for (offset, _), value in list(state.cells.get(stack_pointer, {}).items()):
        if lowest <= offset < lowest + 64 and value.stack:
            state.escape(value)


def lose_registers(state: State, site: int, result: Value) -> None:
    """A call's effect on registers by the calling convention."""
    lost, registers = state.memory.lost, state.registers
    for number in CALLER_SAVED:
        registers[number] = lost[number]
    registers[XMM0:CONFIGURATION] = lost[XMM0:CONFIGURATION]
    registers[RAX] = result
