"""What a computed call calls, as far as a prediction may guess: it is checked when the program runs, so permissions
know nothing of it.

- An address that is known, or a slot that the loader fills.
- An indirect function (IFUNC): those that the function which chooses for the loader may return.
- Behind a comparison of the address with a function's, by which a compiler guesses itself before it calls: that
  function.
- Through an object's table of virtual functions: those that stand at this place in the file's own tables. An object of
  a class of another file has another table; of these, only the character types of the standard streams are known
  (`std::endl`).

Source: Itanium C++ ABI, 2.5, Virtual Table Layout.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable

from farlane.analyzer.externals.names import NEVER_RETURNS
from farlane.analyzer.graph.program import UNKNOWN, Callee, Program
from farlane.analyzer.values.expression import LOAD, Value, Values

WIDEN, WIDEN_INIT = "_ZNKSt5ctypeIcE8do_widenEc", "_ZNKSt5ctypeIcE13_M_widen_initEv"
_WIDEN_OFFSET = 48  # in the table of a character type
MAXIMUM_TABLES = 20_000
MAXIMUM_CALLEES = 8


class Computed:
    """Answers for one program."""

    def __init__(self, program: Program, values: Values, returned: Callable[[int], Iterable[Value]]) -> None:
        """`returned`: the values that a function may return, given its start; none when it is not known."""
        self._program, self._values, self._returned = program, values, returned
        self._tables: dict[int, dict[Callee, None]] | None = None

    def callees(self, target: Value, first: Value, compared: Iterable[Value], widens: bool) -> list[Callee]:
        """What may be called at an address; empty when nothing is known.

        Args:
            first: the call's first argument: of a virtual function, the object, which begins with the address of its
                table.
            compared: what the address was found to differ from just before.
            widens: whether a character type was told just before to make its table for `widen`.
        """
        found = self._at(target)
        if found != UNKNOWN:
            return [found]
        chooser = self._chooser(target)
        if chooser is not None:
            return self._chosen(chooser)
        offset = self._offset(target, first)
        for other in compared:
            guessed = self._at(other)
            if guessed != UNKNOWN:
                return [guessed]
        if offset is None:
            return []
        if widens and offset == _WIDEN_OFFSET:
            return [Callee(WIDEN, None)]
        standing = self._virtual().get(offset, {})
        return list(standing) if len(standing) <= MAXIMUM_CALLEES else []

    def _at(self, target: Value) -> Callee:
        """The function at an address that is known."""
        if target.is_constant:
            return self._program.resolve(target.constant, None)
        if (slot := _slot(target)) is not None:
            image = self._program.image
            segment = image.segment(slot)
            fixed = slot in image.slots or (segment is not None and segment.name.startswith((".data.rel.ro", ".got")))
            return self._program.resolve(None, slot) if fixed else UNKNOWN
        return UNKNOWN

    def _chooser(self, target: Value) -> int | None:
        """The function that chooses what stands at an address: an indirect function's entry in the PLT, or its slot."""
        at = target.constant if target.is_constant else _slot(target)
        return None if at is None else self._program.image.choosers.get(at)

    def _chosen(self, chooser: int) -> list[Callee]:
        found: dict[Callee, None] = {}
        for value in self._returned(chooser):
            callee = self._at(value)
            if callee == UNKNOWN or len(found) == MAXIMUM_CALLEES:
                return []
            found[callee] = None
        return list(found)

    def _offset(self, target: Value, first: Value) -> int | None:
        """Where in an object's table of virtual functions an address was read."""
        if target.kind != LOAD or target.arguments[1] != 8:
            return None
        table, offset = self._values.base(target.arguments[0])
        whole = table.kind == LOAD and len(table.terms) == 1 and table.terms[0][1] == 1
        reads = whole and table.arguments[1] == 8 and table.arguments[0] is first
        return offset if reads and 0 <= offset < 8 * MAXIMUM_TABLES and offset % 8 == 0 else None

    def _virtual(self) -> dict[int, dict[Callee, None]]:
        """Offset -> the functions that stand there in the file's tables: a table follows a number (0: of the object
        itself) and the address of the class' own description, which is no code."""
        if self._tables is not None:
            return self._tables
        tables: dict[int, dict[Callee, None]] = defaultdict(dict)
        self._tables = tables
        image = self._program.image
        for count, (slot, described) in enumerate(sorted(image.pointers.items())):
            if count >= MAXIMUM_TABLES:
                break
            about, own = image.segment(described), image.segment(slot)
            if about is None or about.code or own is None or not own.name.startswith(".data.rel.ro"):
                continue
            if image.read(slot - 8, 8) != bytes(8) or slot - 8 in image.pointers:
                continue
            at = slot + 8
            while (callee := self._entry(at)) is not None:
                if callee.name not in NEVER_RETURNS:  # a pure virtual function has no function
                    tables[at - slot - 8][callee] = None
                at += 8
        return tables

    def _entry(self, slot: int) -> Callee | None:
        image = self._program.image
        if slot not in image.pointers and slot not in image.slots:
            return None
        callee = self._program.resolve(None, slot)
        return None if callee == UNKNOWN else callee


def _slot(target: Value) -> int | None:
    """The place, at a known address, that an address was read from."""
    whole = target.kind == LOAD and target.arguments[0].is_constant and target.arguments[1] == 8
    return target.arguments[0].constant if whole else None
