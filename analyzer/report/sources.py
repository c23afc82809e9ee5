"""Source lines for the page: what the debug information says an instruction was made of, and the line's text where it is at hand.

Debug information is part of an executable that is not trusted, and the page may be shown to others. So a file is read only
where its name is a source file's, and only as a regular file of moderate size; of it the lines that instructions name are shown.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from farlane.analyzer.loader import lines

SUFFIXES = {".c", ".cc", ".cpp", ".cxx", ".cu", ".cuh", ".h", ".hh", ".hpp", ".inl", ".ipp", ".rs"}
MAXIMUM_BYTES = 4 << 20
MAXIMUM_CHARACTERS = 200  # of a line


@dataclass(frozen=True)
class Place:
    """A line of the source: "app.cu:12", and its text where the file is here."""

    line: str
    text: str


class Sources:
    """The lines of an executable's source."""

    def __init__(self, program: Path) -> None:
        self._folder = program.resolve().parent
        self._lines = lines.read(program)
        self._texts: dict[str, list[str]] = {}

    def at(self, address: int) -> Place | None:
        """The line that an instruction was made of; None where the file does not say."""
        line = self._lines.at(address)
        if not line:
            return None
        path = self._lines.path(address)
        text = self._text(path)
        number = int(line.rpartition(":")[2])
        return Place(line, text[number - 1].strip()[:MAXIMUM_CHARACTERS] if number <= len(text) else "")

    def _text(self, path: str) -> list[str]:
        """A file's lines: where it was compiled, else beside the program."""
        if path not in self._texts:
            self._texts[path] = next(
                (found for each in (Path(path), self._folder / Path(path).name) if (found := _read(each))), []
            )
        return self._texts[path]


def _read(path: Path) -> list[str]:
    try:
        real = path.resolve()
        if path.suffix not in SUFFIXES or real.suffix not in SUFFIXES or not real.is_file():
            return []
        if real.stat().st_size > MAXIMUM_BYTES:
            return []
        return real.read_text("utf-8", "replace").splitlines()
    except (OSError, ValueError, RuntimeError):  # a name with a zero byte, a circle of links
        return []
