"""The geometry of the mesh: who sits where, which links a message takes.

Core c sits at column c % columns, row c // columns. Routing is dimension-ordered: along the row first, then along the column. Each router has four
outgoing links (east, west, south, north).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

EAST, WEST, SOUTH, NORTH = range(4)


def distance(source: int, target: int, columns: int) -> int:
    """Hops between two cores."""
    return abs(source % columns - target % columns) + abs(source // columns - target // columns)


def links(source: int, target: int, columns: int) -> list[int]:
    """The links of a message's way, in order; a link is its router's number times four plus its direction."""
    way = []
    at = source
    while at % columns != target % columns:
        east = target % columns > at % columns
        way.append(at * 4 + (EAST if east else WEST))
        at += 1 if east else -1
    while at != target:
        south = target > at
        way.append(at * 4 + (SOUTH if south else NORTH))
        at += columns if south else -columns
    return way


def neighbours(core: int, cores: int, columns: int, radius: int) -> list[int]:
    """All other cores within `radius` hops, nearest first, lower numbers first among equals."""
    near = [(distance(core, other, columns), other) for other in range(cores) if other != core]
    return [other for hops, other in sorted(near) if hops <= radius]


def distances(cores: int, columns: int) -> npt.NDArray[np.int32]:
    """Hops between all pairs."""
    number = np.arange(cores, dtype=np.int32)
    column, row = number % columns, number // columns
    hops: npt.NDArray[np.int32] = np.abs(column[:, None] - column[None, :]) + np.abs(row[:, None] - row[None, :])
    return hops


def nearest(hops: npt.NDArray[Any], radius: int) -> npt.NDArray[np.int64]:
    """Of each core how many others are within a radius, and then they, as `neighbours` has them; what is behind them means nothing. `hops`: between all pairs."""
    count = ((hops > 0) & (hops <= radius)).sum(axis=1)
    order = np.argsort(hops, axis=1, kind="stable")[:, 1:]  # the core itself is at no distance
    return np.column_stack([count, order[:, : int(count.max())]]).astype(np.int64)


def rings(hops: npt.NDArray[Any], radius: int) -> npt.NDArray[np.int64]:
    """[core, ring, word]: a bit for each other core; the first ring has all within a radius, each other one those of a distance."""
    cores, reach = len(hops), min(radius, int(hops.max()))
    found = np.zeros((cores, reach + 1, -(-cores // 64) * 64), dtype=bool)
    found[:, 0, :cores] = (hops > 0) & (hops <= reach)
    for ring in range(1, reach + 1):
        found[:, ring, :cores] = hops == ring
    return np.packbits(found, axis=2, bitorder="little").view(np.int64)
