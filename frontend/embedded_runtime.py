"""Recognising the CUDA runtime that is linked into an object, by the names of its functions.

The symbol table is searched as bytes: it may have millions of entries, and reading each costs microseconds here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from elftools.elf.elffile import ELFFile

INTERNAL = b"\0libcudart_static_"  # the runtime's own functions are named so
PUBLIC = b"\0__cudaRegisterFatBinary\0"
MOST_BYTES = 1 << 30


def has_symbols(elf: ELFFile) -> bool:
    """Whether the object has a runtime linked into it and the symbols to find its functions by."""
    from elftools.elf.sections import SymbolTableSection  # program.inspect says why it is here

    table = elf.get_section_by_name(".symtab")
    if not isinstance(table, SymbolTableSection):
        return False
    strings = elf.get_section(table["sh_link"])
    if strings["sh_size"] > MOST_BYTES or strings["sh_type"] != "SHT_STRTAB":
        return False
    names = strings.data()
    return INTERNAL in names and PUBLIC in names
