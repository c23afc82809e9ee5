"""The destination of a copy to the host: where it may be, and what touches it."""

from __future__ import annotations

from farlane.analyzer.externals import interface
from farlane.analyzer.externals.forms import BY_ADDRESS, DEVICE_TO_HOST, Copy
from farlane.analyzer.machine.instruction import RSP
from farlane.analyzer.permissions.abstract.arguments import host_memory, passed, structured_host
from farlane.analyzer.permissions.abstract.domain import (
    ANYTHING,
    CONSTANT,
    FRAME,
    GLOBAL,
    OUTSIDE,
    Heap,
    Objects,
    Value,
    constant,
)
from farlane.analyzer.permissions.abstract.memory import GIVEN, LEAVES, LOWEST, Access, State
from farlane.analyzer.permissions.abstract.operands import Refused


class Target:
    """The destination of a copy to the host, in all executions of its site: an object of the function's own, whose
    address no other code has. Raises Refused for any other."""

    def __init__(self, state: State, address: Value, size: int | None) -> None:
        self.objects: Objects = state.touched(address)
        self.low, self.high = state.span(address, size)
        self._refuse(state)

    def _refuse(self, state: State) -> None:
        if not self.objects or self.objects & {OUTSIDE, GLOBAL, ANYTHING}:
            raise Refused("the destination is no object of the function's own")
        if self.objects & state.escaped or ANYTHING in state.escaped:
            raise Refused("the destination's address is known elsewhere")
        stack = state.registers[RSP].number
        if FRAME in self.objects and self.low < stack:
            raise Refused(
                "the destination is somewhere in the frame" if self.low == LOWEST else "the destination is no more"
            )

    def touched(self, access: Access) -> bool:
        """Whether an access may be to the destination, or the program may go on anywhere."""
        if access.kind == GIVEN:
            return False
        if access.kind == LEAVES or ANYTHING in access.objects:
            return True
        if any(isinstance(each, Heap) and each in self.objects for each in access.objects):
            return True
        return FRAME in access.objects and FRAME in self.objects and access.low < self.high and self.low < access.high

    def text(self, stack: int) -> str:
        parts = []
        for each in sorted(self.objects, key=str):
            if isinstance(each, Heap):
                parts.append(f"memory allocated at {each.site[-1]:#x}")
            else:
                size = f"{self.high - self.low} bytes" if self.high < 2**40 else "an object"
                parts.append(f"{size} of the frame at rsp+{self.low - stack:#x}")
        return " or ".join(parts)


def copied(state: State, name: str) -> tuple[Value, int | None] | None:
    """Where a copy to the host goes, and how many bytes if that is known; None: it may be another copy."""
    structured = interface.STRUCTURED_COPIES.get(name)
    if structured is not None:
        source, target = (host_memory(state, structured, side) for side in (0, 1))
        return (structured_host(state, structured, 1), None) if target and source is False else None
    if name in interface.FROM_SYMBOL:
        form = Copy(0, 1, 2, kind=4)
    else:
        form = interface.COPIES[name]
    direction = form.direction
    if form.kind is not None:
        flavour = passed(state, form.kind, 4)
        direction = flavour.number & 0xFFFFFFFF if flavour.kind == CONSTANT else BY_ADDRESS
    if direction != DEVICE_TO_HOST:
        return None
    size = constant(-1) if form.size is None else passed(state, form.size)
    return passed(state, form.destination), size.number if size.kind == CONSTANT and size.number >= 0 else None
