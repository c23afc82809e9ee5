"""What a loop may store where a load reads: in the function's own frame, in global variables, and elsewhere.

Owns which stores of the loop's blocks may touch what a load in the loop reads. What is stored there, and whether that
is known when the loop is entered, is judged elsewhere (dependence.py).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import cached_property
from typing import NamedTuple

from farlane.analyzer.flow.result import Result
from farlane.analyzer.graph.structure import Loop, Structure
from farlane.analyzer.loops.dependence.ranges import Ranges
from farlane.analyzer.loops.shape.variables import InductionVariable, induction_variables
from farlane.analyzer.values.addresses import Strided, apart, chosen_elsewhere, stride
from farlane.analyzer.values.expression import OUT, Value, Values
from farlane.analyzer.values.memory import FrameStore
from farlane.analyzer.values.state import State

_PIECE = 64  # bytes of the frame


class Written(NamedTuple):
    """A store that may touch what is read: where, and what; None: that is not followed."""

    block: int
    address: Value | None
    value: Value | None


class Stores:
    """Of one loop."""

    def __init__(
        self,
        structure: Structure,
        result: Result,
        values: Values,
        loop: Loop,
        inductions: Mapping[Value, InductionVariable],
        ranges: Ranges,
    ) -> None:
        self._structure, self._result, self._values, self._loop = structure, result, values, loop
        self._inductions, self._ranges = inductions, ranges
        self._inner: dict[int, dict[Value, InductionVariable]] = {}
        self._places: dict[tuple[Value, int | None], Strided | None] = {}

    def variables(self, inner: Loop) -> dict[Value, InductionVariable]:
        """The induction variables of a loop inside this one."""
        known = self._inner.get(inner.header)
        if known is None:
            known = self._inner[inner.header] = induction_variables(self._result, self._values, inner)
        return known

    def in_frame(self, load: Value, block: int, harmless: Collection[int]) -> Iterator[Written]:
        """The stores in the own frame within a load's reach, but for those of kinds that are harmless."""
        address, size, _ = load.arguments
        low, end = self._ranges.extent(address, size, block)
        if low is None:
            yield Written(block, None, None)
            return
        for index in self._near(low, end):
            each, store = self._in_frame[index]
            before = store.end is not None and store.end <= low
            behind = end is not None and store.start is not None and store.start >= end
            if (
                not before
                and not behind
                and store.what not in harmless
                and not self._apart(address, block, size, store, each)
                and not self._ends_before(store, each, low)
            ):
                yield Written(each, store.address, store.value)

    def _ends_before(self, store: FrameStore, where: int, low: int) -> bool:
        """Whether a store at an index that is bounded in this loop lies below an offset."""
        if store.end is not None or store.address is None or store.size is None or not store.address.stack:
            return False
        _, end = self._ranges.extent(store.address, store.size, where)
        return end is not None and end <= low

    @cached_property
    def _in_frame(self) -> list[tuple[int, FrameStore]]:
        """The loop's stores in the frame, each with its block."""
        return [(block, store) for block in self._loop.blocks for store in self._result.frame_stores.get(block, ())]

    @cached_property
    def _pieces(self) -> tuple[dict[int, list[int]], list[int]]:
        """Which of these touch a piece of the frame, by its number; and those that may touch many."""
        pieces: dict[int, list[int]] = {}
        wide: list[int] = []
        for index, (_, store) in enumerate(self._in_frame):
            if store.start is None or store.end is None or not 0 < store.end - store.start <= _PIECE:
                wide.append(index)
                continue
            for piece in range(store.start // _PIECE, (store.end - 1) // _PIECE + 1):
                pieces.setdefault(piece, []).append(index)
        return pieces, wide

    def _near(self, low: int, end: int | None) -> Iterable[int]:
        """The stores that may touch a part of the frame, in order: all of them where it is large."""
        if end is None or not 0 < end - low <= _PIECE:
            return range(len(self._in_frame))
        pieces, wide = self._pieces
        found = {*wide, *pieces.get(low // _PIECE, ()), *pieces.get((end - 1) // _PIECE, ())}
        return sorted(found)

    def _apart(self, address: Value, block: int, size: int, store: FrameStore, where: int) -> bool:
        places = self._strided(address, block)
        if places is None or store.address is None or store.size is None:
            return False
        stored = self._strided(store.address, where)
        return stored is not None and apart(places, size, stored, store.size)

    def in_globals(self, load: Value, block: int, handle: bool = False) -> Iterator[Written]:
        """The stores that may touch what a load reads of a global variable; a CUDA handle (`handle`) is taken to be
        reached by no pointer."""
        address, size, _ = load.arguments
        read = self._ranges.fixed(address, size, block)
        if read is None:
            yield Written(block, None, None)
            return
        low, end = read
        for each in self._loop.blocks:
            for store in self._result.stores_in.get(each, ()):
                if handle and store.address is not None and not store.address.is_constant:
                    continue
                if store.address is not None and self._leaves(store.address, store.size, each, low, end, size):
                    continue
                yield Written(each, store.address, store.value)

    def _leaves(self, address: Value, size: int | None, where: int, low: int, end: int | None, read: int) -> bool:
        """Whether a store leaves a part of the global variables alone, of which `read` bytes are read at once."""
        base, _ = self._values.base(address)
        if base.terms and not address.stack and self._result.memory.objects_of(base):
            return True
        stored = self._ranges.fixed(address, size or 1, where)
        if stored is None:
            return False
        first, last = stored
        before = size is not None and last is not None and last <= low
        behind = end is not None and end <= first
        return before or behind or (self._result.separate and not address.is_constant and size not in (None, read))

    def elsewhere(self, load: Value, state: State, steady: Callable[[Value], bool]) -> Iterator[Written]:
        """The stores outside the own frame that may touch what a load from there reads.

        Args:
            state: any of the function's.
            steady: whether a value is the same in all iterations.
        """
        address, size, _ = load.arguments
        base, offset = self._values.base(address)
        own = state.memory.objects_of(base)
        if any(each.kind == OUT for each in own):
            yield Written(self._loop.header, None, None)  # the device may write it, too
            return
        read = self._behind(state, base, own, steady)
        for each in self._loop.blocks:
            for store in self._result.stores_in.get(each, ()):
                if store.address is not None:
                    where, at = self._values.base(store.address)
                    theirs = state.memory.objects_of(where) if where.terms else ()
                    inside = store.address.stack and not chosen_elsewhere(where)
                    if own and (not where.terms or inside):
                        continue
                    if own and theirs and not any(one in own for one in theirs):
                        continue
                    # Fields of structures side by side, behind one pointer.
                    stored = self._behind(state, where, theirs, steady) if own == theirs else None
                    if read is not None and stored is not None and store.size is not None:
                        beside = apart((offset, read), size, (at, stored), store.size)
                        if beside:
                            continue
                yield Written(each, store.address, store.value)

    def _behind(self, state: State, base: Value, own: tuple[Value, ...], steady: Callable[[Value], bool]) -> int | None:
        """How far apart the places are that an address behind the pointer into an object may be; None: it is no such
        pointer, which stays, with an index."""
        distance, pointers = 0, 0
        for atom, coefficient in base.terms:
            if len(own) == 1 and coefficient == 1 and state.memory.objects_of(atom) == own and steady(atom):
                pointers += 1
            else:
                distance = math.gcd(distance, coefficient - 2**64 if coefficient >> 63 else coefficient)
        return distance if pointers == 1 else None

    def _strided(self, address: Value, block: int) -> Strided | None:
        """Where an address of the frame may be, its induction variables followed from where they begin."""
        inner = self._structure.innermost(block)
        if inner is not None and (inner.header == self._loop.header or inner.irreducible):
            inner = None
        key = (address, None if inner is None else inner.header)
        if key not in self._places:
            self._places[key] = self._found_strided(address, inner)
        return self._places[key]

    def _found_strided(self, address: Value, inner: Loop | None) -> Strided | None:
        variables = [self._inductions]
        if inner is not None:
            variables.append(self.variables(inner))
        steps = 0
        for atom, coefficient in address.terms:
            variable = next((each[atom] for each in variables if atom in each), None)
            if atom.stack and variable is not None and coefficient == 1 and variable.size == 8:
                address = self._values.combine(self._values.combine(address, atom, -1), variable.initial)
                steps = math.gcd(steps, variable.step)
        found = stride(self._values, address)
        return None if found is None else (found[0], math.gcd(found[1], steps))
