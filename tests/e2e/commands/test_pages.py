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
import tempfile
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest
from blocks import DOCS, WORDS, Block, blocks, not_printed, pages, script
from farlane.frontend.devtools.toolchain import Toolchain
from farlane.frontend.doctor.finding import OK
from farlane.frontend.doctor.kernels import check_kernels

CLIENTS = Path(__file__).parents[2] / "clients"
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
#: A program that says a word of what it computes and goes on until there is a file `end`.
LASTING = """
cat > app.cu <<'END'
#include <cstdio>
#include <unistd.h>
__global__ void add(int *data) { data[threadIdx.x] += 1; }
int main() {
    int *data, first = 0, rounds = 0;
    cudaMalloc(&data, 4096);
    cudaMemset(data, 0, 4096);
    for (; access("end", F_OK) != 0; ++rounds) {
        add<<<1, 64>>>(data);
        if (cudaMemcpy(&first, data, 4, cudaMemcpyDeviceToHost) || first != rounds + 1) return 1;
        if (rounds == 0) { puts("working"); fflush(stdout); }
        usleep(20000);
    }
    printf("%s\\n", cudaFree(data) ? "failed" : "went on to its end");
}
END
python -m farlane.frontend.devtools.toolchain 13.0 -- -o app app.cu
"""
#: A Python program and a test suite that use the driver API.
SCRIPT = f"""
export PYTHONPATH={CLIENTS}
echo 'import driver_api; assert str(driver_api.stored(3)) == "[1, 2, 3]"' > script.py
mkdir tests && echo 'import driver_api
def test_stored(): assert str(driver_api.stored(3)) == "[1, 2, 3]"' > tests/test_stored.py
"""
#: Page -> the page that it builds on, and commands in front of its own.
AFTER = {
    "howto/analyze-a-program.md": ("", APP),
    "howto/build-with-ptx.md": ("", APP),
    "howto/check-kernels.md": ("tutorials/first-run.md", "cp hello.cu app.cu\n"),
    "howto/choose-a-mode.md": ("tutorials/first-run.md", "cp hello app\n"),
    "howto/debug-a-program.md": ("", APP),
    "howto/hosts/move-sessions.md": (
        "",
        LASTING + "farlane serve --listen grpc://b:7070 --listen unix:///run/b.sock > b.log 2>&1 &\n",
    ),
    "howto/hosts/observe-a-host.md": ("", APP),
    "howto/hosts/opentelemetry.md": ("", APP),
    "howto/hosts/secure-a-host.md": ("", APP),
    "howto/hosts/share-a-host.md": ("", "farlane host init\n"),
    "howto/keep-kernels.md": ("", APP),
    "howto/more-memory.md": ("", APP),
    "howto/python-guests.md": ("", SCRIPT),
    "howto/record-a-timeline.md": ("", APP),
    "howto/study-memory.md": ("", APP),
    "howto/test-in-ci.md": ("", SCRIPT + APP + "cp app my_cuda_tests\n"),
    "howto/why-a-loop-waits.md": ("tutorials/first-run.md", "cp hello app\n"),
    "tutorials/team-host.md": ("tutorials/first-run.md", ""),
}
#: Page -> commands behind its own, which fail where the page has not done what it says.
BEFORE_THE_END = {
    "howto/hosts/move-sessions.md": "touch end; until grep 'went on to its end' stays-*.log; do sleep 0.1; done; "
    "farlane session list --host unix:///run/b.sock\n",
    "howto/hosts/observe-a-host.md": "test -s run.json\n",
}
#: Blocks of commands in docs/howto that are not run here, by page and first line, and why. Their commands are parsed all the same
#: (tests/unit/packaging/test_commands_in_pages.py).
NOT_RUN = {
    ("howto/test-in-ci.md", "pip install PATH_OF_FARLANE"): "installs: `make test-tutorials` does it (ci-machine.md)",
    ("howto/test-in-ci.md", "python3 -m venv venv"): "installs: `make test-tutorials` does it (ci-machine.md)",
    ("howto/test-in-ci.md", "jobs:"): "a workflow of GitHub's",
    ("howto/python-guests.md", "pip install"): "downloads gigabytes: `make test-guests test-compilers` do it",
    ("howto/test-on-a-gpu.md", "make gpu-bundle"): "needs a GPU, and downloads wheels for three Pythons",
    ("howto/hosts/move-sessions.md", "ssh -fNL"): "needs a second machine; the test's other host is on this one",
    ("howto/hosts/move-sessions.md", "farlane fleet drain"): "needs Ray: `make test-fleet`",
    ("howto/hosts/opentelemetry.md", "pip install"): "installs",
    ("howto/hosts/serve-a-gpu.md", "pip install"): "needs a GPU",
    (
        "howto/hosts/nvidia-smi.md",
        "farlane run -- python",
    ): "needs nvidia-ml-py (`make test-guests`), and a second machine",
    ("howto/record-a-timeline.md", "farlane run --host"): "needs a second machine",
    ("howto/packages.md", ""): "`make test-packages` builds and installs them",
    ("howto/containers.md", ""): "tests/e2e/commands/test_compose.py and `make test-packages`",
    ("howto/virtual-machines.md", ""): "`make demo-vm`, tests/e2e/test_vm.py",
}
_COMMANDS = re.compile(
    r"^ *(?:- run: |export |eval |(?:[A-Z_]+=\S+ )*(?:farlane|pip|pytest|python3?|make|ssh|gdb|docker|dpkg|sudo|systemctl) )",
    re.M,
)


