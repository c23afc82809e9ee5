"""The columns of a REPEAT: what a hole of a template holds in iteration k.

Owns the checking of columns and their values. A column is brought into one form: some first values (`prefix`), then either an
affine sequence or a table that repeats. "The same as another column, `lag` iterations ago" needs nothing more: following the
references ends at a column of another kind, or comes back (a rotation of pointers), and then the sequence is periodic.

Source: protos/tape.md, "Loops".
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from farlane.backend.errors import ProtocolError

AFFINE, VALUES, PERIODIC, SAME = range(4)
MAX_LAG = 16
MAX_LAGS = 256  # of the columns that one leads to, together
_SMALL = 96  # values: a matrix of so many is made of lists
_FEW, _MANY = 16, 256  # iterations of a column that follows others, and of any other: fewer are not worth arrays

_HEADER = struct.Struct("<BBHI")
_AFFINE = struct.Struct("<QQ")
HEADER_BYTES = _HEADER.size
_MASK = (1 << 64) - 1
_UNSIGNED = {width: np.dtype(f"<u{width}") for width in (1, 2, 4, 8)}
_LETTERS = {1: "B", 2: "H", 4: "I", 8: "Q"}

Values = npt.NDArray[np.uint64]


class Header(NamedTuple):
    """A checked column: where its values are."""

    kind: int
    lag: int
    number: int
    width: int
    begin: int  # of the values
    end: int  # without padding


class Column(NamedTuple):
    """value(k) = prefix[k], and from its end on start + step k' or table[k' mod its length], with k' = k - len(prefix)."""

    width: int
    prefix: Values
    start: int
    step: int
    table: Values | None

    def values(self, first: int, count: int) -> Values:
        """The values of iterations [first, first + count), each below 2^(8 width)."""
        lead = self.prefix[first : first + count]
        at = first + len(lead) - len(self.prefix)
        rest = count - len(lead)
        if self.table is None:
            base = (self.start + self.step * at) & _MASK
            tail = np.uint64(base) + np.uint64(self.step) * np.arange(rest, dtype=np.uint64)
            if self.width < 8:
                tail &= np.uint64((1 << 8 * self.width) - 1)
        elif len(self.table) == 1:
            tail = np.full(rest, self.table[0], np.uint64)
        else:
            begin = at % len(self.table)
            tail = self.table[begin : begin + rest]
            if len(tail) < rest:
                tail = self.table[(np.arange(begin, begin + rest) % len(self.table))]
        return np.concatenate((lead, tail)) if len(lead) else tail

    @property
    def constant(self) -> int | None:
        """The value, when every iteration has the same."""
        if len(self.prefix):
            return None
        if self.table is not None:
            return int(self.table[0]) if len(self.table) == 1 else None
        return None if self.step else self.start & ((1 << 8 * self.width) - 1)


def read_headers(data: memoryview, widths: Sequence[int]) -> list[Header]:
    """The columns for holes of these widths: one for each, nothing behind them.

    Raises:
        ProtocolError: they break a rule of tape.md. Whether kind 1 has a value for each iteration is `check_count`'s.
    """
    headers: list[Header] = []
    at, size = 0, len(data)
    for index, width in enumerate(widths):
        if size - at < HEADER_BYTES:
            raise ProtocolError(f"columns for {index} of {len(widths)} holes")
        kind, lag, reserved, number = _HEADER.unpack_from(data, at)
        at += HEADER_BYTES
        if kind == AFFINE:
            values = _AFFINE.size
        elif kind in (VALUES, PERIODIC):
            values = number * width
        elif kind == SAME:
            values = lag * width
        else:
            raise ProtocolError(f"column {index} is of the unknown kind {kind}")
        if reserved or (lag and kind != SAME) or lag > MAX_LAG or (number and kind == AFFINE):
            raise ProtocolError(f"column {index}: kind {kind}, lag {lag}, number {number}, reserved {reserved}")
        if kind in (VALUES, PERIODIC) and not number:
            raise ProtocolError(f"column {index} has no values")
        if kind == SAME and (number >= len(widths) or widths[number] != width or (not lag and number >= index)):
            raise ProtocolError(f"column {index} cannot be column {number} with a lag of {lag}")
        if values > size - at:
            raise ProtocolError(f"column {index} has {values} bytes of values where {size - at} are left")
        headers.append(Header(kind, lag, number, width, at, at + values))
        at += (values + 7) & ~7
        if at > size:
            raise ProtocolError(f"column {index} is not padded")
    if at != size:
        raise ProtocolError(f"{size - at} bytes behind the columns")
    _check_lags(headers)
    return headers


def check_count(headers: Sequence[Header], count: int) -> None:
    """Raises ProtocolError when a column of explicit values has not one for each iteration."""
    for index, header in enumerate(headers):
        if header.kind == VALUES and header.number != count:
            raise ProtocolError(f"column {index} has {header.number} values for {count} iterations")


