"""Source lines from DWARF, when there are any.

The analyzer's only user of pyelftools, which is imported when there are lines: that takes long.
Lines are a courtesy to the reader of a report: damaged or oversized debug information gives none and no error.
"""

from __future__ import annotations

import bisect
import io
from pathlib import Path

from farlane.analyzer.loader.sections import Tables

MAXIMUM_BYTES = 64 << 20


class Lines:
    """Address -> "file:line"."""

    def __init__(self, rows: list[tuple[int, str]]) -> None:
        self._rows = sorted(rows)
        self._addresses = [address for address, _ in self._rows]

    def at(self, address: int) -> str:
        """The line of the row at or before an address; "" when there is none."""
        index = bisect.bisect_right(self._addresses, address) - 1
        return self._rows[index][1] if index >= 0 else ""


def read(path: Path) -> Lines:
    """The line tables of a file."""
    try:
        return Lines(_rows(path.read_bytes()))
    except Exception:
        return Lines([])


def _rows(content: bytes) -> list[tuple[int, str]]:
    if not any(section.name in (".debug_line", ".zdebug_line") for section in Tables(content).sections):
        return []
    from elftools.elf.elffile import ELFFile

    elf = ELFFile(io.BytesIO(content))
    section = elf.get_section_by_name(".debug_line")
    if section is None or section.data_size > MAXIMUM_BYTES:
        return []
    dwarf = elf.get_dwarf_info(relocate_dwarf_sections=False)
    rows: list[tuple[int, str]] = []
    for unit in dwarf.iter_CUs():
        program = dwarf.line_program_for_CU(unit)
        if program is None:
            continue
        files = program.header["file_entry"]
        first = 0 if program.header["version"] >= 5 else 1
        for entry in program.get_entries():
            state = entry.state
            if state is None:
                continue
            if state.end_sequence:
                rows.append((state.address, ""))
            elif state.line and 0 <= state.file - first < len(files):
                rows.append(
                    (state.address, f"{files[state.file - first].name.decode('utf-8', 'replace')}:{state.line}")
                )
    return rows
