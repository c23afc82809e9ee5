"""Describes one loop: its calls with their arguments, class, trip count, and the reasons that stand in the way."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from functools import cache

from farlane.analyzer.analysis.shares import Asking
from farlane.analyzer.externals import interface
from farlane.analyzer.externals.forms import DEVICE_TO_DEVICE, DEVICE_TO_HOST, HOST_TO_DEVICE, HOST_TO_HOST
from farlane.analyzer.flow.call import BY_HANDLE, CudaCall
from farlane.analyzer.flow.function import Analysis
from farlane.analyzer.flow.summary import Functions
from farlane.analyzer.graph.structure import Loop
from farlane.analyzer.loops.dependence.called import Called, Wholes, arises, is_handle
from farlane.analyzer.loops.dependence.deciding import Deciding
from farlane.analyzer.loops.dependence.judging import LoopValues
from farlane.analyzer.loops.dependence.scope import Dependence, Scope
from farlane.analyzer.loops.model import (
    Argument,
    Call,
    Class,
    Continuation,
    Foretold,
    Induction,
    Kind,
    LoopReport,
    Reason,
)
from farlane.analyzer.loops.prediction.continuation import Continuations
from farlane.analyzer.loops.prediction.counting import Counting
from farlane.analyzer.loops.prediction.later_launches import LaterLaunches, wanted
from farlane.analyzer.loops.prediction.text import place, show
from farlane.analyzer.loops.shape.body import Body
from farlane.analyzer.permissions.model import Permission
from farlane.analyzer.values.expression import LOAD, Value

# Calls in called functions, of a loop: of one with more their arguments are not judged, as nothing could use them.
MOST_CALLED = 1000


class Describer:
    """Describes one loop.

    Args:
        hidden: the blocks that call functions which are not known, and may call CUDA.
    """

    def __init__(
        self,
        functions: Functions,
        prover: Asking,
        wholes: Wholes,
        analysis: Analysis,
        loop: Loop,
        hidden: Collection[int] = (),
    ) -> None:
        self._functions, self._prover, self._loop, self._hidden = functions, prover, loop, hidden
        self._analysis, self._structure, self._result = analysis, analysis.structure, analysis.result
        self._flow = analysis.structure.flow
        self._body = Body(analysis, loop)
        self._scope = Scope(self._structure, self._result, functions.values, loop, self._body, wholes.managed)
        self._values = LoopValues(self._scope)
        self._on_the_way: LoopValues | None = None
        self._names = {phi: f"i{index}" if index else "i" for index, phi in enumerate(self._values.inductions)}
        self._deciding = Deciding(self._result, loop, self._body, self._values)
        self._called = Called(functions, wholes, analysis, self._values)
        self._continuations = Continuations(functions, analysis, loop, self._values, self._body)
        self._reasons: set[Reason] = set()
        self._own: dict[int, dict[str, Value]] = {}
        self._arguments: dict[tuple[str, Value, Dependence, bool, int | None], Argument] = {}
        self._places = [
            block for block in self._structure.order if block in loop.blocks and block in self._result.calls
        ]
        called = sum(bool(call.chain) for block in self._places for call in self._result.calls[block])
        self._too_many = called > MOST_CALLED

    def report(self, line: str, in_callees: bool) -> LoopReport:
        if self._loop.irreducible:
            self._reasons.add(Reason.IRREDUCIBLE)
        calls: list[Call] = []
        continuations: list[Continuation] = []
        reading: set[int] = set()
        kinds: set[Kind] = set()
        for block in self._places:
            for call in self._result.calls[block]:
                described, found = self._call(call, block)
                if _wants_answer(call.name, call.kind):
                    reading.add(len(calls))
                calls.append(described)
                kinds |= found
                continuation = self._continuations.of(call, block) if in_callees or not call.chain else None
                if continuation is not None:
                    continuations.append(continuation)
        if any(block in self._result.unknown_calls for block in self._loop.blocks):
            self._reasons.add(Reason.UNKNOWN_FUNCTION)
        if not calls:
            kinds.add(Kind.UNKNOWN)  # what is called is not known
        places = self._places or [block for block in self._hidden if block in self._loop.blocks]
        counting = Counting(self._functions, self._analysis, self._loop, self._values, self._body, places)
        trips = counting.count()
        self._reasons |= counting.reasons
        report = LoopReport(
            function=self._flow.name,
            entry=self._flow.entry,
            header=self._loop.header,
            parent=self._loop.parent,
            depth=self._loop.depth,
            line=line,
            calls=tuple(calls),
            class_=_class(kinds),
            inductions=self._inductions(),
            trip_count=trips,
            reasons=tuple(reason for reason in Reason if reason in self._reasons),
            continuations=tuple(continuations),
            runs=_runs(calls, reading),
            assumes_success=not self._loop.blocks.isdisjoint(self._result.assumed),
        )
        return replace(report, foretold=self._foretold(report)) if wanted(report) else report

    def _foretold(self, report: LoopReport) -> tuple[tuple[Foretold, ...], ...]:
        calls = [call for block in self._places for call in self._result.calls[block]]
        return LaterLaunches(self._functions.values, self._continuations, calls).of(report.calls)

    def _call(self, call: CudaCall, block: int) -> tuple[Call, set[Kind]]:
        arguments, kinds = self._judged(call, block) if call.arguments else ((), set())
        conditional = not self._body.always(block)
        if conditional:
            nested = self._structure.innermost(block)
            inner = nested is not None and nested.header != self._loop.header
            self._doubt({Reason.NESTED if inner else Reason.CONDITIONAL}, self._deciding.known, block)
        if call.optional or call.repeated:
            doubts = ({Reason.CONDITIONAL} if call.optional else set()) | (
                {Reason.CALLEE_LOOP} if call.repeated else set()
            )
            self._doubt(doubts, self._called.known, call, block)
        conditional = conditional or call.optional or call.repeated
        obstacle = _obstacle(call.name, call.kind)
        if obstacle is not None:
            self._reasons.add(obstacle)
        kernel = None
        if call.name == interface.LAUNCH:
            kernel = self._kernel(call.kernel)
            if call.kernel is None or call.array is not None or call.references:
                self._reasons.add(Reason.UNKNOWN_KERNEL)
                kinds.add(Kind.UNKNOWN)
        permission = None if call.name == interface.LAUNCH else self._permission(call)
        return Call(call.site, call.chain, call.name, kernel, arguments, conditional, permission), kinds

    def _judged(self, call: CudaCall, block: int) -> tuple[tuple[Argument, ...], set[Kind]]:
        """A call's arguments, and of what kinds they are."""
        if self._too_many and call.chain:
            self._reasons.add(Reason.TOO_MANY)
            return tuple([_unjudged(name) for name, _ in call.arguments]), {Kind.UNKNOWN}
        arguments = []
        kinds: set[Kind] = set()
        fixed = self._fixed(call) if call.chain else {}
        inside: dict[str, Dependence] | None = None
        sizes = {f"parameter {index}": size for index, size in enumerate(call.sizes)} if call.sizes else {}
        for name, value in call.arguments:
            if value.kind == LOAD and is_handle(call.name, name):
                self._values.handle(value)
            dependence = self._judge(call, value).of(value, block)
            if call.chain and Kind.UNKNOWN in dependence.kinds:
                if inside is None:
                    inside = self._called.arguments(call, block)
                judged = inside.get(name)
                if judged is not None and Kind.UNKNOWN not in judged.kinds:
                    dependence = judged
            if dependence.kinds:
                kinds |= dependence.kinds
            known = not call.chain or (value.is_constant and fixed.get(name) is value)
            arguments.append(self._argument(name, value, dependence, known, sizes.get(name)))
        return tuple(arguments), kinds

    def _doubt(self, reasons: set[Reason], known: Callable[..., bool], *about: object) -> None:
        """Reasons that stand in the way unless something is known, which is asked only where they were not found
        before."""
        if not reasons <= self._reasons and not known(*about):
            self._reasons |= reasons

    def _argument(self, name: str, value: Value, dependence: Dependence, known: bool, size: int | None) -> Argument:
        """An argument of a call; each is made once, as many calls have the same. `known`: its number may be told."""
        key = (name, value, dependence, known, size)
        made = self._arguments.get(key)
        if made is None:
            kind = dependence.kind
            self._reasons |= dependence.reasons
            reasons = _in_order(dependence.reasons)
            number = self._values.step(value) if kind == Kind.AFFINE else value.signed if value.is_constant else None
            text = show(value, self._names)
            made = self._arguments[key] = Argument(name, kind, text, reasons, number if known else None, size)
        return made

    def _judge(self, call: CudaCall, value: Value) -> LoopValues:
        """Who judges an argument: what arises in the function that makes the call is not what that function returns."""
        if not call.chain or not arises(value, call.chain[0]):
            return self._values
        if self._on_the_way is None:
            self._on_the_way = LoopValues(self._scope)
        return self._on_the_way

    def _fixed(self, call: CudaCall) -> dict[str, Value]:
        """What a call's arguments are in its own function, whichever caller it has."""
        known = self._own.get(call.site)
        if known is None:
            known = self._own[call.site] = self._found_fixed(call)
        return known

    def _found_fixed(self, call: CudaCall) -> dict[str, Value]:
        function = self._functions.holding(call.site)
        if function == self._flow.entry:
            return self._analysis.arguments(call.site)
        own = None if function is None else self._functions.analysis(function)
        return own.arguments(call.site) if own else {}

    def _permission(self, call: CudaCall) -> Permission | None:
        function = self._functions.holding(call.site)
        if function is None:
            return None
        if call.chain and _wants_answer(call.name, call.kind):
            return self._prover.reached(self._flow.entry, call.chain, function, call.site)
        return self._prover.permission(function, call.site)

    def _kernel(self, host_function: int | None) -> str | None:
        if host_function in (None, BY_HANDLE):
            return None
        function = self._functions.program.ranges.get(host_function)
        return function.name if function else f"{host_function:#x}"

    def _inductions(self) -> tuple[Induction, ...]:
        found = []
        for phi, variable in self._values.inductions.items():
            key = phi.arguments[2]
            initial = show(variable.initial, {})
            found.append(Induction(self._names[phi], (place(key),), initial, str(variable.step)))
        return tuple(found)


