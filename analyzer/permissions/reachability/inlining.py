"""A function with some calls replaced by what they call: for a copy that stands in a callee of the loop's function.

`walk` executes callees in place, so what it found of an activation is in the terms of the caller's frame already. Here the
graphs of the activations on one chain of calls become one graph: the block with the call is cut behind it, leads to the
callee's entry, and the callee's returns lead to the rest. All further questions are asked of that graph as of any
function's.

A site in a callee may be reached by other chains as well. Which one it was, the return addresses on the stack say:
`guard` is the condition. It identifies the activations because the functions on the chain are called by calls: one that
ends in a jump to another function of this file, or to an unknown place, is refused.
"""

from __future__ import annotations

from collections.abc import Iterator

from farlane.analyzer.externals import library
from farlane.analyzer.externals.names import is_cuda
from farlane.analyzer.graph.control_flow import (
    EXCEPTION,
    FALL,
    GOES_ON,
    JUMP,
    RETURN,
    TAIL,
    UNRESOLVED,
    Block,
    ControlFlow,
    Edge,
)
from farlane.analyzer.graph.structure import Structure
from farlane.analyzer.loader.image import Image
from farlane.analyzer.machine.instruction import RSP
from farlane.analyzer.permissions.abstract.domain import EXACT
from farlane.analyzer.permissions.abstract.facts import Regions
from farlane.analyzer.permissions.abstract.memory import State
from farlane.analyzer.permissions.abstract.operands import Refused
from farlane.analyzer.permissions.reachability.expressions import ONE, Expression, both, placed


def inlined(regions: Regions, chain: tuple[int, ...]) -> Regions:
    """The regions of a function with the calls of a chain replaced; raises Refused."""
    if not chain:
        return regions
    call, rest = chain[0], chain[1:]
    if call not in regions.inner or call not in regions.sites:
        raise Refused(f"the function called at {call:#x} is not followed")
    return _replaced(regions, call, inlined(regions.inner[call], rest))


def _replaced(outer: Regions, call: int, inner: Regions) -> Regions:
    flow, callee = outer.structure.flow, inner.structure.flow
    block = flow.holding(call)
    assert block is not None
    instruction = next(i for i in block.instructions if i.address == call)
    _check(callee)
    pads = {edge.target for edge in block.edges if edge.kind == EXCEPTION}
    if instruction.mnemonic != "call" or pads & set(outer.edges.get(block.start, ())):
        raise Refused(f"what follows the call at {call:#x} is not known")
    head = tuple(i for i in block.instructions if i.address <= call)
    tail = tuple(i for i in block.instructions if i.address > call)
    behind = instruction.end
    if not tail and outer.edges.get(block.start) != [behind]:
        raise Refused(f"the call at {call:#x} does not come back")

    blocks = {**flow.blocks, **callee.blocks}
    blocks[block.start] = Block(block.start, head, (Edge(callee.entry, JUMP),))
    result = Regions(outer.structure, {**outer.before, **inner.before}, {**outer.accesses, **inner.accesses})
    result.edges = {**outer.edges, **inner.edges, block.start: [callee.entry]}
    result.sites = {**outer.sites, **inner.sites}
    result.escaped = {**outer.escaped, **inner.escaped}
    result.expanded = outer.expanded | inner.expanded | {call}
    accesses = outer.accesses[block.start]
    before = outer.sites[call]
    result.accesses[block.start] = [access for access in accesses if access.at < call]
    result.escaped[block.start] = before.escaped
    if tail:
        blocks[behind] = Block(behind, tail, block.edges, block.end)
        result.before[behind] = before
        result.edges[behind] = outer.edges[block.start]
        result.accesses[behind] = [access for access in accesses if access.at > call]
        result.escaped[behind] = outer.escaped[block.start]
    for each in callee.blocks.values():
        if each.end == RETURN:
            blocks[each.start] = Block(each.start, each.instructions, (Edge(behind, FALL),), GOES_ON)
            if each.start in inner.before:
                result.edges[each.start] = [behind]
    calls = {address: target for address, target in {**flow.calls, **callee.calls}.items() if address != call}
    blocks = _reachable(blocks, flow.entry)  # without the landing pads of a call that throws nothing
    result.before = {block: state for block, state in result.before.items() if block in blocks}
    result.structure = Structure(ControlFlow(flow.name, flow.entry, blocks, calls, ()))
    return result


def _reachable(blocks: dict[int, Block], entry: int) -> dict[int, Block]:
    found, work = {entry}, [entry]
    while work:
        for edge in blocks[work.pop()].edges:
            if edge.target not in found:
                found.add(edge.target)
                work.append(edge.target)
    return {start: block for start, block in blocks.items() if start in found}


def _check(flow: ControlFlow) -> None:
    """Refuses functions whose activations their return addresses do not identify, or which never return."""
    if not any(block.end == RETURN for block in flow.blocks.values()):
        raise Refused(f"{flow.name} does not return")
    for block in flow.blocks.values():
        if block.end == UNRESOLVED:
            raise Refused(f"a computed jump in {flow.name}")
        if block.end == TAIL:
            callee = flow.calls.get(block.instructions[-1].address)
            if (
                callee is None
                or callee.address is not None
                or not (is_cuda(callee.name) or callee.name in library.TRUSTED)
            ):
                raise Refused(f"{flow.name} ends in a jump to another function")


def guard(image: Image, regions: Regions, chain: tuple[int, ...]) -> Expression:
    """That the functions on the stack were called by a chain's calls; raises Refused.

    Args:
        regions: of the function at the chain's beginning.
    """
    found = ONE
    for at, state in _states(regions, chain):
        stack = state.registers[RSP]
        if stack.kind != EXACT:
            raise Refused(f"the stack pointer is not known at {at:#x}")
        behind = placed(image, _behind(regions, chain, at))
        if behind is None:
            raise Refused("where the file is loaded is not known")
        found = both(found, ("eq", ("cell", stack.number - 8, 8), behind))
    return found


def _states(regions: Regions, chain: tuple[int, ...]) -> Iterator[tuple[int, State]]:
    for call in chain:
        yield call, regions.sites[call]
        regions = regions.inner[call]


def _behind(regions: Regions, chain: tuple[int, ...], call: int) -> int:
    for each in chain:
        if each == call:
            break
        regions = regions.inner[each]
    block = regions.structure.flow.holding(call)
    assert block is not None
    return next(i.end for i in block.instructions if i.address == call)
