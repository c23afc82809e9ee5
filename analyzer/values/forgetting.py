"""What is no longer known at one point of a function: cells that a store covers, and addresses of the frame that have
escaped."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from farlane.analyzer.values.addresses import apart, pieces, stride, unextended
from farlane.analyzer.values.cells import Cells, Held
from farlane.analyzer.values.expression import Value
from farlane.analyzer.values.memory import OTHER, FrameStore, Store


class Forgetting(Cells):
    """Takes out of the cells what may have changed, and notes each store for the analysis of the block."""

    __slots__ = ()

    def _changing(self, base: Value) -> dict[tuple[int, int], Value]:
        """The cells at a base, to be changed."""
        cells = self.cells.get(base)
        if cells is None:
            cells = self.cells[base] = {}
        elif self.own is None or base not in self.own:
            cells = self.cells[base] = cells.copy()
        else:
            return cells
        self.make_own(base)
        return cells

    def make_own(self, base: Value) -> None:
        """The cells at a base are this state's alone."""
        if self.own is None:
            self.own = {base}
        else:
            self.own.add(base)

    def _anything(self, base: Value) -> bool:
        """Whether an address with this base, outside the frame, may point anywhere."""
        return bool(base.terms) and not self.memory.objects_of(base)

    def _names_kernel(self, value: Value) -> bool:
        """Whether a launch stub notes, in a variable of its own, the host function that stands for its kernel."""
        if not self.memory.in_stub or not value.is_constant:
            return False
        function = self.memory.image.function_at(value.constant)
        return function is not None and function.start == value.constant

    def _note(self, address: Value, size: int | None, value: Value | None, length: Value | None = None) -> None:
        if self.memory.log is None:
            return
        if not self.in_own_frame(address, size):
            if self.memory.separate:
                self.memory.use(*self.memory.values.base(address), size)
            self.memory.log.append(Store(address, size, value, False, length if size is None else None))

    def in_own_frame(self, address: Value, size: int | None) -> bool:
        """Whether a store at an address goes to the function's own frame, and nowhere else."""
        base, offset = self.memory.values.base(address)
        if base is self.memory.values.stack_pointer:
            return offset < 8
        if not address.stack or size is None:
            return False
        end = self._end(address, size)
        return end is not None and end <= 0

    def _note_frame(self, address: Value, size: int | None, what: int = OTHER, value: Value | None = None) -> None:
        if self.memory.frame_log is None:
            return
        if address.stack:
            end = None if size is None else self._end(address, size)
            self.memory.frame_log.append(
                FrameStore(self.memory.low(address), end, self.memory.storing or what, address, size, value)
            )

    def escape(self, value: Value) -> None:
        """An address of the frame became known elsewhere, and with it every address stored in what it reaches."""
        if not value.stack:
            return
        lowest = self.memory.lowest(value)
        while self.escaped is None or lowest < self.escaped:
            self.escaped = lowest
            lowest = self._lowest_held(lowest)

    def _lowest_held(self, lowest: int) -> int:
        """The lowest of an offset of the frame and those whose addresses are stored from there on."""
        held = self.cells.get(self.memory.values.stack_pointer, {}).items()
        return min(
            [lowest, *(self.memory.lowest(value) for (at, size), value in held if value.stack and at + size > lowest)]
        )

    def lowest_reached(self, given: Iterable[Value]) -> int | None:
        """The lowest offset of the frame that is reached by some of its addresses; None: there are none."""
        lowest = min(map(self.memory.lowest, given), default=None)
        while lowest is not None and (held := self._lowest_held(lowest)) < lowest:
            lowest = held
        return lowest

    def escape_range(self, address: Value) -> None:
        """What lies from an address on was copied to where it is not followed."""
        if address.stack:
            self._escape_cells(self.memory.lowest(address), None)

    def _escape_cells(self, start: int, end: int | None) -> None:
        held = [
            value
            for (offset, size), value in self.cells.get(self.memory.values.stack_pointer, {}).items()
            if value.stack and offset + size > start and (end is None or offset < end)
        ]
        for value in held:
            self.escape(value)

    def _drop_frame(self, address: Value, end: int | None, size: int | None = None) -> None:
        """Forgets the frame from the lowest offset upward that an address may mean, up to an end if there is one.

        `size`: of the store, when it is known: what lies between the places where it may be, which are a stride apart,
            is what it was.
        """
        lowest, stack_pointer = self.memory.lowest(address), self.memory.values.stack_pointer
        kept: Held = {}
        if size is not None:
            cells = self.cells.get(stack_pointer, {})
            beside = {key: value for key, value in cells.items() if self._beside(address, size, key, value)}
            if beside:
                kept[stack_pointer] = beside
                self._drop_keys(stack_pointer, beside)
        self._escape_cells(lowest, end)
        self._drop(stack_pointer, lowest, end)
        for base, beside in kept.items():
            self._changing(base).update(beside)

    def _beside(self, address: Value, size: int, place: tuple[int, int], held: Value) -> bool:
        """Whether a store at a computed place of the frame leaves a cell alone."""
        strided = stride(self.memory.values, address)
        if strided is None:
            return False
        if apart(strided, size, (place[0], 0), place[1]):
            return True
        if not self.memory.separate:
            return False
        return place[1] != size or any(unextended(atom) is unextended(held) for atom, _ in address.terms)

    def _overwrite(self, base: Value, offset: int, size: int, key: int, version: Value) -> None:
        """Drops what a store covers. The rest of a cell that it covers in part is kept, in cells of 1, 2 or 4 bytes."""
        cells = self.cells.get(base)
        if not cells:
            return
        values = self.memory.values
        end = offset + size
        touched = [k for k in cells if k[0] < end and k[0] + k[1] > offset]
        if not touched:
            return
        cells = self._changing(base)
        left: dict[tuple[int, int], Value] = {}
        for start, wide in touched:
            value = cells.pop((start, wide))
            if wide > 8:
                self.registers[key] = version
                continue
            for at, kept in (*pieces(start, offset), *pieces(end, start + wide)):
                shifted = value
                if at > start:
                    shifted = values.operation("shr", value, values.constant(8 * (at - start)), size=8)
                left[at, kept] = values.zero_extended(shifted, kept)
        for place, value in left.items():
            cells.setdefault(place, value)

    def _drop(self, base: Value, start: int, end: int | None) -> None:
        cells = self.cells.get(base)
        if cells:
            gone = [k for k in cells if k[0] + k[1] > start and (end is None or k[0] < end)]
            if gone:
                cells = self._changing(base)
                for key in gone:
                    del cells[key]

    def _drop_keys(self, base: Value, keys: Iterable[tuple[int, int]]) -> None:
        cells = self._changing(base)
        for key in keys:
            del cells[key]

    def _forget(self, which: Callable[[Value], bool]) -> None:
        if len(self.cells) > 1 or self.memory.values.stack_pointer not in self.cells:
            for base in [base for base in self.cells if which(base)]:
                del self.cells[base]
                if self.own is not None:
                    self.own.discard(base)
                self.kept.pop(base, None)
