"""One function's analysis: its graph, its values, and what callers ask of them."""

from __future__ import annotations

from farlane.analyzer.flow.given import origins, stays_inside
from farlane.analyzer.flow.result import Result
from farlane.analyzer.graph.control_flow import LEAVING
from farlane.analyzer.graph.structure import Structure
from farlane.analyzer.values.expression import INITIAL, PHI, Value
from farlane.analyzer.values.memory import Extents, Memory, Origins, extend

_Stored = tuple[Value, Value | None, Value | None]  # address, value, length
_Cell = tuple[Value, int, int, Value]  # base, offset, size, value


class Analysis:
    """A function's graph and its values.

    Attributes:
        untouched: the registers that calls may change and this function leaves alone; None: not yet looked for.
    """

    def __init__(self, structure: Structure, result: Result) -> None:
        self.structure, self.result = structure, result
        self.untouched: list[int] | None = None
        self._seen: list[tuple[int, bool, bool]] | None = None
        self._arguments: dict[int, dict[str, Value]] | None = None
        self._stored: tuple[list[_Stored], list[_Cell]] | None = None
        self._made_of: dict[Value, Origins] = {}
        self._reaches: bool | None = None
        self._through: Extents | None = None
        self._owned: dict[Value, bool] = {}

    def made_of(self, value: Value, memory: Memory) -> Origins:
        """Of what a value is made as an address."""
        known = self._made_of.get(value)
        if known is None:
            known = self._made_of[value] = origins(value, self.result, memory)
        return known

    def stored_through(self, memory: Memory) -> Extents:
        """What the function was given through which it stores, as registers, and where from there; None: anywhere."""
        if self._through is None:
            self._through = {}
            for store in self.result.stores:
                if store.address is None:
                    continue
                base, offset = memory.values.base(store.address)
                for own in memory.objects_of(base):
                    if own.kind == INITIAL:
                        extend(self._through, own, base, offset, store.size)
        return self._through

    def stores_anywhere(self, memory: Memory) -> bool:
        """Whether it stores through pointers that may be any it reaches."""
        if self._reaches is None:
            addresses = (store.address for store in self.result.stores if store.address is not None)
            self._reaches = any(self.made_of(address, memory).anything for address in addresses)
        return self._reaches

    def forget(self) -> None:
        """The result was changed: what was looked up in its calls is looked up anew."""
        self._arguments = None

    def arguments(self, site: int) -> dict[str, Value]:
        """What a CUDA call of the function's own is given, whichever caller that has; nothing where there is none at
        `site`."""
        if self._arguments is None:
            self._arguments = {}
            for made in self.result.calls.values():
                for call in made:
                    if not call.chain and call.site not in self._arguments:
                        self._arguments[call.site] = dict(call.arguments)
        return self._arguments.get(site, {})

    def seen(self) -> list[tuple[int, bool, bool]]:
        """The blocks whose CUDA calls a caller sees, each with whether it is in a loop, and whether it can be
        avoided."""
        if self._seen is None:
            structure = self.structure
            returning = self.returning()
            # A block beside some way to a return can be avoided; only those on it have to be looked at.
            way = self._way(returning)
            # Calls on the way to the end of the program are not seen again by the caller.
            self._seen = [
                (
                    block,
                    structure.innermost(block) is not None,
                    (bool(way) and block not in way) or structure.flow.entry in self.returning(without=block),
                )
                for block in sorted(returning & self.result.calls.keys())
            ]
        return self._seen

    def stored(self, memory: Memory) -> tuple[list[_Stored], list[_Cell]]:
        """What the function stored outside its frame, each address with each value and length once, as most places are
        stored to often; and what certainly stands there at the end."""
        if self._stored is None:
            end, values = self.result.end, memory.values
            assert end is not None
            stores = [
                (store.address, store.value, store.length if store.size is None else values.constant(store.size))
                for store in self.result.stores
                if store.address is not None and not (memory.separate and self._own(store.address, memory))
            ]
            cells = [
                (base, offset, size, value)
                for base, held in sorted(end.cells.items(), key=_by_serial)
                for (offset, size), value in sorted(held.items(), key=_by_place)
                if not end.in_own_frame(values.add(base, offset), size)
            ]
            self._stored = list(dict.fromkeys(stores)), cells
        return self._stored

    def _own(self, address: Value, memory: Memory) -> bool:
        """Whether an address that is chosen in the function lies in what its caller does not know of."""
        base, _ = memory.values.base(address)
        if base not in self._owned:
            self._owned[base] = any(atom.kind == PHI for atom, _ in base.terms) and stays_inside(
                base, self.result, memory
            )
        return self._owned[base]

    def _way(self, returning: set[int]) -> set[int]:
        """The blocks on one way from the entry to a return; none when there is no such way."""
        flow, executed = self.structure.flow, self.result.executed
        before: dict[int, int | None] = {flow.entry: None} if flow.entry in returning else {}
        work = list(before)
        for start in work:  # grows
            block = flow.blocks[start]
            if block.end in LEAVING:
                found: set[int] = set()
                at: int | None = start
                while at is not None:
                    found.add(at)
                    at = before[at]
                return found
            for edge in block.edges:
                if edge.target in returning and edge.target not in before and (start, edge.target) in executed:
                    before[edge.target] = start
                    work.append(edge.target)
        return set()

    def returning(self, without: int | None = None) -> set[int]:
        """The blocks from which the function returns along edges that may run and do not touch the block `without`."""
        flow = self.structure.flow
        found = {start for start, block in flow.blocks.items() if block.end in LEAVING and start != without}
        work = list(found)
        while work:
            target = work.pop()
            for source in self.structure.predecessors[target]:
                runs = (source, target) in self.result.executed
                if runs and source != without and source not in found:
                    found.add(source)
                    work.append(source)
        return found


def _by_place(item: tuple[tuple[int, int], Value]) -> tuple[int, int]:
    return item[0]


def _by_serial(item: tuple[Value, object]) -> int:
    return item[0].serial
