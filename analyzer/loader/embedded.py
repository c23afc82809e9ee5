"""The CUDA runtime that nvcc has linked into a file, taken out of the image: the rest looks as if the runtime were a
library.

`nvcc` links libcudart statically unless it is told not to. The symbols of the runtime's functions stay in the file: the
public ones under their names, its own as `libcudart_static_<hash>`. Owns finding that code, and what follows for the
image:

- its functions, bytes and the pointers in its data are left out, so that nothing analyzes them;
- a public function that the program's own code refers to is a stub, as an import is (`Image.stubs`);
- imports that only the runtime uses are left out: what the program imports decides what holds for its memory.

Source: docs/explanation/architecture/static-runtimes.md, "Statically linked runtimes".
"""

from __future__ import annotations

import bisect
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from farlane.analyzer.loader.image import Function, Segment

INTERNAL = "libcudart_static_"
PUBLIC = ("cuda", "__cuda")
# Instructions that hold an address in their last four bytes, relative to their end: calls, jumps, branches, and moves
# of an address or through a slot (with a fixed place as operand).
_RELATIVE = re.compile(
    rb"[\xe8\xe9]|\x0f[\x80-\x8f]|[\x8b\x8d\xff\x3b\x39\x89][\x05\x0d\x15\x1d\x25\x2d\x35\x3d]", re.DOTALL
)
# A number as it is, in files that are not position-independent.
_ABSOLUTE = re.compile(rb"[\xb8-\xbf]|\xc7[\xc0-\xc7]|\x68", re.DOTALL)


@dataclass(frozen=True)
class Embedded:
    """An embedded runtime.

    Attributes:
        public: address -> name of its public functions.
        code: (start, end) of its code, by rising start.
        data: the same of its data.
    """

    public: Mapping[int, str]
    code: tuple[tuple[int, int], ...]
    data: tuple[tuple[int, int], ...]

    def holds_code(self, address: int) -> bool:
        return _inside(self.code, address)

    def holds_data(self, address: int) -> bool:
        return _inside(self.data, address)


def find(functions: Mapping[int, tuple[int, str]], objects: Iterable[tuple[int, int, str]]) -> Embedded | None:
    """The runtime among a file's symbols.

    Args:
        functions: address -> (size, name).
        objects: (address, size, name) of data.
    """
    if not any(name.startswith(INTERNAL) for _, name in functions.values()):
        return None
    public: dict[int, str] = {}
    code: list[tuple[int, int]] = []
    # Public functions stand between the runtime's own; what is named like one elsewhere is the program's.
    whole = False
    between: list[int] = []
    for address in sorted(functions):
        size, name = functions[address]
        if name.startswith(INTERNAL):
            public.update((each, functions[each][1]) for each in between)
            start = code.pop()[0] if whole else address
            code.append((start, address + size))
            whole, between = True, []
        elif whole and name.startswith(PUBLIC):
            between.append(address)
        else:
            whole = False
    between = []
    data = sorted((address, address + size) for address, size, name in objects if name.startswith(INTERNAL))
    return Embedded(public, tuple(code), tuple(data))


def without(segments: Iterable[Segment], embedded: Embedded) -> list[Segment]:
    """The segments less the runtime's code: a section of code in pieces."""
    found = []
    for segment in segments:
        if not segment.code:
            found.append(segment)
            continue
        at = segment.start
        for start, end in embedded.code:
            if segment.start <= start and end <= segment.end and at <= start:
                found += _piece(segment, at, start)
                at = end
        found += _piece(segment, at, segment.end)
    return found


def own(functions: Iterable[Function], embedded: Embedded) -> tuple[Function, ...]:
    """The functions that are not the runtime's."""
    return tuple(function for function in functions if not embedded.holds_code(function.start))


def references(
    functions: Iterable[Function], segments: Iterable[Segment], wanted: Iterable[int], moves: bool
) -> set[int]:
    """Of the addresses `wanted`, those that the functions' instructions name. Bytes that only look like such an
    instruction may add one."""
    places = sorted(segments, key=lambda segment: segment.start)
    starts = [segment.start for segment in places]
    asked = frozenset(wanted)
    found: set[int] = set()
    for function in functions:
        index = bisect.bisect_right(starts, function.start) - 1
        if index < 0 or function.end > places[index].end:
            continue
        segment = places[index]
        code = segment.data[function.start - segment.start : function.end - segment.start]
        found |= asked.intersection(_relative(code, function.start))
        if not moves:
            found |= asked.intersection(_absolute(code))
    return found


def _relative(code: bytes, start: int) -> Iterator[int]:
    at, last = 0, len(code) - 4
    while (match := _RELATIVE.search(code, at)) is not None and match.end() <= last:
        end = match.end()
        yield start + end + 4 + int.from_bytes(code[end : end + 4], "little", signed=True)
        at = match.start() + 1


def _absolute(code: bytes) -> Iterator[int]:
    at, last = 0, len(code) - 4
    while (match := _ABSOLUTE.search(code, at)) is not None and match.end() <= last:
        yield int.from_bytes(code[match.end() : match.end() + 4], "little")
        at = match.start() + 1


def _piece(segment: Segment, start: int, end: int) -> list[Segment]:
    if start >= end:
        return []
    data = segment.data[start - segment.start : end - segment.start]
    return [Segment(start, data, segment.writable, segment.code, segment.name)]


def _inside(ranges: tuple[tuple[int, int], ...], address: int) -> bool:
    index = bisect.bisect_right(ranges, (address, 1 << 64)) - 1
    return index >= 0 and ranges[index][0] <= address < ranges[index][1]
