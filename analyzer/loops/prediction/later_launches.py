"""What the later launches of an iteration are passed, told at the iteration's first launch.

Owns for which loops this is looked for, and that the manifest has all their arguments or none. A value is a symbol, so
what a place holds at the first call instruction is right where it is the same symbol as what the later call is passed:
a variable of the loop's head has one value in an iteration, and what the iteration makes anew on the way has a symbol
of its own. What memory holds is taken only where nothing on the way may change it. Predictions only.
"""

from __future__ import annotations

from collections.abc import Sequence

from farlane.analyzer.externals.interface import LAUNCH
from farlane.analyzer.flow.call import CudaCall
from farlane.analyzer.loops.model import Call, Class, Foretold, Kind, LoopReport
from farlane.analyzer.loops.prediction.continuation import Continuations
from farlane.analyzer.loops.prediction.location import Locator
from farlane.analyzer.values.expression import OPERATION, Value, Values

MOST = 16  # launches of an iteration
# Calls between them that may not reach the host: of errors, and those that a permission may answer at once.
BESIDE = frozenset(
    [
        *("cudaGetLastError", "cudaPeekAtLastError", "cudaDeviceSynchronize", "cudaStreamSynchronize"),
        *("cuCtxSynchronize", "cuStreamSynchronize"),
    ]
)
_SIZES = (1, 2, 4, 8)
_CONFIGURATION = {
    **dict.fromkeys(("grid.x", "grid.y", "grid.z", "block.x", "block.y", "block.z"), 4),
    **dict.fromkeys(("shared", "stream", "function"), 8),
}
_HALVES = ("grid.xy", "block.xy")


def wanted(report: LoopReport) -> bool:
    """Whether a loop is an iteration of several launches that is known when it is entered."""
    calls = report.calls
    launches = sum(call.name == LAUNCH for call in calls)
    if not 2 <= launches <= MOST or report.class_ == Class.NONE or report.trip_count is None:
        return False
    if calls[0].name != LAUNCH or any(call.conditional for call in calls):
        return False
    if not BESIDE.issuperset(call.name for call in calls if call.name != LAUNCH):
        return False
    if len({call.site for call in calls}) < len(calls):
        return False
    return any(each.site == calls[0].site and not each.chain and each.count for each in report.continuations)


class LaterLaunches:
    """Of one loop.

    Args:
        calls: as in the loop's report.
    """

    def __init__(self, values: Values, continuations: Continuations, calls: Sequence[CudaCall]) -> None:
        self._values, self._continuations, self._calls = values, continuations, calls

    def of(self, described: Sequence[Call]) -> tuple[tuple[Foretold, ...], ...]:
        """By call, what the manifest says of its arguments at the first call; () when something is not known."""
        locator = self._continuations.locator(self._calls[0])
        found: list[tuple[Foretold, ...]] = [()]
        for call, known in zip(self._calls[1:], described[1:], strict=True):
            if known.name != LAUNCH:
                found.append(())
                continue
            told = None if locator is None else self._call(locator, call, known)
            if told is None:
                return ()
            found.append(tuple(told))
        return tuple(found)

    def _call(self, locator: Locator, call: CudaCall, described: Call) -> list[Foretold] | None:
        found: list[Foretold] = []
        for (name, value), argument in zip(call.arguments, described.arguments, strict=True):
            if argument.kind not in (Kind.INVARIANT, Kind.AFFINE):
                return None
            size = argument.size if name.startswith("parameter ") else _CONFIGURATION.get(name, 4)
            if size not in _SIZES or (name not in _CONFIGURATION and name not in _HALVES and argument.size is None):
                return None  # a structure, an attribute
            if size == 8 and argument.size is not None and self._continuations.may_move(value.constant, call.chain):
                if not value.is_constant:
                    return None
                continue  # a number or an address: it is not told which
            parts = enumerate(self._halves(value)) if name in _HALVES else ((None, value),)
            for word, part in parts:
                place = locator.find(part, size)
                if place is None or not place.exact:
                    return None
                found.append(Foretold(name, word, place.formula))
        return found

    def _halves(self, value: Value) -> tuple[Value, Value]:
        """The lower four bytes, of no meaning above, and the upper ones."""
        if value.kind == OPERATION and value.arguments[0] == "pair":
            return value.arguments[1], value.arguments[2]
        return value, self._values.high_half(value)
