"""Flat images: an object file's code and constants laid out side by side and linked, but for what depends on where they come to lie.

LLVM's linker takes a third of a millisecond for the smallest of objects, each time one is loaded. What it finds out is the same every time, so it is done once, when code is
compiled: `flattened` reads an ELF object for x86-64 and resolves what it says of itself. What is left is a list of words that get the image's address added, and of words
that get the address of a function of this process. Objects of other machines, or with anything in them that is not listed here (variables, thread-local
storage), are left to LLVM: None.

Owns the format and its reading, which is bounded: a bad image is a ValueError. backend/system/loading.py puts images into memory.
Source: System V ABI, "Object Files"; its AMD64 supplement, "Relocation".
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

MAGIC = b"FARLFLT1"
MAX_BYTES = 256 << 20
# Magic; bytes of memory, the entry's place, how many words are relative, how many outside, bytes of their names.
_HEAD = struct.Struct("<8sIIIII")
_WORD = struct.Struct("<Q")

_ELF = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_RELOCATION = struct.Struct("<QIIq")
_RELOCATABLE, _X86_64 = 1, 62
_PROGBITS, _SYMTAB, _RELA, _NOBITS = 1, 2, 4, 8
_WRITE, _ALLOC, _TLS = 1, 2, 0x400
_RESERVED = 0xFF00  # section numbers from here on are none
_ABSOLUTE, _NEAR, _CALL, _DISTANCE = 1, 2, 4, 24
_THROUGH_TABLE = (9, 41, 42)
_STUB = bytes.fromhex("ff2500000000cccc")  # jmp *slot(%rip)


@dataclass(frozen=True)
class Image:
    """What a flat image holds: `content` for memory of that size, offsets of words in it, and where it is entered."""

    content: bytes
    entry: int
    relative: tuple[int, ...]  # get the image's address added
    outside: tuple[tuple[int, str], ...]  # get a function's address


class _Unfit(Exception):
    """Something that a flat image does not have."""


def flattened(data: bytes, symbol: str) -> bytes | None:
    """The flat image of an object file that defines the function `symbol`; None where it has to stay an object."""
    try:
        return _written(_Linker(data).image(symbol))
    except (_Unfit, struct.error, IndexError, ValueError, OverflowError):
        return None


def parsed(data: bytes) -> Image:
    """A flat image. Raises ValueError."""
    try:
        magic, size, entry, relatives, outsides, names_size = _HEAD.unpack_from(data)
        at = _HEAD.size
        end = at + 4 * (relatives + outsides) + names_size
        if magic != MAGIC or end + size != len(data) or size > MAX_BYTES or entry >= size:
            raise ValueError("not a flat image")
        places = struct.unpack_from(f"<{relatives + outsides}I", data, at)
        names = data[end - names_size : end].decode("ascii").split("\n") if outsides else []
    except struct.error:
        raise ValueError("a flat image that ends early") from None
    if len(names) != outsides or any(place + 8 > size for place in places):
        raise ValueError("a flat image that refers to what it does not have")
    return Image(data[end:], entry, places[:relatives], tuple(zip(places[relatives:], names, strict=True)))


def _written(image: Image) -> bytes:
    names = "\n".join(name for _, name in image.outside).encode("ascii")
    places = (*image.relative, *(place for place, _ in image.outside))
    head = (MAGIC, len(image.content), image.entry, len(image.relative), len(image.outside), len(names))
    return _HEAD.pack(*head) + struct.pack(f"<{len(places)}I", *places) + names + image.content


class _Linker:
    """Of one object."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        head = _ELF.unpack_from(data)
        if head[0][:6] != b"\x7fELF\x02\x01" or head[1:3] != (_RELOCATABLE, _X86_64):
            raise _Unfit
        self._sections = [_SECTION.unpack_from(data, head[6] + head[11] * number) for number in range(head[12])]
        self._section_names = self._sections[head[13]]
        self._content = bytearray()
        self._places: dict[int, int] = {}  # of sections
        self._slots: dict[int, int] = {}  # words that hold a symbol's address
        self._stubs: dict[int, int] = {}
        self._relative: list[int] = []
        self._outside: list[tuple[int, str]] = []

    def image(self, symbol: str) -> Image:
        for number, section in enumerate(self._sections):
            self._lay_out(number, section)
        tables = [section for section in self._sections if section[1] == _SYMTAB]
        if len(tables) != 1:
            raise _Unfit
        self._symbols = tables[0]
        self._names = self._sections[tables[0][6]]
        for section in self._sections:
            if section[1] == _RELA and section[7] in self._places:
                for at in range(section[4], section[4] + section[5], _RELOCATION.size):
                    self._relocate(self._places[section[7]], *_RELOCATION.unpack_from(self._data, at))
        for number in range(self._symbols[5] // _SYMBOL.size):
            if self._symbol(number)[0] == symbol and (place := self._place(number)) is not None:
                return Image(bytes(self._content), place, tuple(self._relative), tuple(self._outside))
        raise _Unfit

    def _lay_out(self, number: int, section: tuple[int, ...]) -> None:
        name, kind, flags, _, start, size, _, _, align, _ = section
        title = self._string(self._section_names, name)
        if not flags & _ALLOC or title == ".eh_frame":  # nothing unwinds through kernels
            return
        variable = flags & _WRITE and not title.startswith(".data.rel.ro")
        if kind != _PROGBITS or flags & _TLS or variable:
            if size:
                raise _Unfit
            return
        self._align(max(align, 1))
        self._places[number] = len(self._content)
        if start + size > len(self._data):
            raise _Unfit
        self._content += self._data[start : start + size]

    def _align(self, align: int) -> None:
        if align > 4096 or len(self._content) > MAX_BYTES:
            raise _Unfit
        self._content += bytes(-len(self._content) % align)

    def _string(self, table: tuple[int, ...], at: int) -> str:
        start = table[4] + at
        return self._data[start : self._data.index(b"\0", start)].decode("ascii")

    def _symbol(self, number: int) -> tuple[str, int, int]:
        """Name, section and value of a symbol."""
        if not 0 <= number < self._symbols[5] // _SYMBOL.size:
            raise _Unfit
        name, _, _, section, value, _ = _SYMBOL.unpack_from(self._data, self._symbols[4] + _SYMBOL.size * number)
        return self._string(self._names, name), section, value

    def _place(self, number: int) -> int | None:
        """Where a symbol is; None: outside."""
        _, section, value = self._symbol(number)
        if section == 0:
            return None
        if section >= _RESERVED or section not in self._places:
            raise _Unfit
        return self._places[section] + value

    def _slot(self, number: int) -> int:
        """Where the symbol's address is kept."""
        if number not in self._slots:
            self._align(8)
            at = self._slots[number] = len(self._content)
            place = self._place(number)
            self._content += _WORD.pack(place or 0)
            if place is not None:
                self._relative.append(at)
            else:
                self._name(at, number)
        return self._slots[number]

    def _name(self, at: int, number: int) -> None:
        """The word gets the address of a symbol outside."""
        name = self._symbol(number)[0]
        if not name or "\n" in name or at + _WORD.size > len(self._content):
            raise _Unfit
        self._outside.append((at, name))

    def _stub(self, number: int) -> int:
        """Where a jump to a function outside is."""
        if number not in self._stubs:
            slot = self._slot(number)
            at = self._stubs[number] = len(self._content)
            self._content += _STUB
            self._put("<i", at + 2, slot - (at + 6))
        return self._stubs[number]

    def _put(self, form: str, at: int, value: int) -> None:
        if at + struct.calcsize(form) > len(self._content):
            raise _Unfit
        struct.pack_into(form, self._content, at, value)

    def _relocate(self, base: int, offset: int, kind: int, number: int, addend: int) -> None:
        at = base + offset
        if kind in _THROUGH_TABLE:
            self._put("<i", at, self._slot(number) + addend - at)
            return
        place = self._place(number)
        if kind == _CALL and place is None:
            place = self._stub(number)
        if kind == _ABSOLUTE and place is None and addend == 0:
            self._name(at, number)
            return
        if place is None:
            raise _Unfit
        if kind in (_NEAR, _CALL):
            self._put("<i", at, place + addend - at)
        elif kind == _DISTANCE:
            self._put("<q", at, place + addend - at)
        elif kind == _ABSOLUTE:
            self._put("<q", at, place + addend)
            self._relative.append(at)
        else:
            raise _Unfit
