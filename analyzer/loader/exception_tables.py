"""Function bounds and landing pads from `.eh_frame` and `.gcc_except_table`.

Source: Linux Standard Base Core, chapter "Exception Frames", and the Itanium C++ ABI's language-specific data area as
    gcc
writes it. Only what gives bounds and landing pads is read; call-frame instructions are skipped. Bounded: every entry
advances by its own length, and no more than `MAXIMUM_ENTRIES` are read.
"""

from __future__ import annotations

from dataclasses import dataclass

from farlane.analyzer.limits import AnalysisError

MAXIMUM_ENTRIES = 1_000_000

_OMIT = 0xFF
_FRAME_STANDS = (0x0C, 0x0D, 0x0E, 0x0F, 0x12, 0x13)
_SIZES = {0x00: 8, 0x02: 2, 0x03: 4, 0x04: 8, 0x0A: 2, 0x0B: 4, 0x0C: 8}


@dataclass(frozen=True)
class Frame:
    """One frame description entry: a range of code.

    Attributes:
        lsda: the address of its language-specific data, 0 when there is none.
        continued: whether the stack frame already stands at its start, as only in a part split off from a function.
    """

    start: int
    end: int
    lsda: int
    continued: bool = False


@dataclass(frozen=True)
class _Common:
    pointer: int
    lsda: int
    augmented: bool


class _Cursor:
    """Reads from one section; reading past the end is an AnalysisError."""

    def __init__(self, data: bytes, address: int, offset: int = 0) -> None:
        self.data, self.address, self.offset = data, address, offset

    def integer(self, size: int, signed: bool = False) -> int:
        end = self.offset + size
        if self.offset < 0 or end > len(self.data):
            raise AnalysisError("a truncated exception table")
        value = int.from_bytes(self.data[self.offset : end], "little", signed=signed)
        self.offset = end
        return value

    def leb(self, signed: bool = False) -> int:
        value = shift = 0
        while True:
            byte = self.integer(1)
            value |= (byte & 0x7F) << shift
            shift += 7
            if not byte & 0x80:
                break
            if shift > 63:
                raise AnalysisError("an overlong number in an exception table")
        if signed and byte & 0x40:
            value -= 1 << shift
        return value

    def pointer(self, encoding: int, base: int = 0) -> int:
        """A DW_EH_PE pointer; an encoding that compilers do not write on x86-64 is an error."""
        if encoding == _OMIT:
            return 0
        at = self.address + self.offset
        form, application = encoding & 0x0F, encoding & 0x70
        if form in (0x01, 0x09):
            value = self.leb(signed=form == 0x09)
        elif form in _SIZES:
            value = self.integer(_SIZES[form], signed=form >= 0x08)
        else:
            raise AnalysisError(f"unknown pointer encoding {encoding:#x} in an exception table")
        if application == 0x10:
            value = at + value if value or form not in _SIZES else 0
        elif application not in (0x00, 0x50):
            value += base
        return value & (2**64 - 1)


def frames(data: bytes, address: int) -> list[Frame]:
    """The frame description entries of an `.eh_frame` section.

    Raises:
        AnalysisError: the section is damaged.
    """
    found: list[Frame] = []
    commons: dict[int, _Common] = {}
    offset = 0
    for _ in range(MAXIMUM_ENTRIES):
        if offset + 4 > len(data):
            break
        cursor = _Cursor(data, address, offset)
        length = cursor.integer(4)
        if length == 0:
            break
        if length == 0xFFFFFFFF:
            length = cursor.integer(8)
        body = cursor.offset
        if length < 4 or body + length > len(data):
            raise AnalysisError("a truncated exception table")
        identifier = cursor.integer(4)
        if identifier == 0:
            commons[offset] = _common(cursor)
        else:
            common = commons.get(body - identifier)
            if common is None:
                raise AnalysisError("an exception table's entry without its common information")
            found.append(_frame(cursor, common, body + length))
        offset = body + length
    return found


def _common(cursor: _Cursor) -> _Common:
    version = cursor.integer(1)
    end = cursor.data.find(b"\0", cursor.offset)
    if end < 0 or end - cursor.offset > 16:
        raise AnalysisError("a damaged exception table")
    augmentation = cursor.data[cursor.offset : end].decode("latin-1")
    cursor.offset = end + 1
    cursor.leb()
    cursor.leb(signed=True)
    if version == 1:
        cursor.integer(1)
    else:
        cursor.leb()
    pointer, lsda = 0, _OMIT
    if augmentation.startswith("z"):
        cursor.leb()
        for letter in augmentation[1:]:
            if letter == "R":
                pointer = cursor.integer(1)
            elif letter == "L":
                lsda = cursor.integer(1)
            elif letter == "P":
                cursor.pointer(cursor.integer(1))
            elif letter not in "SB":
                raise AnalysisError(f"unknown augmentation {augmentation!r} in an exception table")
    return _Common(pointer, lsda, augmentation.startswith("z"))


def _frame(cursor: _Cursor, common: _Common, end: int) -> Frame:
    start = cursor.pointer(common.pointer)
    size = cursor.pointer(common.pointer & 0x0F)
    lsda = 0
    if common.augmented:
        length = cursor.leb()
        program = cursor.offset + length
        lsda = cursor.pointer(common.lsda)
        cursor.offset = program
    # DW_CFA_def_cfa* or DW_CFA_offset before the first advance: the frame was set up elsewhere.
    first = cursor.integer(1) if cursor.offset < end else 0
    return Frame(start, start + size, lsda, first in _FRAME_STANDS or first & 0xC0 == 0x80)


def landing_pads(data: bytes, address: int, frame: Frame) -> tuple[tuple[int, int, int], ...]:
    """(start, end, landing pad) of a frame's call sites that have one.

    Args:
        data: the section `.gcc_except_table`.
        address: where it lies.
        frame: the frame, with a language-specific data area in that section.

    Raises:
        AnalysisError: the table is damaged.
    """
    cursor = _Cursor(data, address, frame.lsda - address)
    encoding = cursor.integer(1)
    base = cursor.pointer(encoding) if encoding != _OMIT else frame.start
    if cursor.integer(1) != _OMIT:
        cursor.leb()
    site = cursor.integer(1)
    end = cursor.leb() + cursor.offset
    if end > len(data):
        raise AnalysisError("a truncated exception table")
    pads = set()
    while cursor.offset < end:
        start = cursor.pointer(site)
        size = cursor.pointer(site)
        pad = cursor.pointer(site)
        cursor.leb()
        if pad:
            pads.add((frame.start + start, frame.start + start + size, base + pad))
    return tuple(sorted(pads))
