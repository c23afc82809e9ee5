"""What judges of one loop share: the loop in its function (`Scope`), and their answers (`Dependence`)."""

from __future__ import annotations

from typing import NamedTuple

from farlane.analyzer.flow.result import Result
from farlane.analyzer.graph.structure import Loop, Structure
from farlane.analyzer.loops.dependence.ranges import Ranges
from farlane.analyzer.loops.dependence.stored import Stores
from farlane.analyzer.loops.model import Kind, Reason
from farlane.analyzer.loops.shape.body import Body
from farlane.analyzer.loops.shape.variables import induction_variables
from farlane.analyzer.machine.instruction import CALLEE_SAVED
from farlane.analyzer.values.expression import INITIAL, LOAD, OPERATION, Value, Values

Ways = dict[tuple[int, tuple[int, ...]], tuple[list[tuple[int, Value | None]], bool]]


class Scope:
    """What is known of a loop, whoever judges values there.

    Attributes:
        inductions: the loop's induction variables by their phis.
        addresses: of its instructions.
        stores: what the loop stores.
        memory: what all functions' analyses share.
        ways: what `LoopValues` found of branches.

    Args:
        body: what runs in one iteration.
        managed: whether the program has managed variables: any global variable may be one, which the device writes.
    """

    def __init__(
        self, structure: Structure, result: Result, values: Values, loop: Loop, body: Body, managed: bool = False
    ) -> None:
        self.structure, self.result, self.values, self.loop = structure, result, values, loop
        self.body, self.managed, self.memory = body, managed, result.memory
        blocks = structure.flow.blocks
        self.addresses = {i.address for block in loop.blocks for i in blocks[block].instructions}
        self.inductions = induction_variables(result, values, loop)
        ranges = Ranges(structure, result, values, loop, self.inductions)
        self.stores = Stores(structure, result, values, loop, self.inductions, ranges)
        self.ways: Ways = {}


PROTECTOR = 0x28  # fs:


class Dependence(NamedTuple):
    """The kinds of what varies in a value, and why it is unknown if it is."""

    kinds: frozenset[Kind] = frozenset()
    reasons: frozenset[Reason] = frozenset()

    def joined(self, other: Dependence) -> Dependence:
        if other is self or (other.kinds <= self.kinds and other.reasons <= self.reasons):
            return self
        if self.kinds <= other.kinds and self.reasons <= other.reasons:
            return other
        return Dependence(self.kinds | other.kinds, self.reasons | other.reasons)

    @property
    def kind(self) -> Kind:
        """One word for it: the least regular kind."""
        for kind in (Kind.UNKNOWN, Kind.LOAD, Kind.RESULT, Kind.INDUCTION, Kind.AFFINE):
            if kind in self.kinds:
                return kind
        return Kind.INVARIANT


INVARIANT = Dependence()


def stands_beside(value: Value) -> bool:
    """Whether it is stored beside a function's variables, in none of them: what it keeps of its caller's registers, and
    what the stack's protector compares in the end (of the thread's memory, at an offset that the C library's ABI
    fixes)."""
    if value.kind == LOAD:
        (atom, coefficient), *more = value.arguments[0].terms or ((value, 0),)
        own = atom.kind == OPERATION and atom.arguments[0] == "thread"
        return own and not more and coefficient == 1 and value.arguments[0].constant == PROTECTOR
    return value.kind == INITIAL and value.arguments[0] in CALLEE_SAVED


def unknown(reason: Reason) -> Dependence:
    return Dependence(frozenset({Kind.UNKNOWN}), frozenset({reason}))
