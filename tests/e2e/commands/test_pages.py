"""The commands of the pages do what the pages say: blocks marked ```bash run are run, each page in a folder of its own.

The words behind `run`: `fails` (the block must end with an error), `slow` (only with the marker "pages": `make test-pages`). A page's blocks
are one script, so that what one makes is there in the next. A page that builds on another one says so in `AFTER`.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[3] / "docs"
BLOCK = re.compile(r"^```bash run([^\n]*)\n(.*?)^```$", re.M | re.S)
WORDS = {"fails", "slow"}
AFTER = {
    "howto/choose-a-mode.md": ("tutorials/first-run.md", "cp hello app"),
    "tutorials/team-host.md": ("tutorials/first-run.md", ""),
}


def blocks(page: str) -> list[tuple[set[str], str]]:
    """A page's runnable blocks: the words behind `run`, and the text."""
    return [(set(match[1].split()), match[2]) for match in BLOCK.finditer((DOCS / page).read_text())]


def script(page: str, slow: bool) -> str:
    """What a reader of the page would type."""
    before, more = AFTER.get(page, ("", ""))
    lines = [script(before, slow=False) if before else "set -eu", more]
    for words, text in blocks(page):
        if "slow" in words and not slow:
            continue
        lines.append(
            f"if ( set -e\n{text}\n); then echo 'this block must fail'; exit 1; fi" if "fails" in words else text
        )
    return "\n".join(lines)


def free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])


PAGES = sorted(str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md") if BLOCK.search(page.read_text()))
SLOW = [page for page in PAGES if any("slow" in words for words, _ in blocks(page))]


def run(text: str, folder: Path) -> None:
    ports = {port: str(free_port()) for port in ("7070", "9090")}  # the pages' may be taken here
    environment = {name: value for name, value in os.environ.items() if not name.startswith("FARLANE_")}
    environment |= {
        "PATH": f"{Path(sys.executable).parent}:{environment['PATH']}",
        "XDG_CONFIG_HOME": str(folder / "configuration"),
    }
    with subprocess.Popen(
        ["bash", "-c", re.sub(r"\b(7070|9090)\b", lambda port: ports[port[1]], text)],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            output, _ = process.communicate(timeout=400)
        finally:
            with contextlib.suppress(ProcessLookupError):  # a host that a block has started and not ended
                os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == 0, output


@pytest.mark.parametrize("page", PAGES)
def test_words_are_known(page: str) -> None:
    assert {word for words, _ in blocks(page) for word in words} <= WORDS


@pytest.mark.timeout(450)
@pytest.mark.parametrize(
    "page", [page for page in PAGES if any("slow" not in words for words, _ in blocks(page)) and page not in SLOW]
)
def test_page(page: str, tmp_path: Path) -> None:
    run(script(page, slow=False), tmp_path)


@pytest.mark.pages
@pytest.mark.timeout(450)
@pytest.mark.parametrize("page", SLOW)
def test_slow_page(page: str, tmp_path: Path) -> None:
    run(script(page, slow=True), tmp_path)
