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


def recent(spec: Spec) -> int:
    """How far back the filter of a hierarchy may look: 1, the request just before, where it could not be sure otherwise."""
    fills = spec.policy.fill == "always" and spec.policy.eviction == "lru"
    peers = spec.sharing in ("none", "perfect") or spec.policy.peer_fill == 1
    one_set = spec.private.entries == spec.private.ways
    return max(1, min(32, (spec.private.ways - spec.private.mshr) // 2)) if fills and peers and one_set else 1


def ordered(core: Ints, cycles: Ints, warp: Ints, page: Ints, begin: int, last: Ints, keep: int = 0) -> Stream:
    """The requests of a window of time that begins in the cycle `begin`. Advances `last`, each core's latest cycle. `keep`: the filter's `recent`, 0 for none."""
    size, cores = len(page), len(last)
    if cores > places.DIGITS:
        raise ValueError(f"{cores} cores; this has room for {places.DIGITS}")
    arrays = _arrays(size, cores)
    arrays[places.CORE] = _row(core)
    arrays[places.KEY] = _row(cycles - begin << places.WARP_BITS | warp)
    arrays[places.ASKED] = _row(page)
    arrays[places.ORDER], arrays[places.OTHER] = np.empty((2, size), np.int64), np.empty((2, size), np.int64)
    arrays[places.LAST], arrays[places.BEGIN] = _row(last), np.array([[begin]], np.int64)
    found = _call(arrays, 1, keep)
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
    return _call(arrays, 0, keep)


def _row(values: Ints) -> Ints:
    return np.ascontiguousarray(values, np.int64).reshape(1, -1)


def _arrays(size: int, cores: int) -> list[Ints]:
    nothing = np.zeros((1, 0), np.int64)
    arrays = [nothing] * (places.SEEN + 1)
    arrays[places.COUNTS] = np.empty((1, places.DIGITS), np.int64)
    arrays[places.OFFSETS] = np.zeros((1, cores + 1), np.int64)
    arrays[places.PAGE], arrays[places.GAP] = np.empty((1, size), np.int64), np.empty((1, size), np.int64)
    arrays[places.LEFT] = np.zeros((1, size), np.int64)
    arrays[places.SEEN] = np.empty((2, places.RECENT), np.int64)
    return arrays


def _call(arrays: list[Ints], sort: int, keep: int) -> Stream:
    entry = native.entry(f"{__package__}.compiled", places.__name__)
    table = np.array([(one.ctypes.data, *one.shape) for one in arrays], np.int64)
    count = entry(table.ctypes.data, sort, keep)
    page, gap, left = (arrays[place][0, :count] for place in (places.PAGE, places.GAP, places.LEFT))
    return Stream(arrays[places.OFFSETS][0], page, gap, left)
