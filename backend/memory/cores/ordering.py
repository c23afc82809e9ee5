"""Each core's requests in order, and the fast mode's filter, compiled.

Owns the arrays that go to the compiled code and come back as a `Stream`. What the order is: schedule.py. What the filter leaves out: requests of a core for a page that is among
its last `recent` requests that were not left out. Where every reply fills and the least recently used entry goes, such a page is in the private TLB or on its way there, if
`recent` and the core's MSHRs together are fewer than the ways of a set: at most so many entries can have been used or filled since.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from farlane.backend.memory import native
from farlane.backend.memory.cores import places
from farlane.backend.memory.tlb.spec import Spec
from farlane.backend.memory.tlb.stream import Stream

Ints = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]  # rows of touches.py

_COUNT = places.SEEN + 1
_NOTHING = np.zeros((1, 0), np.int64)


def recent(spec: Spec) -> int:
    """How far back the filter of a hierarchy may look: 1, the request just before, where it could not be sure otherwise."""
    fills = spec.policy.fill == "always" and spec.policy.eviction == "lru"
    peers = spec.sharing in ("none", "perfect") or spec.policy.peer_fill == 1
    one_set = spec.private.entries == spec.private.ways
    return max(1, min(32, (spec.private.ways - spec.private.mshr) // 2)) if fills and peers and one_set else 1


def measure(words: Words, longest: Ints) -> None:
    """Raises, for each block, `longest` to the number of instructions that its warps had issued."""
    arrays = [_NOTHING] * _COUNT
    arrays[places.WORDS], arrays[places.LONGEST] = _rows(words), longest.reshape(1, -1)
    _enter(arrays, places.MEASURE)


class Window:
    """Requests of a window of time, gathered from the rows of what was touched: at most `size`."""

    def __init__(self, begin: int, end: int, issue_cycles: int, size: int) -> None:
        arrays = self._arrays = [_NOTHING] * _COUNT
        whole = np.empty(
            (3, size), np.int64
        )  # one array of all three: large arrays have large pages, fewer to touch first
        for row, place in enumerate((places.CORE, places.KEY, places.ASKED)):
            arrays[place] = whole[row : row + 1]
        arrays[places.PHASE] = np.arange(1 << places.WARP_BITS, dtype=np.int64).reshape(1, -1) % issue_cycles
        arrays[places.SPAN] = np.array([[begin, end, issue_cycles, 0]], np.int64)

    def __len__(self) -> int:
        return int(self._arrays[places.SPAN][0, places.TAKEN])

    def take(self, words: Words, start: Ints, where: Ints) -> None:
        """Those of a piece of a launch whose block b began in the cycle start[b] on the core where[b]."""
        self._arrays[places.WORDS] = _rows(words)
        self._arrays[places.START], self._arrays[places.WHERE] = _row(start), _row(where)
        self._arrays[places.SPAN][0, places.TAKEN] = _enter(self._arrays, places.TAKE)

    def ordered(self, last: Ints, keep: int = 0) -> Stream:
        """As the function."""
        core, key, asked = (self._arrays[place][:, : len(self)] for place in (places.CORE, places.KEY, places.ASKED))
        return _ordered(core, key, asked, int(self._arrays[places.SPAN][0, places.BEGIN]), last, keep)


def ordered(core: Ints, cycles: Ints, warp: Ints, page: Ints, begin: int, last: Ints, keep: int = 0) -> Stream:
    """The requests of a window of time that begins in the cycle `begin`. Advances `last`, each core's latest cycle. `keep`: the filter's `recent`, 0 for none."""
    return _ordered(_row(core), _row(cycles - begin << places.WARP_BITS | warp), _row(page), begin, last, keep)


def _ordered(core: Ints, key: Ints, asked: Ints, begin: int, last: Ints, keep: int) -> Stream:
    size, cores = asked.shape[1], len(last)
    if cores > places.DIGITS:
        raise ValueError(f"{cores} cores; this has room for {places.DIGITS}")
    arrays = _arrays(size, cores)
    arrays[places.CORE], arrays[places.KEY], arrays[places.ASKED] = core, key, asked
    arrays[places.ORDER], arrays[places.OTHER] = np.empty((2, size), np.int64), np.empty((2, size), np.int64)
    arrays[places.LAST], arrays[places.SPAN] = _row(last), np.array([[begin]], np.int64)
    found = _call(arrays, places.SORT, keep)
    last[:] = arrays[places.LAST][0]
    return found


def filtered(stream: Stream, keep: int) -> Stream:
    """A stream without the requests that the filter leaves out."""
    arrays = _arrays(0, stream.cores)
    for place, values in (
        (places.OFFSETS, stream.offsets),
        (places.PAGE, stream.page),
        (places.GAP, stream.gap),
        (places.LEFT, stream.left_out),
    ):
        arrays[place] = _row(values.copy())
    return _call(arrays, places.FILTER, keep)


def _row(values: Ints) -> Ints:
    return np.ascontiguousarray(values, np.int64).reshape(1, -1)


def _arrays(size: int, cores: int) -> list[Ints]:
    arrays = [_NOTHING] * _COUNT
    arrays[places.COUNTS] = np.empty((1, places.DIGITS), np.int64)
    arrays[places.OFFSETS] = np.zeros((1, cores + 1), np.int64)
    whole = np.empty((2, size), np.int64)
    arrays[places.PAGE], arrays[places.GAP] = whole[:1], whole[1:]
    arrays[places.LEFT] = np.zeros((1, size), np.int64)
    arrays[places.SEEN] = np.empty((2, places.RECENT), np.int64)
    return arrays


def _rows(words: Words) -> Ints:
    return np.ascontiguousarray(words).view(np.int64)


def _call(arrays: list[Ints], what: int, keep: int) -> Stream:
    count = _enter(arrays, what, keep)
    page, gap, left = (arrays[place][0, :count] for place in (places.PAGE, places.GAP, places.LEFT))
    return Stream(arrays[places.OFFSETS][0], page, gap, left)


def _enter(arrays: list[Ints], what: int, keep: int = 0) -> int:
    entry = native.entry(f"{__package__}.compiled", places.__name__)
    table = np.array([(one.ctypes.data, *one.shape) for one in arrays], np.int64)
    return entry(table.ctypes.data, what, keep)
