"""A function of one block, for what is found out by looking at the code behind a call alone."""

from __future__ import annotations

from farlane.analyzer.graph.control_flow import FALL, RETURN, TAKEN, Block, ControlFlow, Edge
from farlane.analyzer.graph.program import Callee
from farlane.analyzer.machine.decoder import Decoder
from farlane.analyzer.machine.instruction import CALLER_SAVED

SITE = 0x1000
RET = bytes.fromhex("c3")


class Endings:
    """What is asked of `permissions.endings.Endings`."""

    def __init__(self, *ends: int) -> None:
        self._ends = ends

    def clobbered(self, callee: Callee) -> frozenset[int]:
        return frozenset(CALLER_SAVED)

    def ends(self, flow: ControlFlow, start: int) -> bool:
        return start in self._ends


def flow(*code: bytes) -> ControlFlow:
    """A function of one block that ends by a conditional jump over a return, and the two returns."""
    first = tuple(Decoder().decode(b"".join(code), SITE))
    fall, taken = first[-1].end, first[-1].end + 1
    blocks = {
        SITE: Block(SITE, first, (Edge(taken, TAKEN), Edge(fall, FALL)), ""),
        **{at: Block(at, tuple(Decoder().decode(RET, at)), (), RETURN) for at in (fall, taken)},
    }
    calls = {each.address: Callee("cudaGetLastError", None) for each in first if each.mnemonic == "call"}
    return ControlFlow("f", SITE, blocks, calls, ())