@cache
def _unjudged(name: str) -> Argument:
    return Argument(name, Kind.UNKNOWN, "?", (Reason.TOO_MANY,))


@cache
def _wants_answer(name: str, kind: int | None) -> bool:
    """Whether the host gets something that only the device knows: unless it is proven unread, a point of waiting."""
    if name in interface.COPIES or name in interface.STRUCTURED_COPIES:
        return kind not in (HOST_TO_HOST, HOST_TO_DEVICE, DEVICE_TO_DEVICE)
    known = interface.roles(name) is not None or name == interface.LAUNCH
    return name in interface.FROM_SYMBOL or name in interface.QUERIES or not known


@cache
def _obstacle(name: str, kind: int | None) -> Reason | None:
    """What a call means for deferring its loop."""
    if name in interface.COPIES or name in interface.STRUCTURED_COPIES:
        if kind == DEVICE_TO_HOST:
            return Reason.COPIES_TO_HOST
        return None if kind in (HOST_TO_HOST, HOST_TO_DEVICE, DEVICE_TO_DEVICE) else Reason.UNKNOWN_COPY
    if name in interface.FROM_SYMBOL:
        return Reason.COPIES_TO_HOST
    if name in interface.SYNCHRONIZES:
        return Reason.SYNCHRONIZES
    if name in interface.QUERIES:
        return Reason.QUERIES
    return Reason.UNKNOWN_API if interface.roles(name) is None and name != interface.LAUNCH else None


def _runs(calls: list[Call], reading: set[int]) -> tuple[tuple[int, ...], ...]:
    """The longest runs of calls, in program order, without one that wants an answer."""
    found: list[list[int]] = [[]]
    for index in range(len(calls)):
        if index in reading:
            found.append([])
        else:
            found[-1].append(index)
    return tuple(tuple(run) for run in found if run)


@cache
def _in_order(reasons: frozenset[Reason]) -> tuple[Reason, ...]:
    return tuple([reason for reason in Reason if reason in reasons])


def _class(kinds: Iterable[Kind]) -> Class:
    found = set(kinds)
    if Kind.UNKNOWN in found:
        return Class.NONE
    if not found:
        return Class.ONE
    if found <= {Kind.AFFINE, Kind.INDUCTION}:
        return Class.TWO
    if found == {Kind.RESULT}:
        return Class.THREE
    return Class.MIXED
