"""Draws docs/pictures/demo.svg: what `make demo` prints, as a terminal shows it.

Usage: python pages/picture.py
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).resolve().parents[1]
PICTURE = ROOT / "docs/pictures/demo.svg"
WIDTH = 100


def printed() -> str:
    """The demo's output."""
    done = subprocess.run([sys.executable, "examples/demo.py"], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        raise SystemExit(f"the demo failed:\n{done.stdout}")
    return done.stdout


def drawn(text: str) -> str:
    """The text as a terminal's picture: numbers stand out, and no font is fetched from elsewhere."""
    with open("/dev/null", "w") as nowhere:
        console = Console(record=True, width=WIDTH, file=nowhere, force_terminal=True, legacy_windows=False)
        console.print(Text.assemble(("$ ", "bold green"), ("make demo", "bold")))
        for line in text.splitlines():
            styled = Text(line)
            if re.match(r"(embedded|TCP) host", line):
                styled.highlight_regex(r"^\S+ host, \w+", "cyan")
                styled.highlight_regex(r"\b\d[\d,.]*", "bold yellow")
            elif line.startswith("Same output"):
                styled.stylize("bold green")
            elif line.lstrip().startswith("CUDA calls"):
                styled.stylize("dim")
            console.print(styled, soft_wrap=True)
    svg = console.export_svg(title="a CUDA program, no GPU", unique_id="demo")
    return re.sub(r"\s*@font-face \{.*?\}", "", svg, flags=re.S)


if __name__ == "__main__":
    PICTURE.parent.mkdir(exist_ok=True)
    PICTURE.write_text(drawn(printed()))
    print(f"wrote {PICTURE.relative_to(ROOT)}")
