"""The program as a whole: who calls whom, what returns, which code belongs together, what reaches CUDA.

Made from a quick sweep over all functions (`Decoder.sweep`); no block or operand is looked at. Calls are resolved by
name through the PLT and the GOT. A call of an unknown target is a call of `UNKNOWN`.
"""

from __future__ import annotations

import bisect
from collections import defaultdict
from collections.abc import Callable
from functools import cached_property
from typing import NamedTuple

from farlane.analyzer.externals.names import NEVER_RETURNS, is_cuda
from farlane.analyzer.graph.reach import circles, reached
from farlane.analyzer.loader.image import Function, Image
from farlane.analyzer.machine.decoder import Decoder
from farlane.analyzer.machine.instruction import Flow


class Callee(NamedTuple):
    """What a call calls: a function of this file (its address), or an imported one (address None)."""

    name: str
    address: int | None


UNKNOWN = Callee("", None)


class Program:
    """Calls, parts and returns of an image.

    Attributes:
        ranges: start -> function or part.
        owner: start of a part (".cold") -> start of the function it belongs to.
        never_returns: starts of functions of this file that never return.
        graphs: start of a function -> its control-flow graph, once `control_flow.build` has made it.
        structures: the same for its structure and `structure.build`.
        split: the same for `splitting.build`.
        kernels: what its kernels are passed, once `kernels.of` has been asked.
        callees: start of a function -> what it calls, its parts' calls included.
    """

    def __init__(self, image: Image, decoder: Decoder) -> None:
        self.image = image
        self.decoder = decoder
        self.graphs: dict[int, object] = {}
        self.structures: dict[int, object] = {}
        self.split: dict[int, object] = {}
        self.kernels: object | None = None
        self.ranges: dict[int, Function] = {function.start: function for function in image.functions}
        self._flows: dict[int, list[Flow]] = {}
        self._repeating: dict[int, bool] = {}
        self._resolved: dict[tuple[int | None, int | None], Callee] = {}
        for function in image.functions:
            code = image.read(function.start, function.end - function.start) or b""
            self._flows[function.start] = decoder.sweep(code, function.start)
        self._places = {start: [flow.address for flow in flows] for start, flows in self._flows.items()}
        self.owner = self._parts()
        self._members: dict[int, list[int]] = defaultdict(list)
        for start in self.ranges:
            self._members[self.owner.get(start, start)].append(start)
        self.never_returns = self._never_returning()
        self.callees = {start: self._calls(start) for start in self.functions()}

    def functions(self) -> list[int]:
        """The starts of functions, parts left out."""
        return [start for start in self.ranges if start not in self.owner]

    def parts(self, start: int) -> list[Function]:
        """A function's own range and its parts."""
        return [self.ranges[member] for member in self._members[start]]

    def resolve(self, target: int | None, slot: int | None) -> Callee:
        """What a direct target, or a target read from a fixed slot, is."""
        known = self._resolved.get((target, slot))
        if known is None:
            known = self._resolved[target, slot] = self._callee(target, slot)
        return known

    def _callee(self, target: int | None, slot: int | None) -> Callee:
        image = self.image
        if target is not None and target in image.stubs:
            return self._import(image.stubs[target])
        if target is None and slot is not None and image.stays(slot):
            if slot in image.pointers:
                target = image.pointers[slot]
            elif slot in image.slots:
                return self._import(image.slots[slot])
        if target is not None and target in self.ranges:
            return Callee(self.ranges[target].name, target)
        return UNKNOWN

    def _import(self, name: str) -> Callee:
        return Callee(name, None)

    def returns(self, callee: Callee) -> bool:
        if callee.address is not None:
            return callee.address not in self.never_returns
        return callee.name not in NEVER_RETURNS

    def jumps_anywhere(self, start: int) -> bool:
        """Whether a function holds a jump to a computed place, which may be another function."""
        flows = (flow for member in self._members[start] for flow in self._flows[member])
        return any(flow.kind == "jump" and flow.target is None and flow.slot is None for flow in flows)

    def may_loop(self, start: int) -> bool:
        """Whether a function may hold a loop: False where all jumps lead onward, its own range coming first and then
        its parts."""
        members = self._members[start]
        spans = [(self.ranges[member].start, self.ranges[member].end) for member in sorted(members, key=start.__ne__)]

        def place(address: int) -> tuple[int, int]:
            inside = (index for index, (low, high) in enumerate(spans) if low <= address < high)
            return next(inside, len(spans)), address

        for member in members:
            if not self._decoded(member):
                return True
            for flow in self._flows[member]:
                if flow.kind not in ("jump", "branch") or flow.slot is not None:
                    continue
                if flow.target is None or place(flow.target) <= place(flow.address):
                    return True
            if any(place(pad) < place(end) for _, end, pad in self.ranges[member].landing_pads):
                return True
        return False

    def may_repeat(self, start: int) -> bool:
        """Whether a call that may reach CUDA may stand in a loop of a function, by its jumps and calls alone: True where
        they do not tell."""
        known = self._repeating.get(start)
        if known is None:
            known = self._repeating[start] = self._may_repeat(start)
        return known

    def _may_repeat(self, start: int) -> bool:
        if not self.may_loop(start):
            return False
        members = sorted(self._members[start])
        flows = [flow for member in members for flow in self._flows[member]]
        if self.jumps_anywhere(start) or not all(self._decoded(member) for member in members):
            return True
        places = [flow.address for flow in flows]
        pads = [pad for member in members for pad in self.ranges[member].landing_pads]

        def behind(address: int) -> int:
            return bisect.bisect_left(places, address)

        onward: dict[int, set[int]] = {len(flows): set()}
        for index, flow in enumerate(flows):
            call = flow.kind == "call"
            comes_back = self.returns(self.resolve(flow.target, flow.slot)) if call else flow.kind == "branch"
            targets = onward[index] = {index + 1} if comes_back else set()
            if call:
                targets.update(behind(pad) for low, high, pad in pads if low <= flow.address < high)
            elif flow.target is not None and not self._leaves(start, flow):
                targets.add(behind(flow.target))
        return any(index < len(flows) and self._reaches_cuda(flows[index]) for index in circles(onward))

    def _decoded(self, member: int) -> bool:
        """Whether a range of code was decoded to its end."""
        flows = self._flows[member]
        return bool(flows) and flows[-1].address + flows[-1].size == self.ranges[member].end

    def _reaches_cuda(self, flow: Flow) -> bool:
        callee = self.resolve(flow.target, flow.slot)
        if callee.address is None:
            return is_cuda(callee.name)
        return self.owner.get(callee.address, callee.address) in self.cuda

    @cached_property
    def called(self) -> set[int]:
        """The functions that a function of this file calls, as far as the code names them."""
        owner = self.owner
        calls = (callee for callees in self.callees.values() for callee in callees)
        return {owner.get(callee.address, callee.address) for callee in calls if callee.address is not None}

    @cached_property
    def cuda(self) -> set[int]:
        """The functions that contain a CUDA call or may call, however deep, one that does."""
        return self.reaching(is_cuda)

    def reaching(self, wanted: Callable[[str], bool]) -> set[int]:
        """The functions from which, however deep, an imported function of such a name may be called."""
        callers: dict[int, set[int]] = defaultdict(set)
        direct: set[int] = set()
        for start, callees in self.callees.items():
            for callee in callees:
                if callee.address is not None:
                    callers[self.owner.get(callee.address, callee.address)].add(start)
                elif wanted(callee.name):
                    direct.add(start)
        return reached(direct, callers)

    @cached_property
    def circles(self) -> dict[int, tuple[int, ...]]:
        """Function -> the functions that it calls, however deep, and that call it, itself included; for those that call
        themselves, and no CUDA."""
        onward: dict[int, list[int]] = {}
        for start, callees in self.callees.items():
            inner = {self.owner.get(each.address, each.address) for each in callees if each.address is not None}
            if start not in self.cuda:
                onward[start] = sorted(each for each in inner if each in self.callees and each not in self.cuda)
        return circles(onward)

    def _calls(self, start: int) -> set[Callee]:
        found: set[Callee] = set()
        for member in self._members[start]:
            for flow in self._flows[member]:
                if flow.kind == "call" or (flow.kind in ("jump", "branch") and self._leaves(start, flow)):
                    found.add(self.resolve(flow.target, flow.slot))
        return found

    def _leaves(self, start: int, flow: Flow) -> bool:
        if flow.target is None:
            return flow.slot is not None
        inside = self.image.function_at(flow.target)
        return inside is None or self.owner.get(inside.start, inside.start) != start

    def _parts(self) -> dict[int, int]:
        """Ranges that are no functions: never called, entered only by jumps of one other function.

        A symbol ending in ".cold" says so, the exception tables do, and a jump into the range's middle or a conditional
        one, since a tail call is a plain jump to a start.
        """
        called = {*self.image.pointers.values(), *self.image.choosers.values(), self.image.entry}
        entered: dict[int, set[int]] = defaultdict(set)
        evident: set[int] = set()
        for start, flows in self._flows.items():
            for _, _, pad in self.ranges[start].landing_pads:
                inside = self.image.function_at(pad)
                if inside is not None and inside.start != start:
                    entered[inside.start].add(start)
                    evident.add(inside.start)
            for flow in flows:
                inside = self.image.function_at(flow.target) if flow.target is not None else None
                if inside is None or inside.start == start or flow.target is None:
                    continue
                if flow.kind == "call":
                    called.add(flow.target)
                    continue
                entered[inside.start].add(start)
                if flow.kind == "branch" or flow.target != inside.start:
                    evident.add(inside.start)
        parts: dict[int, int] = {}
        for start, sources in entered.items():
            part = self.ranges[start]
            said = part.continued or ".cold" in part.name
            if start not in called and len(sources) == 1 and (said or (start in evident and self.image.stripped)):
                parts[start] = next(iter(sources))
        return {start: owner for start, owner in parts.items() if owner not in parts}

    def _never_returning(self) -> set[int]:
        found: set[int] = set()
        starts = self.functions()
        while True:
            new = {start for start in starts if start not in found and not self._may_return(start, found)}
            if not new:
                return found
            found |= new

    def _may_return(self, start: int, never: set[int]) -> bool:
        members = set(self._members[start])
        pads = [pad for member in members for _, _, pad in self.ranges[member].landing_pads]
        seen: set[int] = set()
        work = [start, *pads]
        while work:
            address = work.pop()
            inside = self.image.function_at(address)
            if inside is None:
                return True
            if inside.start not in members:
                if inside.start not in never:
                    return True
                continue
            flows = self._flows[inside.start]
            index = bisect.bisect_left(self._places[inside.start], address)
            if index == len(flows):
                return True
            flow = flows[index]
            if flow.address in seen:
                continue
            seen.add(flow.address)
            if flow.kind == "return":
                return True
            if flow.kind in ("jump", "branch"):
                callee = self.resolve(flow.target, flow.slot)
                if (flow.target is not None and callee == UNKNOWN) or (
                    flow.target is not None and callee.address is not None
                ):
                    work.append(flow.target)
                elif callee == UNKNOWN or callee.name not in NEVER_RETURNS:
                    return True
            if flow.kind == "call":
                callee = self.resolve(flow.target, flow.slot)
                gone = callee.address in never if callee.address is not None else callee.name in NEVER_RETURNS
                if gone:
                    continue
            if flow.kind in ("call", "branch"):
                work.append(flow.address + flow.size)
        return False
