"""A second reading of the functions with loops that are not known when they are entered, which assumes of memory what
holds in nearly all programs and cannot be told from the code: see `Memory.separate`.

What it finds are predictions, which are checked when the program runs, and they are marked. Nothing else rests on it:
whether a test at a call is exact, on which `more` and `remaining` hang, is said by the first reading, and permissions
are proven on their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cached_property

from farlane.analyzer.flow.summary import Functions
from farlane.analyzer.graph.program import Program
from farlane.analyzer.limits import AnalysisError, Budget
from farlane.analyzer.loops.model import Continuation, LoopReport, Reason

MAXIMUM_VALUES = 40_000  # of the second reading of a whole binary
# What no assumption about memory makes known.
_STAYS = frozenset(
    {
        Reason.HOST_CALL,
        Reason.DEVICE_DATA,
        Reason.RETURN_CODE,
        Reason.INSTRUCTION,
        Reason.UNKNOWN_API,
        Reason.UNKNOWN_COPY,
        Reason.TOO_MANY,
        Reason.UNKNOWN_FUNCTION,
        Reason.IRREDUCIBLE,
        Reason.EXIT_ON_DEVICE_DATA,
        Reason.NO_EXIT,
    }
)


class SecondReading:
    """Of one binary.

    Args:
        describe: reports those of a function's loops that are wanted, by their headers.
    """

    def __init__(
        self,
        program: Program,
        budget: Budget,
        describe: Callable[[Functions, int, frozenset[int]], Iterable[LoopReport]],
    ) -> None:
        self._program, self._budget, self._describe = program, budget, describe

    @cached_property
    def _functions(self) -> Functions:
        return Functions(self._program, self._budget, separate=True, most=MAXIMUM_VALUES)

    def improved(self, reports: Sequence[LoopReport]) -> list[LoopReport]:
        """The reports, all of the loops of a function or of several, with those put in their place that describe a loop
        which was not."""
        wanting = dict.fromkeys(
            report.entry for report in reports if not report.described and _STAYS.isdisjoint(report.reasons)
        )
        found = {report.header: report for entry in wanting for report in self._read(entry, reports)}
        result = []
        for first in reports:
            second = None if first.described else found.get(first.header)
            result.append(first if second is None or not second.described else _put_in_place(first, second))
        return result

    def _read(self, entry: int, reports: Iterable[LoopReport]) -> list[LoopReport]:
        wanted = frozenset(each.header for each in reports if each.entry == entry and not each.described)
        try:
            return list(self._describe(self._functions, entry, wanted))
        except AnalysisError:
            return []  # what the first reading says stands


def _put_in_place(first: LoopReport, second: LoopReport) -> LoopReport:
    exact = {(each.site, each.chain): each for each in first.continuations if each.exact}
    continuations = [exact.get((each.site, each.chain)) or _inexact(each) for each in second.continuations]
    return replace(second, continuations=tuple(continuations), assumes_separate=True)


def _inexact(continuation: Continuation) -> Continuation:
    return replace(continuation, tests=tuple(replace(test, exact=False) for test in continuation.tests))
