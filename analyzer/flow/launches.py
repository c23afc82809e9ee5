"""What launches of kernels are passed: the configuration and the parameters, by the forms of `interface.LAUNCHES`."""

from __future__ import annotations

from collections.abc import Sequence

from farlane.analyzer.externals import interface
from farlane.analyzer.externals.driver import BUFFER, BUFFER_SIZE, END
from farlane.analyzer.externals.forms import ATTRIBUTE, ATTRIBUTES, Launch
from farlane.analyzer.flow.call import BY_HANDLE, CudaCall
from farlane.analyzer.machine.instruction import ARGUMENTS, CALLEE_SAVED, RSP
from farlane.analyzer.values.cells import PUSHED
from farlane.analyzer.values.expression import INITIAL, OPAQUE, OPERATION, Value
from farlane.analyzer.values.state import State

MAXIMUM_PARAMETERS = 64


def passed(state: State, index: int, size: int = 8) -> Value:
    """What a call is passed as an argument: the first six are in registers, the others on the stack."""
    values = state.memory.values
    if index < len(ARGUMENTS):
        value: Value = state.registers[ARGUMENTS[index]]
        return value if size == 8 else values.zero_extended(value, size)
    return state.read(values.add(state.registers[RSP], 8 * (index - len(ARGUMENTS))), size)


def launch(state: State, form: Launch, site: int) -> CudaCall:
    """A launch's record; the state stays as it is, but for the configuration, which is used up."""
    values = state.memory.values
    place, push = site, None
    if form.structure is None:
        arguments = [(part, passed(state, index, size)) for part, (index, size) in form.parts.items()]
        if not form.handle:
            push = state.registers[PUSHED]
            place = push.arguments[0] if push.kind == OPAQUE else site
            state.registers[PUSHED] = values.zero  # a push is for one launch; another one may be made without
    else:
        given = passed(state, form.structure)
        arguments = [(part, state.read(values.add(given, at), size)) for part, (at, size) in form.parts.items()]
    kernel = passed(state, form.kernel)
    array = passed(state, form.parameters)
    recorded = CudaCall(place, (), interface.LAUNCH, None, (), None, kernel, array, launch=(site,), push=push)
    if form.handle:
        arguments.append(("function", kernel))
        recorded = recorded._replace(kernel=BY_HANDLE, handle=None)
        if array is values.zero and form.extra is not None:
            recorded = _with_buffer(state, recorded, passed(state, form.extra))
    recorded = resolved(state, recorded._replace(arguments=(*arguments, *recorded.arguments)), form.handle)
    if form.structure is not None:
        count = dict(arguments)["attributes"]
        if not count.is_constant or count.constant:
            attributes = _attributes(state, state.read(values.add(given, ATTRIBUTES), 8), count)
            recorded = recorded._replace(arguments=recorded.arguments + attributes)
    return recorded


def _with_buffer(state: State, recorded: CudaCall, extra: Value) -> CudaCall:
    """A launch whose parameters stand in one buffer of the frame: what is stored in it, piece by piece."""
    values = state.memory.values
    buffer = size = None
    at = extra
    for _ in range(3):
        word = _stored(state, at)
        if word is None or not word.is_constant or word.constant == END:
            break
        following = _stored(state, values.add(at, 8))
        if word.constant == BUFFER:
            buffer = following
        elif word.constant == BUFFER_SIZE and following is not None and following.stack:
            size = _stored(state, following)
        at = values.add(at, 16)
    if buffer is None or size is None or not buffer.stack or not size.is_constant:
        return recorded
    base, start = values.base(buffer)
    cells = state.cells.get(base, {})
    pieces: list[tuple[str, Value]] = []
    offset = 0
    while offset < size.constant and len(pieces) < MAXIMUM_PARAMETERS:
        fitting = [each for each in (8, 4, 2, 1) if offset + each <= size.constant]
        length = next((each for each in fitting if (start + offset, each) in cells), fitting[-1])
        pieces.append((f"parameters + {offset}", state.read(values.add(buffer, offset), length)))
        offset += length
    return recorded._replace(array=None, arguments=tuple(pieces))


