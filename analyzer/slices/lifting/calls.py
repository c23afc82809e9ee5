"""Calls of imported functions: CUDA's are calls of the slice, the libraries' change registers and memory, or refuse."""

from __future__ import annotations

from farlane.analyzer.externals import interface, library, names
from farlane.analyzer.externals.forms import BY_ADDRESS, DEVICE_TO_HOST, HOST_TO_DEVICE, HOST_TO_HOST, Copy, Launch
from farlane.analyzer.machine.instruction import (
    ARGUMENTS,
    CALLER_SAVED,
    RAX,
    RDI,
    REGISTERS,
    RSP,
    XMM0,
    Instruction,
    lane,
)
from farlane.analyzer.permissions.abstract.arguments import passed
from farlane.analyzer.permissions.abstract.domain import CONSTANT, EXACT, Value
from farlane.analyzer.permissions.abstract.memory import LEAVES, State
from farlane.analyzer.slices import extents, reasons
from farlane.analyzer.slices.form import Code, Operation
from farlane.analyzer.slices.lifting.strings import Strings
from farlane.analyzer.slices.raw import CONFIGURATION, LOWEST, PUSHED, Extent, Lost, Range, RawCall, RefusedError

# Ask what time it is; ask the operating system, or wait for it.
_CLOCKS = frozenset(
    [
        "clock",
        "time",
        "times",
        "gettimeofday",
        "clock_gettime",
        "clock_getres",
        "getrusage",
        "omp_get_wtime",
        "_ZNSt6chrono3_V212steady_clock3nowEv",
        "_ZNSt6chrono3_V212system_clock3nowEv",
    ]
)
_SYSTEM = frozenset(
    [
        "usleep",
        "sleep",
        "nanosleep",
        "sched_yield",
        "sched_getcpu",
        "getpid",
        "getppid",
        "getuid",
        "getenv",
        "close",
        "read",
        "fread",
        "fgets",
        "fopen",
        "fclose",
        "fscanf",
        "__isoc99_fscanf",
        "__isoc23_fscanf",
    ]
)
_GUARDS = frozenset({"__cxa_guard_acquire", "__cxa_guard_release", "__cxa_guard_abort"})
# Functions with exactly specified results, in SSE's standard control word, of one double; with an f, of one float.
_EXACT = {
    "sqrt": Code.F_SQUARE_ROOT,
    "floor": Code.ROUND_DOWN,
    "ceil": Code.ROUND_UP,
    "trunc": Code.ROUND_CUT,
    "rint": Code.ROUND_EVEN,
    "nearbyint": Code.ROUND_EVEN,
}
_RESULTS = {name: (code, 8) for name, code in _EXACT.items()} | {f"{name}f": (code, 4) for name, code in _EXACT.items()}
_SIGNS = {"fabs": 8, "fabsf": 4, "copysign": 8, "copysignf": 4}
_PROLONGED = 4096  # bytes of one copy that a slice may look at, or make


def hopeless(name: str) -> str | None:
    """Why no loop that calls a library's function has a slice; None: it may have one."""
    if name in _CLOCKS:
        return reasons.CLOCK
    if name in _SYSTEM:
        return reasons.SYSTEM_CALL
    if name.startswith("omp_"):
        return reasons.THREADS
    if name in library.TRUSTED or name in _GUARDS:
        return None
    return reasons.EXCEPTIONS if name.startswith("__cxa_") else reasons.UNKNOWN_FUNCTION


def _site(instruction: Instruction) -> int:
    """The return address; 0 where the call ends its function by a jump, for it is then the caller's."""
    return instruction.end if instruction.mnemonic == "call" else 0


