"""What the analysis of a function found (`Result`); and what one execution of a block found (`Record`), and for how
long that holds: the engine executes a block again only when it no longer does."""

from __future__ import annotations

from collections.abc import Callable, Set
from dataclasses import dataclass, field
from typing import NamedTuple

from farlane.analyzer.flow.call import CudaCall
from farlane.analyzer.graph.control_flow import ControlFlow
from farlane.analyzer.values.condition import Condition
from farlane.analyzer.values.expression import Value
from farlane.analyzer.values.memory import Extents, FrameStore, Memory, Store
from farlane.analyzer.values.state import State


class Looked:
    """What an execution of a block, or the merge before it, looked at beside the states: as long as it has not changed,
    the result holds.

    `epochs`: of the program and of the function, when it began. `noted`: how many handles of kernels were known then.
        `asked`: the
    variables whose handles it asked for.
    """

    __slots__ = ("asked", "epochs", "noted")

    def __init__(self, epochs: tuple[int, int], noted: int) -> None:
        self.epochs, self.noted = epochs, noted
        self.asked: set[int] = set()


class InnerCalls(NamedTuple):
    """The CUDA calls of a called function, as its caller sees them. Most executions of a block are made again before
    anybody wants to know them, so they are found when `made` is called.

    Attributes:
        some: whether there are any.
    """

    some: bool
    made: Callable[[], list[CudaCall]]


NO_CALLS = InnerCalls(False, list)


class Record:
    """What one execution of a block found. `targets`: where it may go on, and with which states. `all_calls` and the
    rest are as in `engine.Result`.

    `thrown`, `thrown_frame`: what is stored on the way to the blocks `handlers`, when its last call throws.
    """

    __slots__ = (
        "after",
        "assumed",
        "before",
        "calls",
        "condition",
        "cut",
        "frame_stores",
        "handlers",
        "looked",
        "sites",
        "stores",
        "targets",
        "test",
        "thrown",
        "thrown_frame",
        "unknown",
    )

    def __init__(self, looked: Looked, after: State) -> None:
        self.looked, self.after = looked, after
        self.calls: list[CudaCall | InnerCalls] = []
        self.sites: dict[int, State] = {}
        self.before: dict[int, State] = {}
        self.stores: list[Store] = []
        self.frame_stores: list[FrameStore] = []
        self.unknown: list[int] = []
        self.targets: list[tuple[int, State]] = []
        self.test: Value | None = None
        self.assumed: Value | None = None
        self.condition: Condition | None = None
        self.cut = False
        self.thrown: list[Store] = []
        self.thrown_frame: list[FrameStore] = []
        self.handlers: list[int] = []

    def all_calls(self) -> list[CudaCall]:
        """The CUDA calls, those of called functions included."""
        found: list[CudaCall] = []
        for call in self.calls:
            if isinstance(call, InnerCalls):
                found += call.made()
            else:
                found.append(call)
        return found


END = -1  # the pseudo block in which all returns meet
PhiInputs = dict[Value, dict[int, Value]]


@dataclass
class Result:
    """What the analysis of a function found.

    Attributes:
        memory: what it shares with those of other functions.
        phis: phi -> predecessor block -> value.
        calls: block -> the CUDA calls made in it, in order, those of callees included.
        conditions: block -> the condition under which its conditional branch is taken.
        tests: block -> the flags that its conditional branch reads, or the address that its jump through a table takes.
        headers: header of a loop -> the state when it is entered, from outside or by a back edge.
        executed: edges that may run, as long as CUDA's calls succeed.
        assumed: block -> the flags of its branch, which error codes decide and which goes the way of success.
        sites: call instruction that is a CUDA call, leads to one, or returns what its function computed -> the state
            before it.
        before: call instruction that calls a function of this file -> the state before it.
        end: the state in which all returns meet; None when the function never returns.
        stores: what is stored outside the own frame, callees' stores included, block by block.
        stores_in: the same by block.
        frame_stores: block -> what is stored in the own frame.
        straight: whether there is only one path through the function.
        unknown_calls: block -> call instructions whose effects are not known.
        cut: whether blocks were left out, here or in a called function, that may store before an exception leaves the
            function.
        used: what the function was given, as registers, through which it accesses memory, when `separate`, and where
            from there.
        separate: whether pointers that were read from memory were taken to point into objects of their own
            (`Memory.separate`).
        bottom: as `Memory.bottom`.
    """

    memory: Memory
    phis: PhiInputs = field(default_factory=dict)
    calls: dict[int, list[CudaCall]] = field(default_factory=dict)
    conditions: dict[int, Condition] = field(default_factory=dict)
    tests: dict[int, Value] = field(default_factory=dict)
    headers: dict[int, State] = field(default_factory=dict)
    executed: set[tuple[int, int]] = field(default_factory=set)
    assumed: dict[int, Value] = field(default_factory=dict)
    sites: dict[int, State] = field(default_factory=dict)
    before: dict[int, State] = field(default_factory=dict)
    end: State | None = None
    stores: list[Store] = field(default_factory=list)
    stores_in: dict[int, list[Store]] = field(default_factory=dict)
    frame_stores: dict[int, list[FrameStore]] = field(default_factory=dict)
    straight: bool = False
    unknown_calls: dict[int, list[int]] = field(default_factory=dict)
    cut: bool = False
    used: Extents = field(default_factory=dict)
    separate: bool = False
    bottom: int | None = None

    def add_left_out(self, flow: ControlFlow, wanted: Set[int]) -> None:
        """Of the blocks that were left out, all edges may run behind one that does."""
        work = [target for _, target in self.executed if target not in wanted]
        self.cut = self.cut or bool(work)
        seen = set(work)
        while work:
            start = work.pop()
            for edge in flow.blocks[start].edges:
                self.executed.add((start, edge.target))
                if edge.target not in seen:
                    seen.add(edge.target)
                    work.append(edge.target)

    def keep(self, start: int, record: Record) -> None:
        """Takes over what the last execution of a block found."""
        self.cut = self.cut or record.cut
        self.frame_stores.setdefault(start, []).extend(record.frame_stores)
        self.stores += record.stores
        self.stores_in.setdefault(start, []).extend(record.stores)
        if record.handlers:
            self.stores += record.thrown
        for handler in record.handlers:
            self.frame_stores.setdefault(handler, []).extend(record.thrown_frame)
            self.stores_in.setdefault(handler, []).extend(record.thrown)
        self.sites.update(record.sites)
        self.before.update(record.before)
        for target, _ in record.targets:
            self.executed.add((start, target))
        if record.calls:
            self.calls[start] = record.all_calls()
        if record.unknown:
            self.unknown_calls[start] = record.unknown
        if record.test is not None:
            self.tests[start] = record.test
        if record.assumed is not None:
            self.assumed[start] = record.assumed
        if record.condition is not None:
            self.conditions[start] = record.condition
