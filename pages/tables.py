"""The measured tables of docs/results: one file of data for each page, and the parts of a page that are written from it.

`docs/results/data/PAGE.json` holds a page's tables: how each was measured, when, on which machine under which load, its
head, its rows, and notes such as the verdicts on goals; a table without a command is a record, and says why. In the page, a table stands between `<!-- table NAME -->` and
`<!-- end -->`; what is between them is written, the text around them is not touched.
"""

from __future__ import annotations

import json
import re
import textwrap
from dataclasses import asdict, dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "docs/results"
DATA = RESULTS / "data"
WIDTH = 120
PART = re.compile(r"<!-- table ([\w-]+) -->\n.*?<!-- end -->", re.S)


NUMERIC = re.compile(r"\**[-+]?\d|-$|none$")  # cells of columns that stand to the right


class TablesError(Exception):
    """A page and its data do not fit each other; the message says which."""


@dataclass(frozen=True)
class Table:
    """What an adapter reads from a benchmark's output: cells as the page shows them."""

    head: list[str]
    rows: list[list[str]]
    notes: list[str] = field(default_factory=list)


def line(row: list[str]) -> str:
    return "| " + " | ".join(row) + " |"


@dataclass(frozen=True)
class Measured:
    """A table and its conditions. `how` is Markdown: mostly the command.

    `record`: why no command of the repository measures the table anew; empty where one does.
    """

    how: str
    date: str
    machine: str
    load: str
    head: list[str]
    rows: list[list[str]]
    notes: list[str]
    record: str = ""

    def markdown(self) -> str:
        caption = f"{self.how}, {self.date}; {self.machine}; {self.load}."
        if self.record:
            caption += f" A record, which no command measures anew: {self.record}."
        lines = [*textwrap.wrap(caption, WIDTH, break_long_words=False, break_on_hyphens=False), ""]
        if self.rows:
            right = [all(NUMERIC.match(cell) for cell in column if cell) for column in zip(*self.rows, strict=True)]
            lines += [line(self.head), "|" + "|".join("---:" if each else "---" for each in right) + "|"]
            lines += [*map(line, self.rows), ""]
        for note in self.notes:
            lines += textwrap.wrap(f"- {note}", WIDTH, subsequent_indent="  ", break_long_words=False)
        return "\n".join([*lines, ""] if self.notes else lines)


def pages() -> list[str]:
    """The pages whose tables are written from data."""
    return sorted(path.stem for path in DATA.glob("*.json"))


def load(page: str) -> dict[str, Measured]:
    path = DATA / f"{page}.json"
    found = {name: Measured(**entry) for name, entry in json.loads(path.read_text()).items()}
    for name, table in found.items():
        if any(len(row) != len(table.head) for row in table.rows):
            raise TablesError(f"{path.relative_to(ROOT)}: a row of {name} has more or fewer cells than its head")
    return found


def save(page: str, tables: dict[str, Measured]) -> None:
    """Writes a page's data: a row of a table is a line of the file, so that a difference reads well."""
    entries = []
    for name, table in tables.items():
        fields = []
        for key, value in asdict(table).items():
            if key == "record" and not value:
                continue
            if key in ("rows", "notes") and value:
                lines = ",\n".join("   " + json.dumps(each, ensure_ascii=False) for each in value)
                fields.append(f'  "{key}": [\n{lines}\n  ]')
            else:
                fields.append(f'  "{key}": {json.dumps(value, ensure_ascii=False)}')
        entries.append(f' "{name}": {{\n' + ",\n".join(fields) + "\n }")
    DATA.mkdir(exist_ok=True)
    (DATA / f"{page}.json").write_text("{\n" + ",\n".join(entries) + "\n}\n")


def written(page: str) -> str:
    """The page's text with its tables as the data have them.

    Raises:
        TablesError: the page has a table that the data lack, or the other way round.
    """
    tables = load(page)
    text = (RESULTS / f"{page}.md").read_text()
    there = PART.findall(text)
    if sorted(there) != sorted(tables):
        lost = sorted(set(there) ^ set(tables)) or there
        raise TablesError(
            f"docs/results/{page}.md and data/{page}.json must have the same tables, each once: {', '.join(lost)}"
        )
    return PART.sub(lambda part: f"<!-- table {part[1]} -->\n\n{tables[part[1]].markdown()}\n<!-- end -->", text)


def write_all() -> None:
    for page in pages():
        (RESULTS / f"{page}.md").write_text(written(page))
        print(f"wrote docs/results/{page}.md")
