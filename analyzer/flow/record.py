"""What one execution of a block found, and for how long that holds: the engine executes a block again only when it no longer does."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from farlane.analyzer.flow.call import CudaCall
from farlane.analyzer.flow.condition import Condition
from farlane.analyzer.flow.expression import Value
from farlane.analyzer.flow.memory import FrameStore, Store
from farlane.analyzer.flow.state import State


class Looked:
    """What an execution of a block, or the merge before it, looked at beside the states: as long as it has not changed, the result holds.

    `epochs`: of the program and of the function, when it began. `noted`: how many handles of kernels were known then. `asked`: the
    variables whose handles it asked for.
    """

    __slots__ = ("asked", "epochs", "noted")

    def __init__(self, epochs: tuple[int, int], noted: int) -> None:
        self.epochs, self.noted = epochs, noted
        self.asked: set[int] = set()


class InnerCalls(NamedTuple):
    """The CUDA calls of a called function, as its caller sees them. Most executions of a block are made again before anybody wants
    to know them, so they are found when `made` is called.

    Attributes:
        some: whether there are any.
    """

    some: bool
    made: Callable[[], list[CudaCall]]


NO_CALLS = InnerCalls(False, list)


class Record:
    """What one execution of a block found. `targets`: where it may go on, and with which states. `all_calls` and the rest are as in `engine.Result`.

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
