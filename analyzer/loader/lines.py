"""Source lines from DWARF, when there are any.

The analyzer's only user of pyelftools, which is imported when there are lines: that takes long.
Lines are a courtesy to the reader of a report: damaged or oversized debug information gives none and no error.
"""

from __future__ import annotations

import bisect
import io
from pathlib import Path, PurePosixPath
from typing import Any

from farlane.analyzer.loader.sections import Tables

MAXIMUM_BYTES = 64 << 20


class Lines:
    """Address -> "file:line", and the file's path as the compiler had it."""

    def __init__(self, rows: list[tuple[int, str, str]]) -> None:
        # Of several rows of an address the last one counts, but one that only ends a sequence comes before the next one's first.
        self._rows = sorted(rows, key=lambda row: (row[0], row[1] != ""))
        self._addresses = [row[0] for row in self._rows]

    def at(self, address: int) -> str:
        """The line of the row at or before an address; "" when there is none."""
        index = bisect.bisect_right(self._addresses, address) - 1
        return self._rows[index][1] if index >= 0 else ""

    def path(self, address: int) -> str:
        """The file's path of that row; "" when there is none. Relative ones are to the compiler's folder, which is joined."""
        index = bisect.bisect_right(self._addresses, address) - 1
        return self._rows[index][2] if index >= 0 else ""


def read(path: Path) -> Lines:
    """The line tables of a file."""
    try:
        return Lines(_rows(path.read_bytes()))
    except Exception:
        return Lines([])


def _rows(content: bytes) -> list[tuple[int, str, str]]:
    if not any(section.name in (".debug_line", ".zdebug_line") for section in Tables(content).sections):
        return []
    from elftools.elf.elffile import ELFFile

    elf = ELFFile(io.BytesIO(content))
    section = elf.get_section_by_name(".debug_line")
    if section is None or section.data_size > MAXIMUM_BYTES:
        return []
    dwarf = elf.get_dwarf_info(relocate_dwarf_sections=False)
    rows: list[tuple[int, str, str]] = []
    for unit in dwarf.iter_CUs():
        program = dwarf.line_program_for_CU(unit)
        if program is None:
            continue
        files = program.header["file_entry"]
        first = 0 if program.header["version"] >= 5 else 1
        names = [file.name.decode("utf-8", "replace") for file in files]
        folders = _folders(unit, program.header)
        paths = [
            str(PurePosixPath(folders[file.dir_index] if file.dir_index < len(folders) else "", name))
            for file, name in zip(files, names, strict=True)
        ]
        for entry in program.get_entries():
            state = entry.state
            if state is None:
                continue
            if state.end_sequence:
                rows.append((state.address, "", ""))
            elif state.line and 0 <= state.file - first < len(files):
                index = state.file - first
                rows.append((state.address, f"{names[index]}:{state.line}", paths[index]))
    return rows


def _folders(unit: Any, header: Any) -> list[str]:
    """The folders that a unit's files are in, by their index: the compiler's own is the first, and others may be relative to it."""
    attribute = unit.get_top_DIE().attributes.get("DW_AT_comp_dir")
    own = attribute.value.decode("utf-8", "replace") if attribute is not None else ""
    named = [each.decode("utf-8", "replace") for each in header["include_directory"]]
    return [str(PurePosixPath(own, each)) for each in (named if header["version"] >= 5 else ["", *named])]
