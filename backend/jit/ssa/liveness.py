"""Which values of a kind are live where: what must be carried when a warp changes between the two versions of a block.

Source: standard backward data flow; a phi reads its operands at the end of the predecessors and is defined at its block's start.
"""

from __future__ import annotations

from collections.abc import Callable

from farlane.backend.jit.ptx.model import registers_of
from farlane.backend.jit.ssa.cfg import Graph
from farlane.backend.jit.ssa.ssa import Value


def compute(graph: Graph, wanted: Callable[[Value], bool]) -> tuple[list[list[Value]], list[list[Value]]]:
    """(values live at each block's start, its own phis included; values live at its end)."""
    count = len(graph.blocks)
    used: list[set[Value]] = [set() for _ in range(count)]
    defined: list[set[Value]] = [set() for _ in range(count)]
    phi_reads: list[set[Value]] = [set() for _ in range(count)]
    phis: list[set[Value]] = [set() for _ in range(count)]
    for index, block in enumerate(graph.blocks):
        for phi in block.phis:
            if wanted(phi.value):
                phis[index].add(phi.value)
            for source, value in phi.operands.items():
                if wanted(value):
                    phi_reads[source].add(value)
        own = defined[index]
        own |= phis[index]
        for instruction in block.instructions:
            for operand in instruction.sources:
                used[index] |= {value for value in registers_of(operand) if wanted(value) and value not in own}
            own |= {value for value in instruction.destinations if value is not None and wanted(value)}
        used[index] |= {value for value in registers_of(block.condition) if wanted(value) and value not in own}
    live_in: list[set[Value]] = [set() for _ in range(count)]
    live_out: list[set[Value]] = [set() for _ in range(count)]
    changed = True
    while changed:
        changed = False
        for index in range(count - 1, -1, -1):
            out = set(phi_reads[index])
            for target in graph.blocks[index].successors:
                out |= live_in[target] - phis[target]
            into = used[index] | (out - defined[index]) | phis[index]
            if out != live_out[index] or into != live_in[index]:
                live_out[index], live_in[index] = out, into
                changed = True

    def order(values: set[Value]) -> list[Value]:
        return sorted(values, key=lambda value: value.number)

    return [order(values) for values in live_in], [order(values) for values in live_out]