class Calls(Strings):
    """Executes calls; the call of the slice, where it is one, is given back."""

    def called(self, name: str, instruction: Instruction, state: State, host: int | None) -> RawCall | None:
        """A call of CUDA's.

        Args:
            host: the address that stands for the kernel that is launched; None: it is not known.

        Raises:
            RefusedError.
        """
        plain = interface.plain(name)
        if plain in interface.LAUNCHES and instruction.mnemonic != "call":
            raise RefusedError(reasons.UNKNOWN_KERNEL, f"{name} at {instruction.address:#x} ends its function")
        if plain == interface.PUSH:
            for index, number in enumerate(ARGUMENTS):
                self.emit(Code.COPY, 8, number, target=CONFIGURATION + index)
            self.emit(Code.CONSTANT, 8, target=PUSHED, immediate=instruction.end)
        elif plain == interface.POP:
            self._pop_configuration(instruction, state)
        elif plain == interface.GET_KERNEL:
            self._lose_object(instruction, state.registers[RDI])
        elif plain in interface.LAUNCHES:
            if "Cooperative" in plain:
                raise RefusedError(reasons.UNKNOWN_API, f"{name} at {instruction.address:#x}")
            return self._launch(interface.LAUNCHES[plain], instruction, state, host)
        elif plain in interface.COPIES or plain in interface.FROM_SYMBOL or plain.startswith("cudaMemcpyToSymbol"):
            return self._copy(plain, instruction, state)
        else:
            return self._plain(plain, instruction, state)
        return None

    def returned(self, name: str, instruction: Instruction, state: State) -> None:
        """What a call leaves of the registers and of the memory below the stack pointer."""
        detail = f"{name} at {instruction.address:#x}"
        for number in CALLER_SAVED:
            self.unknown(number, reasons.HOST_CALL, detail)
        for number in range(XMM0, REGISTERS):
            self.unknown(number, reasons.HOST_CALL, detail)
        if names.is_cuda(name) and interface.plain(name) not in interface.NO_CODES:
            self.emit(Code.CONSTANT, 8, target=RAX)
        self.steps.append(Lost(LOWEST, state.registers[RSP].number, reasons.HOST_CALL, detail))
        self.flags, self.dividend = None, None

    def library(self, name: str, instruction: Instruction, state: State) -> None:
        """A call of a library's function; raises RefusedError."""
        where = f"{name} at {instruction.address:#x}"
        if (why := hopeless(name)) is not None:
            raise RefusedError(why, where)
        if name in _GUARDS:
            self._lose_object(instruction, state.registers[RDI])
        else:
            self.check(instruction, where)
            stores = self.filled(name, state)
            self.lose(self.accesses.get(instruction.address, ()), reasons.MEMORY, where)
            self.steps += stores
        result = self._exact(name)
        self.returned(name, instruction, state)
        if result is not None:
            held, size = result
            operands = (XMM0, held) if size == 4 else (held,)
            self.emit(Code.INSERT if size == 4 else Code.COPY, size, *operands, target=XMM0)

    def _exact(self, name: str) -> tuple[int, int] | None:
        """The result of a function that is exactly specified, and its bytes."""
        if name in _RESULTS:
            code, size = _RESULTS[name]
            self.floating = True
            return self.emit(code, size, XMM0), size
        if name not in _SIGNS:
            return None
        size = _SIGNS[name]
        sign = 1 << (8 * size - 1)
        held = self.emit(Code.AND, size, XMM0, self.constant(sign - 1))
        if name.startswith("copysign"):
            other = self.emit(Code.AND, size, lane(XMM0 + 1), self.constant(sign))
            held = self.emit(Code.OR, size, held, other)
        return held, size

    def check(self, instruction: Instruction, where: str) -> None:
        """Raises RefusedError where a call may not come back."""
        if any(each.kind == LEAVES for each in self.accesses.get(instruction.address, ())):
            raise RefusedError(reasons.UNKNOWN_FUNCTION, where)

    # Arguments

    def _argument(self, state: State, index: int, size: int) -> int:
        """A register with a copy of what is passed."""
        if index < len(ARGUMENTS):
            return self.emit(Code.COPY, size, ARGUMENTS[index])
        return self.read(state.registers[RSP].number + 8 * (index - len(ARGUMENTS)), size)

    def _constant(self, state: State, index: int, size: int = 8) -> int | None:
        value = passed(state, index, size)
        return value.number if value.kind == CONSTANT and not value.objects else None

    def _lose_object(self, instruction: Instruction, value: Value) -> None:
        """Eight bytes of an object are not known; all that the call may write, if it is not known which."""
        detail = f"a call at {instruction.address:#x}"
        where = extents.at(value)
        if where is not None:
            self.steps.append(Lost(where, where + 8, reasons.HOST_CALL, detail))
        else:
            self.lose(self.accesses.get(instruction.address, ()), reasons.HOST_CALL, detail)

    def _pop_configuration(self, instruction: Instruction, state: State) -> None:
        """The pushed configuration goes where the first four arguments point to."""
        shapes = ((0, 8, 0), (1, 4, 8)), ((2, 8, 0), (3, 4, 8)), ((4, 8, 0),), ((5, 8, 0),)
        for index, parts in enumerate(shapes):
            where = extents.at(state.registers[ARGUMENTS[index]])
            if where is None:
                raise RefusedError(reasons.UNKNOWN_KERNEL, f"a configuration at {instruction.address:#x}")
            for number, size, offset in parts:
                self.steps.append(Operation(Code.STORE, size, -1, (CONFIGURATION + number,), where + offset))

    # Calls

    def _plain(self, name: str, instruction: Instruction, state: State) -> RawCall:
        where = f"{name} at {instruction.address:#x}"
        roles = interface.ROLES.get(name)
        if roles is None or set(roles.split()) & {"d", "s", "h"}:
            raise RefusedError(reasons.UNKNOWN_API, where)
        self.check(instruction, where)
        call = RawCall(_site(instruction), name)
        for index, role in enumerate(roles.split()):
            if role in ("v", "w"):
                size = 8 if role == "v" else 4
                call.arguments.append((index, size, self._argument(state, index, size)))
        self.lose(self.accesses.get(instruction.address, ()), reasons.HOST_CALL, where)
        return call

    def _copy(self, name: str, instruction: Instruction, state: State) -> RawCall:
        where = f"{name} at {instruction.address:#x}"
        symbol = "Symbol" in name
        form = Copy(0, 1, 2, kind=4) if symbol else interface.COPIES[name]
        direction: int | None = form.direction
        if form.kind is not None:
            direction = self._constant(state, form.kind, 4)
        if (
            direction is None
            or direction in (BY_ADDRESS, HOST_TO_HOST)
            or form.size is None
            or name not in interface.ROLES
        ):
            raise RefusedError(reasons.UNKNOWN_COPY, where)
        self.check(instruction, where)
        size = self._constant(state, form.size)
        call = RawCall(_site(instruction), name)
        for index, role in enumerate(interface.ROLES[name].split()):
            to_host, from_host = direction == DEVICE_TO_HOST, direction == HOST_TO_DEVICE
            host = (index == form.destination and to_host) or (index == form.source and from_host)
            if host:
                continue
            if symbol:
                self._check_symbol(name, index, state, where)
            width = 4 if role == "w" else 8
            call.arguments.append((index, width, self._argument(state, index, width)))
        if direction == HOST_TO_DEVICE:
            value = passed(state, form.source)
            place, extent = self._block(value, form.source)
            if extent is not None and extent.size == size:
                same = self._argument(state, form.source, 8), self.emit(Code.LOAD, 8, immediate=extent.address)
                self.require(self.emit(Code.EQUAL, 8, *same))
                place = extent.low
            if place is None or size is None or not 0 < size <= _PROLONGED:
                raise RefusedError(reasons.MEMORY, f"the source of {where} is not the loop's own")
            call.source = Range(place, size)
        elif direction == DEVICE_TO_HOST:
            value = passed(state, form.destination)
            place, extent = self._block(value, form.destination)
            if extent is not None and extent.size == size:
                held = self._argument(state, form.destination, 8)
                self.steps.append(Operation(Code.STORE, 8, -1, (held,), extent.address))
                place = extent.low
            if place is not None and size is not None and 0 < size <= _PROLONGED:
                call.fills = Range(place, size)
            else:
                self.lose(self.accesses.get(instruction.address, ()), reasons.MEMORY, f"{where} may write there")
        return call

    def _block(self, value: Value, argument: int) -> tuple[int | None, Extent | None]:
        """The place that a copy's argument is the address of, or what is known of its heap block."""
        heap = extents.block(value.objects)
        extent = None if heap is None else self.extents.get(heap)
        if heap is not None and extent is not None and argument < len(ARGUMENTS):
            self.addressed(heap, ARGUMENTS[argument])
        return extents.at(value), extent

    def _check_symbol(self, name: str, index: int, state: State, where: str) -> None:
        """Raises RefusedError where an argument is a variable of the device, and the site has not always the same."""
        if index == (0 if "ToSymbol" in name else 1) and passed(state, index).kind != CONSTANT:
            raise RefusedError(reasons.UNKNOWN_COPY, where)

    def _launch(self, form: Launch, instruction: Instruction, state: State, host: int | None) -> RawCall:
        where = f"a launch at {instruction.address:#x}"
        if form.structure is not None or form.extra is not None or form.handle:
            raise RefusedError(reasons.UNKNOWN_KERNEL, where)
        sizes = None if host is None else self.sizes(host)
        array = passed(state, form.parameters)
        if sizes is None or array.kind != EXACT:
            raise RefusedError(reasons.UNKNOWN_KERNEL, where)
        call = RawCall(instruction.end, interface.LAUNCH)
        for name, (index, size) in form.parts.items():
            held = self._argument(state, index, size)
            number = {"grid.xy": 0, "grid.z": 2, "block.xy": 3, "block.z": 5, "shared": 6, "stream": 7}[name]
            if name.endswith(".xy"):
                call.arguments.append((number, 4, held))
                held, size, number = self.emit(Code.SHIFT_RIGHT, 8, held, self.constant(32)), 4, number + 1
            call.arguments.append((number, size, held))
        for index, size in enumerate(sizes):
            cell = state.cells.get(array.number + 8 * index)
            place = None if cell is None or cell[0] != 8 else extents.at(cell[1])
            if place is None:
                raise RefusedError(reasons.UNKNOWN_KERNEL, f"a parameter of {where}")
            call.arguments.append((8 + index, size, Range(place, size)))
        call.arguments.append((-1, 8, self.emit(Code.COPY, 8, PUSHED)))
        return call

    def require(self, held: int) -> None:
        """The evaluation is stuck where a register is 0; the walk has the blocks."""
        raise NotImplementedError

    def sizes(self, host: int) -> tuple[int, ...] | None:
        """The bytes of a kernel's parameters; the walk knows the program."""
        raise NotImplementedError
