"""What all states of one analysis share: the values, the file, kernels' handles, allocated objects, and the budget."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from farlane.analyzer.externals import interface, library
from farlane.analyzer.graph.kernels import Passed
from farlane.analyzer.limits import AnalysisError, Budget
from farlane.analyzer.loader.image import Image
from farlane.analyzer.machine.instruction import ARGUMENTS, REGISTERS
from farlane.analyzer.values.condition import decided
from farlane.analyzer.values.expression import CALL, INITIAL, INSIDE, LOAD, OPAQUE, OUT, PHI, Value, Values

EVERY = 16  # times that the time is asked for, the clock is looked at
MAXIMUM_ALLOCATIONS = 4  # that a phi is followed into
PLACES = REGISTERS + 6  # the registers, and the launch configuration behind them
UNDEFINED = -2  # in place of the instruction that made a value


# Pointer -> where it is accessed from there, the first offset and the one behind the last; None: anywhere.
Extents = dict[Value, tuple[int, int] | None]


class Store(NamedTuple):
    """A store outside the own frame. `size` None: as many bytes as `length` says, or any number; `value` None: unknown
    ones.

    An `address` of None stands for a call of an unknown function; `quiet`: of one that makes no CUDA calls and comes
    back.
    """

    address: Value | None
    size: int | None
    value: Value | None
    quiet: bool = False
    length: Value | None = None


# What is stored in the own frame: what a launch's configuration is put back into, a whole address of the frame, less
# than 8 bytes, a floating-point number.
OTHER, LAUNCH_SLOT, ADDRESS, PART, NUMBER = range(5)


class FrameStore(NamedTuple):
    """A store in the own frame: offsets from `start` to before `end`; None: without limit. `what`: see above.

    `address`, `size`: where, as a value, and how many bytes, when that is known; `value`: what.
    """

    start: int | None
    end: int | None
    what: int = OTHER
    address: Value | None = None
    size: int | None = None
    value: Value | None = None


class Filled(NamedTuple):
    """Where a CUDA call put a structure of so many bytes, and which call it was."""

    address: Value
    size: int
    site: int
    name: str


class Origins(NamedTuple):
    """Of what a value of a function is made as an address.

    Attributes:
        found: what the function found at its entry: registers, and loads of memory as it was then.
        anything: whether it may be any address that the function reaches as well.
        rises: whether it lies at one of these or above.
    """

    found: tuple[Value, ...]
    anything: bool
    rises: bool


class Memory:
    """See above.

    Attributes:
        handles: address of a variable that __cudaGetKernel filled -> address of the kernel's host function.
        noted: the keys of `handles`, in the order in which they became known.
        asked: the variables whose handles the block that is executed, or the merge that is made, asked for; None while
            none is.
        epoch: changes when something else changes that executing an instruction looks at beside the state.
        log: what the block that is executed stores outside its function's frame; None while none is.
        frame_log: what it stores in that function's own frame; None while none is.
        behind_call: such a log, and how long it was at the last CUDA call.
        storing: what the stores in the frame are that are made next.
        at: the instruction that is executed.
        passed: what kernels are passed.
        bottom: the lowest offset of the frame whose address the function takes, when `separate`; None: not known.
        in_stub: whether the function that is analyzed asks for a kernel's handle, so is a launch stub or holds one.
        lost: what registers hold that a call left undefined, by register, and a launch configuration that is taken; who
            reads one gets a value of the reader's own.
        initial: what a state's registers hold at a function's entry, once they are asked for.
        cut: whether a function that the block which is executed calls leaves blocks out (`engine.Result`).
        filled: memory's state behind a CUDA call that fills a structure -> which.
        budget: the time for the binary; None: any.
        arrays: stands for what the function was given pointers to and indexes.
        used: what the function was given through which it reads or writes memory, when `separate`, and where from
            there; None: anywhere.
        made_of: of what a value of a called function is made as an address, by values of its caller (given.py).
        separate: whether a pointer that the function was given, or that was read from memory, is taken to point into an
            object of its own, which no code reaches by a pointer from elsewhere, and which is none of the frame, but for
            arrays that were given; whether what is stored at a computed place of the own frame is taken to stay in that
            frame; and whether a store at a computed place of the frame is taken to leave alone what has another size
            there, and what the place is computed from; whether output leaves alone what the program itself stores in
            the frame, where a stream lies beside it; and functions of the C++ library that the file holds to do what
            those of their names do; and whether an address of the frame that is not followed is none below `bottom`.
            For predictions that are marked as assuming so.
        most: how many values may be made; None: any number.
    """

    def __init__(
        self,
        values: Values,
        image: Image,
        budget: Budget | None = None,
        separate: bool = False,
        most: int | None = None,
    ) -> None:
        self.values, self.image, self.budget, self.separate, self.most = values, image, budget, separate, most
        self.handles: dict[int, int] = {}
        self.noted: list[int] = []
        self.asked: set[int] | None = None
        self.epoch = 0
        self.log: list[Store] | None = None
        self.passed: Passed = lambda host: None
        self.bottom: int | None = None
        self.in_stub = False
        self.at = UNDEFINED
        self.frame_log: list[FrameStore] | None = None
        self.behind_call: tuple[list[FrameStore] | None, int] = (None, 0)
        self.storing = OTHER
        self.cut = False
        self._decided: dict[tuple[str, Value], bool | None] = {}
        self._objects: dict[Value, tuple[Value, ...]] = {}
        self._given: dict[Value, bool] = {}
        self._timeless: dict[Value, Value] = {}
        self._checks = 0
        self.initial: list[Value] = []
        self.arrays = values.atom(OPAQUE, UNDEFINED, "arrays")
        self.used: Extents = {}
        self.made_of: dict[Value, Origins] = {}
        self.filled: dict[Value, Filled] = {}
        self.lost = [values.atom(OPAQUE, UNDEFINED, number) for number in range(PLACES)]
        for value in self.lost:
            value.lost = True

    def filler(self, load: Value) -> Filled | None:
        """The CUDA call that filled the structure of which a load reads a part; None: what is read may be something
        else."""
        address, size, versions = load.arguments
        filled = self.filled.get(versions[-1]) if versions else None
        if filled is None:
            return None
        apart = self.values.combine(address, filled.address, -1)
        inside = apart.is_constant and 0 <= apart.signed <= filled.size - size
        return filled if inside else None

    def low(self, address: Value) -> int | None:
        """The lowest offset of the frame that an address may mean; None: not known."""
        return self.bottom if address.low is None else address.low

    def lowest(self, address: Value) -> int:
        """The same; one that nothing lies below where it is not known."""
        low = self.low(address)
        return -(2**62) if low is None else low

    def check_time(self) -> None:
        """Raises AnalysisError when the time is used up, or as many values are made as may be."""
        if self.most is not None and self.values.made > self.most:
            raise AnalysisError("too many values")
        self._checks += 1
        if self._checks % EVERY == 0 and self.budget is not None and self.budget.used_up():
            raise AnalysisError("the time for the binary is used up")

    def note_handle(self, variable: int, kernel: int) -> None:
        """A variable holds the handle of a kernel."""
        if self.handles.get(variable) != kernel:
            self.handles[variable] = kernel
            self.noted.append(variable)

    def handle(self, variable: int) -> int | None:
        """The kernel whose handle a variable holds; None when that is not known."""
        if self.asked is not None:
            self.asked.add(variable)
        return self.handles.get(variable)

    def on_success(self, mnemonic: str, flags: Value) -> bool | None:
        """Whether a branch is taken when CUDA's calls succeed; None when that does not decide it."""
        key = (mnemonic, flags)
        if key not in self._decided:
            self._decided[key] = decided(self.values, mnemonic, flags)
        return self._decided[key]

    def objects_of(self, base: Value) -> tuple[Value, ...]:
        """The allocations into one of which an address without its constant part points; () when that is not known."""
        known = self._objects.get(base)
        if known is None:
            whole = [atom for atom, factor in base.terms if factor == 1]
            found = [own for own in map(self._allocations, whole) if own]
            if not found and self.separate:
                found = [self._pointed_to(atom, base) for atom in whole]
                found = [own for own in found if own]
            if self.separate and len(found) > 1:
                found = [tuple(dict.fromkeys(each for own in found for each in own))]  # a pointer and an index, or two
            known = self._objects[base] = found[0] if len(found) == 1 else ()
        return known

    def given(self, base: Value) -> bool:
        """Whether an address without its constant part is made of what the function found at its entry, indices aside,
        or of a fixed address and indices: what it allocates since then lies elsewhere, and so does its frame."""
        known = self._given.get(base)
        if known is None:
            known = self._given[base] = all(self._atom_given(atom) for atom, factor in base.terms if factor == 1)
        return known

    def _atom_given(self, atom: Value) -> bool:
        if atom.kind == LOAD:
            address, _, versions = atom.arguments
            return self.given(address) and all(version.kind == INITIAL for version in versions)
        return atom.kind == INITIAL

    def mark_allocations(self, phi: Value, inputs: Iterable[Value], new: bool) -> bool:
        """A phi points into allocations when all of its inputs do, but for those that are null: nothing is stored at
        these.

        Returns whether less was known of it, so that what was found so far may not hold.
        """
        known = phi.allocations
        if known == ():
            return False
        found = dict.fromkeys(known or ())
        for value in inputs:
            if value is not self.values.zero:
                own = () if value.is_constant else self.objects_of((value.parts or self.values.base(value))[0])
                if not own:
                    found.clear()
                    break
                found.update(dict.fromkeys(own))
                if any(each.kind == INITIAL for each in own):
                    found[self.arrays] = None  # a pointer that moves
        else:
            if len(found) == len(known or ()):
                return False
        phi.allocations = tuple(sorted(found, key=_by_serial)) if 0 < len(found) <= MAXIMUM_ALLOCATIONS else ()
        if not new:
            self._objects.clear()
        return known is not None

    def forget_allocations(self, phi: Value) -> None:
        """A phi may point anywhere, after all."""
        phi.allocations = ()
        self._objects.clear()

    def seen_from_outside(self, inside: Value, own: Iterable[Value]) -> None:
        """What a called function computed (`inside`) points into objects, as its caller sees them; (): into
        anything."""
        known = inside.allocations
        found = () if known == () else tuple(dict.fromkeys((*(known or ()), *own)))
        if len(found) > MAXIMUM_ALLOCATIONS:
            found = ()
        if found != known:
            inside.allocations = found
            if known is not None:
                self.epoch += 1
            self._objects.clear()

    def _pointed_to(self, atom: Value, base: Value) -> tuple[Value, ...]:
        """What stands for the object of its own that a pointer points into, which was given or read from memory: in the
        latter case the place that it was read from, at whatever time. Arrays that were given may be one, so those have
        something in common."""
        inner = atom
        while inner.kind == INSIDE:
            inner = inner.arguments[1]
        if inner.kind == INITIAL:
            own = (atom,) if inner.arguments[0] in ARGUMENTS else ()
            return (*own, self.arrays) if own and base is not atom else own
        if inner.kind != LOAD or inner.arguments[1] != 8:
            return ()
        return (self.pointer_at(atom.arguments[0]),) if inner is atom else (atom,)

    def use(self, base: Value, offset: int, size: int | None) -> None:
        """Memory is accessed at an address."""
        for atom, factor in base.terms:
            if factor == 1 and atom.kind == INITIAL:
                extend(self.used, atom, base, offset, size)

    def pointer_at(self, address: Value) -> Value:
        """What stands for what the pointers at a place point into."""
        return self.values.atom(LOAD, self.values.substitute(address, self._ever, self._timeless), 8, ())

    def _ever(self, atom: Value) -> Value | None:
        return self.pointer_at(atom.arguments[0]) if atom.kind == LOAD and atom.arguments[1] == 8 else None

    def _allocations(self, atom: Value) -> tuple[Value, ...]:
        """The allocations that an atom is an address in."""
        if atom.kind == INSIDE and atom.allocations is not None:
            return atom.allocations
        calls, inner = [], atom
        while inner.kind == INSIDE:
            calls.append(inner.arguments[0])
            inner = inner.arguments[1]
        if inner.kind != PHI:
            return (atom,) if _allocates(inner) else ()
        own: tuple[Value, ...] = inner.allocations or ()
        for call in reversed(calls):
            own = tuple([self.values.atom(INSIDE, call, each) for each in own])
        return own


def _by_serial(value: Value) -> int:
    return value.serial


def extend(extents: Extents, pointer: Value, base: Value, offset: int, size: int | None) -> None:
    """Notes an access through a pointer, `size` bytes at an offset from a base that is the pointer or is made of it."""
    extent = None if size is None or pointer is not base else (offset, offset + size)
    known = extents.get(pointer, extent)
    extents[pointer] = None if known is None or extent is None else (min(known[0], extent[0]), max(known[1], extent[1]))


def allocated(atom: Value) -> bool:
    """Whether an atom is what an allocator returned, here or in a called function."""
    while atom.kind == INSIDE:
        atom = atom.arguments[1]
    return _allocates(atom)


def _allocates(atom: Value) -> bool:
    if atom.kind == OUT:
        return atom.arguments[2] == 0 and atom.arguments[1] in interface.HOST_ALLOCATORS
    if atom.kind != CALL:
        return False
    known = library.effect(atom.arguments[1])
    return known is not None and known.allocates
