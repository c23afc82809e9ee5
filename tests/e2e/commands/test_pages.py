"""The commands of the pages do what the pages say: blocks marked ```bash run (tests/tutorials/blocks.py) are run, each page in a folder of its own.

A page's blocks are one script, so that what one makes is there in the next. A page that builds on another one says so in `AFTER`. Blocks for a
clean system are left to `make test-tutorials`.
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
from blocks import DOCS, WORDS, Block, blocks, not_printed, pages, script

#: A small program that pages call `app`: a loop of launches in a function, and memory of the device.
APP = """
cat > app.cu <<'END'
__global__ void add(int *data) { data[threadIdx.x] += 1; }
extern "C" void step(int *data) {
    for (int i = 0; i < 8; ++i) add<<<1, 64>>>(data);
}
int main() {
    int *data;
    cudaMalloc(&data, 4096);
    cudaMemset(data, 0, 4096);
    step(data);
    return cudaDeviceSynchronize() || cudaFree(data);
}
END
python -m farlane.frontend.devtools.toolchain 13.0 -- -o app app.cu
"""
AFTER = {
    "howto/analyze-a-program.md": ("", APP),
    "howto/check-kernels.md": ("tutorials/first-run.md", "cp hello.cu app.cu\n"),
    "howto/choose-a-mode.md": ("tutorials/first-run.md", "cp hello app\n"),
    "howto/debug-a-program.md": ("", APP),
    "howto/hosts/share-a-host.md": ("", "farlane host init\n"),
    "howto/more-memory.md": ("", APP),
    "howto/record-a-timeline.md": ("", APP),
    "howto/study-memory.md": ("", APP),
    "howto/why-a-loop-waits.md": ("tutorials/first-run.md", "cp hello app\n"),
    "tutorials/team-host.md": ("tutorials/first-run.md", ""),
}


def here(page: str) -> list[Block]:
    """A page's blocks that can run on this machine."""
    return [block for block in blocks(page) if "clean" not in block.words]


def is_slow(page: str) -> bool:
    return any("slow" in block.words for block in here(page))


def free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])


PAGES = [page for page in pages() if here(page)]


def run(page: str, folder: Path) -> None:
    before, more = AFTER.get(page, ("", ""))
    chosen = [*(here(before) if before else ()), *([Block(frozenset(), more, ())] if more else ()), *here(page)]
    ports = {port: str(free_port()) for port in ("7070", "9090")}  # the pages' may be taken here
    environment = {name: value for name, value in os.environ.items() if not name.startswith("FARLANE_")}
    environment |= {
        "PATH": f"{Path(sys.executable).parent}:{environment['PATH']}",
        "XDG_CONFIG_HOME": str(folder / "configuration"),
    }
    with subprocess.Popen(
        ["bash", "-c", re.sub(r"\b(7070|9090)\b", lambda port: ports[port[1]], script(chosen))],
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
    assert not_printed(chosen, output) == [], output


@pytest.mark.parametrize("page", pages())
def test_words_are_known(page: str) -> None:
    assert {word for block in blocks(page) for word in block.words} <= WORDS


@pytest.mark.parametrize("page", sorted((DOCS / "tutorials").glob("*.md")), ids=lambda page: page.stem)
def test_all_commands_of_a_tutorial_are_run(page: Path) -> None:
    assert re.findall(r"^```(?:bash|sh|console)(?! run).*$", page.read_text(), re.M) == []


def test_output_that_a_page_shows_and_its_commands_do_not_print_is_found() -> None:
    chosen = [Block(frozenset(), "echo one; echo two\n", ("two",)), Block(frozenset(), "echo one\n", ("one", "two"))]
    done = subprocess.run(["bash", "-c", script(chosen)], capture_output=True, text=True, check=True)
    assert not_printed(chosen, done.stdout) == ["echo one\nshows 'two'"]


@pytest.mark.timeout(450)
@pytest.mark.parametrize("page", [page for page in PAGES if not is_slow(page)])
def test_page(page: str, tmp_path: Path) -> None:
    run(page, tmp_path)


@pytest.mark.pages
@pytest.mark.timeout(450)
@pytest.mark.parametrize("page", [page for page in PAGES if is_slow(page)])
def test_slow_page(page: str, tmp_path: Path) -> None:
    run(page, tmp_path)
