"""What is known of a loop before anything in it is judged: its addresses, induction variables, stores, and paths."""

from __future__ import annotations

from farlane.analyzer.flow.engine import Result
from farlane.analyzer.flow.expression import Value, Values
from farlane.analyzer.graph.structure import Loop, Structure
from farlane.analyzer.loops.body import Body
from farlane.analyzer.loops.ranges import Ranges
from farlane.analyzer.loops.stored import Stores
from farlane.analyzer.loops.variables import induction_variables

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
