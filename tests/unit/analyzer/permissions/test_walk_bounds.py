"""How much is executed abstractly for one function, and for the program."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from farlane.analyzer.graph.program import Program
from farlane.analyzer.loader import elf
from farlane.analyzer.machine.decoder import Decoder
from farlane.analyzer.permissions.abstract.facts import PROGRAM, TOTAL, Regions
from farlane.analyzer.permissions.abstract.operands import Refused
from farlane.analyzer.permissions.abstract.walk import LEAST, Walker


class Spending(Walker):
    """Instead of executing a function, takes as many instructions as it says."""

    wanted = 0
    taken = 0

    def _regions(self, start: int) -> Regions:
        self.taken = 0
        while self.taken < self.wanted:
            self.taken += 100
            if self.spend(100) < 0:
                raise Refused("takes too long")
        return Regions(self.structure(start))


def test_functions_that_take_too_long_leave_less_to_the_next(build: Callable[..., Path]) -> None:
    program = Program(elf.load(build("int main(void) { return 0; }")), Decoder())
    walker = Spending(program)
    (start,) = (start for start, function in program.ranges.items() if function.name == "main")

    def taken(wanted: int) -> int:
        walker.wanted = wanted
        walker.regions(start)
        return walker.taken

    assert taken(TOTAL) == TOTAL
    walker.wanted, limits = PROGRAM, []
    for _ in range(6):
        with pytest.raises(Refused):
            walker.regions(start)
        limits.append(walker.taken - 100)
    assert limits == [TOTAL, TOTAL // 2, TOTAL // 4, LEAST, LEAST, LEAST]
    assert taken(LEAST) == LEAST, "what is small is still executed"