def here(page: str) -> list[Block]:
    """A page's blocks that can run on this machine."""
    return [block for block in blocks(page) if "clean" not in block.words]


def is_slow(page: str) -> bool:
    return any("slow" in block.words for block in here(page))


def free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])


def places(folder: Path, sockets: str) -> dict[str, str]:
    """What the pages' places and other machines are here: pattern -> replacement, one after the other."""
    other = f"grpc://127.0.0.1:{free_port()}"
    ports = {rf"\b{port}\b": str(free_port()) for port in ("7070", "9090", "4318")}  # the pages' may be taken here
    return {
        r"grpc://b:7070": other,
        **ports,
        r"farlane session (list|save|move)(?! --host)": r"farlane session \1 --host unix://SOCKETS/farlane.sock",
        r"unix:///(run|tmp)/": "unix://SOCKETS/",
        r" /(backup|srv)/": rf" {folder}/\1/",
        r"=/srv/": f"={folder}/srv/",
        r"gpu-host\.example": "localhost",
        r"FARLANE_CA=ca\.pem": "FARLANE_CA=~/.config/farlane/host/ca.pem",
        "SOCKETS": sockets,
    }


PAGES = [page for page in pages() if here(page)]


def run(page: str, folder: Path) -> None:
    before, more = AFTER.get(page, ("", ""))
    chosen = [*(here(before) if before else ()), *([Block(frozenset(), more, ())] if more else ()), *here(page)]
    chosen += [Block(frozenset(), commands, ()) for commands in [BEFORE_THE_END.get(page)] if commands]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("FARLANE_")}
    environment |= {
        "PATH": f"{Path(sys.executable).parent}:{environment['PATH']}",
        "HOME": str(folder),
        "XDG_CONFIG_HOME": str(folder / ".config"),
        "XDG_CACHE_HOME": os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache"),
    }
    with tempfile.TemporaryDirectory(prefix="farlane-pages-") as sockets:  # a socket's path must be short
        text = script(chosen)
        for pattern, replacement in places(folder, sockets).items():
            text = re.sub(pattern, replacement, text)
        with subprocess.Popen(
            ["bash", "-c", text],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
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


@pytest.mark.parametrize("page", sorted(str(page.relative_to(DOCS)) for page in (DOCS / "howto").rglob("*.md")))
def test_all_commands_of_a_howto_are_run_or_have_a_reason(page: str) -> None:
    text = (DOCS / page).read_text()
    assert re.findall(r"^```(?:bash|sh|console)(?! run).*$", text, re.M) == []
    indented = re.findall(r"(?:^ {4}[^\n]*\n+)+", re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S), re.M)
    blocks_of_commands = {
        block for each in indented if _COMMANDS.search(block := textwrap.dedent(each)) and "[--" not in block
    }
    reasons = {first for at, first in NOT_RUN if at == page}
    without = [block for block in blocks_of_commands if not any(block.startswith(first) for first in reasons)]
    unused = [first for first in reasons if not any(block.startswith(first) for block in blocks_of_commands)]
    assert (without, unused) == ([], [])


def test_output_that_a_page_shows_and_its_commands_do_not_print_is_found() -> None:
    chosen = [Block(frozenset(), "echo one; echo two\n", ("two",)), Block(frozenset(), "echo one\n", ("one", "two"))]
    done = subprocess.run(["bash", "-c", script(chosen)], capture_output=True, text=True, check=True)
    assert not_printed(chosen, done.stdout) == ["echo one\nshows 'two'"]


@pytest.mark.parametrize(
    ("commands", "status"), [("echo ready; sleep 60\n", 0), ("sleep 60 & echo $!\n", 0), ("exit 3\n", 1)]
)
def test_what_stays_is_there_before_the_next_block_or_the_script_ends(
    commands: str, status: int, tmp_path: Path
) -> None:
    text = script([Block(frozenset({"stays"}), commands, ()), Block(frozenset(), "kill -0 $! && kill $!\n", ())])
    assert subprocess.run(["bash", "-c", text], cwd=tmp_path, capture_output=True, timeout=30).returncode == status


def test_nvccs_options_that_a_page_names_give_ptx(toolchain: Callable[[str], Toolchain], tmp_path: Path) -> None:
    rows = re.findall(r"^\| nvcc[^|]*\| (.*?) \|$", (DOCS / "howto/build-with-ptx.md").read_text(), re.M)
    assert len(rows) == 3
    for row in rows:
        options = "".join(re.findall(r"`([^`]*)`", row)).split()  # none where PTX comes by itself
        (tmp_path / "app.cu").write_text("__global__ void kernel() {}\nint main() { kernel<<<1, 1>>>(); }")
        nvcc = [toolchain("13.0").cuda_root / "bin" / "nvcc", *options, "-o", "app", "app.cu"]
        subprocess.run(nvcc, cwd=tmp_path, check=True)
        assert [finding.state for finding in check_kernels(tmp_path / "app", "")] == [OK], row


@pytest.mark.timeout(450)
@pytest.mark.parametrize("page", [page for page in PAGES if not is_slow(page)])
def test_page(page: str, tmp_path: Path) -> None:
    run(page, tmp_path)


@pytest.mark.pages
@pytest.mark.timeout(450)
@pytest.mark.parametrize("page", [page for page in PAGES if is_slow(page)])
def test_slow_page(page: str, tmp_path: Path) -> None:
    run(page, tmp_path)