def _stored(state: State, address: Value) -> Value | None:
    """The eight bytes that the function has stored at a place of the frame."""
    base, offset = state.memory.values.base(address)
    return state.cells.get(base, {}).get((offset, 8)) if address.stack else None


def _attributes(state: State, address: Value, count: Value) -> tuple[tuple[str, Value], ...]:
    """A launch's attributes as far as the function has stored them; where the first one is, when it has not."""
    base, first = state.memory.values.base(address)
    cells = state.cells.get(base, {})
    end = first + ATTRIBUTE * (count.constant if count.is_constant and count.constant < MAXIMUM_PARAMETERS else 1)
    stored = [
        (f"attribute + {at - first}", value)
        for (at, _), value in sorted(cells.items(), key=_by_place)
        if first <= at < end
    ]
    return tuple(stored[:MAXIMUM_PARAMETERS]) or (("attribute", state.read(address, 8)),)


def _by_place(cell: tuple[tuple[int, int], Value]) -> tuple[int, int]:
    return cell[0]


def resolved(state: State, launch: CudaCall, here: bool = False) -> CudaCall:
    """The launch with its kernel and its parameters, as far as this state knows what their addresses mean.

    `here`: it is made in the block that is executed, by a handle.
    """
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
    # A stub of the kernel's own has one array in its frame, which tells enough: most programs are not asked for what
    # they register.
    own = state.memory.in_stub and launch.push is not None and launch.push.kind == INITIAL
    known = None
    if kernel is not None and kernel != BY_HANDLE and array is not None and not own:
        known = state.memory.passed(kernel)
    found = None
    if known is not None and array is not None:
        found = _known_parameters(state, array, known)
    elif array is not None and array.stack and state.cells.get(state.memory.values.base(array)[0]):
        found = _parameters(state, array, own, _stored_just_now(state) if here else ())
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
    """A structure in the frame, cell by cell, as far as it was stored piecewise: what follows it may be taken for a
    part of it."""
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


def _stored_just_now(state: State) -> tuple[tuple[int, int], ...]:
    """Where in the frame, from and to, the block that is executed has stored since its last CUDA call."""
    log, (before, length) = state.memory.frame_log or [], state.memory.behind_call
    recent = log[length if before is log else 0 :]
    return tuple((store.start, store.end) for store in recent if store.start is not None and store.end is not None)


def _parameters(
    state: State, array: Value, stub: bool, recent: Sequence[tuple[int, int]] = ()
) -> list[tuple[Value, int | None]]:
    """The kernel's parameters, each with its bytes that are known: cells in the frame that hold addresses of cells in
    the frame, one after another.

    The array has no length here. It ends where an element is no address of the frame: the frame's other cells with such
    addresses are rare, and a parameter too many only adds a value that was stored. Bytes of a parameter are those of
    the largest cell at its address: of a structure the first ones. 0 bytes: its memory is not followed, nor its length
    known.
    None: a structure whose address the function was given, a stub of the kernel's own (`stub`), and which stands for
        it.

    Arrays of several launches may lie in one place, the longer one's rest behind the shorter one. Where the first
    element was stored just now (`recent`), so were the others.
    """
    values = state.memory.values
    fresh = False
    found: list[tuple[Value, int | None]] = []
    for index in range(MAXIMUM_PARAMETERS):
        slot = values.add(array, 8 * index)
        base, offset = values.base(slot)
        just_now = base is values.stack_pointer and any(low <= offset and offset + 8 <= end for low, end in recent)
        if index == 0:
            fresh = just_now
        elif fresh and not just_now:
            break
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
    """The same of a kernel whose parameters' bytes are known: so many elements, and of each parameter its bytes, a
    structure's first ones. None: an element is not known, or the address of a structure outside the frame."""
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