class Columns:
    """The checked columns of a REPEAT. A loop of few iterations is not worth arrays: its values are read where they are."""

    __slots__ = ("_columns", "_data", "_headers")

    def __init__(self, headers: Sequence[Header], data: memoryview | bytes) -> None:
        """`data` is to stay as it is."""
        self._headers = headers
        self._data = data
        self._columns: list[Column] | None = None

    @property
    def evaluated(self) -> list[Column]:
        if self._columns is None:
            self._columns = _evaluate(self._headers, memoryview(self._data))
        return self._columns

    def constant(self, index: int) -> int | None:
        """What a column holds in every iteration, where its form says that it is always the same."""
        header = self._headers[index]
        if header.kind == AFFINE:
            start, step = _AFFINE.unpack_from(self._data, header.begin)
            return None if step else start & (1 << 8 * header.width) - 1
        return self._value(index, 0) if header.kind == PERIODIC and header.number == 1 else None

    def fill(self, matrix: Values, first: int) -> None:
        """Writes the values of iterations from `first` on into the rows of a matrix, which has a column for each iteration."""
        if not self._headers:
            return
        if matrix.size <= _SMALL:
            matrix[:] = np.array(self.rows(first, matrix.shape[1]), np.uint64)
            return
        for row, column in zip(matrix, self.evaluated, strict=True):
            row[:] = column.values(first, matrix.shape[1])

    def rows(self, first: int, count: int) -> list[list[int]]:
        """The values of iterations [first, first + count), a list for each column."""
        return [self._row(index, first, count) for index in range(len(self._headers))]

    def _row(self, index: int, first: int, count: int) -> list[int]:
        header = self._headers[index]
        if count > _MANY or (header.kind == SAME and first + count > _FEW):
            values: list[int] = self.evaluated[index].values(first, count).tolist()
            return values
        if header.kind == AFFINE:
            start, step = _AFFINE.unpack_from(self._data, header.begin)
            start += step * first
            last, mask = start + step * (count - 1), (1 << 8 * header.width) - 1
            if step and last <= mask:
                return list(range(start, last + 1, step))
            return [start + step * k & mask for k in range(count)] if step else [start & mask] * count
        if header.kind == SAME or header.number > 2 * count:
            return [self._value(index, k) for k in range(first, first + count)]
        table = struct.unpack_from(f"<{header.number}{_LETTERS[header.width]}", self._data, header.begin)
        begin = first % len(table)
        return list((table * (count // len(table) + 2))[begin : begin + count])

    def _value(self, index: int, k: int) -> int:
        header = self._headers[index]
        while header.kind == SAME and k >= header.lag:  # ends: see _check_lags
            k -= header.lag
            header = self._headers[header.number]
        if header.kind == AFFINE:
            start, step = _AFFINE.unpack_from(self._data, header.begin)
            value: int = start + step * k & (1 << 8 * header.width) - 1
            return value
        at = header.begin + header.width * (k % header.number if header.kind == PERIODIC else k)
        return int.from_bytes(self._data[at : at + header.width], "little")


def _evaluate(headers: Sequence[Header], data: memoryview) -> list[Column]:
    own = [_own(header, data) for header in headers]
    return [
        _resolve(index, headers, own) if header.kind == SAME else own[index] for index, header in enumerate(headers)
    ]


def _own(header: Header, data: memoryview) -> Column:
    """A column by itself; of one that follows another, only the values it has of its own."""
    nothing = np.empty(0, np.uint64)
    if header.kind == AFFINE:
        start, step = _AFFINE.unpack_from(data, header.begin)
        return Column(header.width, nothing, start, step, None)
    values = np.frombuffer(data[header.begin : header.end], _UNSIGNED[header.width]).astype(np.uint64)
    if header.kind == SAME:
        return Column(header.width, values, 0, 0, None)
    return Column(header.width, nothing, 0, 0, values)


def _resolve(index: int, headers: Sequence[Header], own: Sequence[Column]) -> Column:
    path: list[int] = []
    seen: dict[int, int] = {}
    while headers[index].kind == SAME and index not in seen:
        seen[index] = len(path)
        path.append(index)
        index = headers[index].number
    heads = [own[step].prefix for step in path]
    if headers[index].kind == SAME:  # a rotation: what it begins with comes back
        entry = seen[index]
        lead = np.concatenate([np.empty(0, np.uint64), *heads[:entry]])
        return Column(headers[index].width, lead, 0, 0, np.concatenate(heads[entry:]))
    end = own[index]
    return Column(end.width, np.concatenate(heads), end.start, end.step, end.table)


def _check_lags(headers: Sequence[Header]) -> None:
    """Bounds what `_resolve` makes of a column. A column without lag follows an earlier one, so no walk is longer than all columns."""
    total: dict[int, int] = {}  # of columns whose walk ends at another kind
    for index, header in enumerate(headers):
        if header.kind != SAME:
            total[index] = 0
    for first in range(len(headers)):
        walk: list[int] = []
        on_walk: set[int] = set()
        index = first
        while index not in total and index not in on_walk:
            walk.append(index)
            on_walk.add(index)
            index = headers[index].number
        if index in on_walk:
            begin = walk.index(index)
            around = sum(headers[step].lag for step in walk[begin:])
            total.update(dict.fromkeys(walk[begin:], around))
            del walk[begin:]
        sum_ = total[index]
        for step in reversed(walk):
            sum_ += headers[step].lag
            total[step] = sum_
        if total[first] > MAX_LAGS:
            raise ProtocolError(
                f"column {first} depends on the values of {total[first]} iterations before; {MAX_LAGS} are allowed"
            )
