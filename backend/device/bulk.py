"""Repeating a loop's body on the null device: every step of all iterations is checked at once.

Owns the checks of copies in bulk; what an allocation is, is null.py's. Stops in front of the first step, in the order of the
iterations, that a check does not pass.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from farlane.backend.device.plan import Body, Columns, Kind, Step, Stop

_LARGE = 1 << 38  # pitches, widths and heights from here on are left to the one-by-one checks

Numbers = npt.NDArray[np.uint64]
Truths = npt.NDArray[np.bool_]
#: Whether [address, address + span) lies in one allocation, for each of the addresses.
Inside = Callable[[Numbers, Numbers], Truths]


def in_bulk(body: Body) -> bool:
    """Whether the steps can be checked at once: not where allocations change between them."""
    return all(step.kind not in (Kind.ALLOCATE, Kind.FREE) for step in body.steps)


def first_stop(body: Body, columns: Columns, inside: Inside) -> Stop:
    """How far the iterations get."""
    iterations = columns.shape[1]
    best, best_step = iterations, 0
    for index, step in enumerate(body.steps):
        if step.kind not in (Kind.SET, Kind.COPY, Kind.WRITE, Kind.READ, Kind.PUT):
            continue
        good = _good(step, columns, inside)
        bad = iterations if good.all() else int(np.argmin(good))
        if bad < best:
            best, best_step = bad, index
    return Stop(best, best_step)


def _good(step: Step, columns: Columns, inside: Inside) -> Truths:
    """Whether the step passes in each iteration; of one without holes in its fields, one answer for all."""
    if step.kind is Kind.COPY:
        to, to_pitch, source, source_pitch, width, height = (_field(step, columns, 8 * at, 8) for at in range(6))
        return _rows(to, to_pitch, width, height, inside) & _rows(source, source_pitch, width, height, inside)
    address, pitch, width, height = (_field(step, columns, 8 * at, 8) for at in range(4))
    good = _rows(address, pitch, width, height, inside)
    if step.kind is Kind.SET:
        element = _field(step, columns, 36, 4)
        known: Truths = (element == 1) | (element == 2) | (element == 4)
        whole: Truths = width % np.maximum(element, np.uint64(1)) == 0
        return np.asarray(good & known & whole)
    if step.kind is Kind.WRITE:
        exact: Truths = width * height == len(step.operands) - 32
        return np.asarray(good & exact)
    if step.kind is Kind.PUT:
        whole_data: Truths = width * height == _field(step, columns, 40, 8)
        return np.asarray(good & whole_data)
    return good


def _rows(address: Numbers, pitch: Numbers, width: Numbers, height: Numbers, inside: Inside) -> Truths:
    small: Truths = (pitch < _LARGE) & (width < _LARGE) & (height < 1 << 24) & (width > 0) & (height > 0)
    apart: Truths = (height == 1) | (pitch >= width)
    span = (np.maximum(height, np.uint64(1)) - np.uint64(1)) * pitch + width
    return np.asarray(small & apart & inside(address, span))


def _field(step: Step, columns: Columns, at: int, size: int) -> Numbers:
    """A field of the operands in each iteration; without holes, a single number."""
    mask = np.uint64((1 << 8 * size) - 1)
    total = np.array([int.from_bytes(step.operands[at : at + size], "little")], np.uint64)
    for hole in step.holes:
        if hole.at >= at + size or hole.at + hole.width <= at:
            continue
        row = columns[hole.row]
        if hole.width < 8:
            row = row & np.uint64((1 << 8 * hole.width) - 1)
        shift = hole.at - at
        row = row << np.uint64(8 * shift) if shift >= 0 else row >> np.uint64(-8 * shift)
        total = total + (row & mask)
    return total
