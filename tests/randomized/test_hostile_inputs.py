"""Hostile images: damaged ones through every load function of both APIs, and valid PTX that would cost its reader far more than other texts.

`hostile_inputs/images.cu` damages images and loads them; it says what it makes sure of. A round that fails is named, and runs alone: the program's last two arguments.
More of them: `pytest tests/randomized/test_hostile_inputs.py --hostile-inputs 100000`. `hostile_inputs/texts.py` makes the texts.
"""

from __future__ import annotations

import functools
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from farlane.frontend.devtools.guest import Guest
from farlane.frontend.devtools.programs import Build, compile_program
from farlane.frontend.devtools.toolchain import Toolchain
from farlane.frontend.embedded import EmbeddedHost

sys.path.insert(0, str(Path(__file__).parent / "hostile_inputs"))
import texts

pytestmark = pytest.mark.native

SOURCES = Path(__file__).parent / "hostile_inputs"
IMAGES = Path(__file__).parents[1] / "unit/fatbin/images"
DRIVER = Path(__file__).parents[1] / "native/driver.h"
LOADS = [
    "cuModuleLoad", "cuModuleLoadData", "cuModuleLoadDataEx", "cuModuleLoadFatBinary", "cuLibraryLoadData", "cuLibraryLoadFromFile",
    "cuLinkAddData", "cuLinkAddFile", "cudaLibraryLoadData", "a wrapper", "registered",
]  # fmt: skip
MOST_SECONDS = 30  # of one text: none takes a third of that on a quiet machine
MOST_MEMORY = 1 << 30  # that the host may have held at once for all of them, beyond what it holds for a small kernel
# What refuses a text: the load, or the launch where that is not 0.
REFUSED = {
    "far_too_nested": 218, "open_comments": 218, "slashes": 218, "open_strings": 0, "huge_arrays": 2, "huge_local": 218, "huge_shared": 218, "too_many_instructions": 801,
}  # fmt: skip


@functools.cache
def program(toolchain: Toolchain, name: str, folder: Path) -> str:
    for path in (SOURCES / f"{name}.cu", SOURCES / "mutations.h", DRIVER):
        shutil.copy(path, folder)
    return str(compile_program(toolchain, [folder / f"{name}.cu"], name, Build(architecture="compute_75", driver=True)))


@pytest.mark.parametrize("mode", ["calls", "none"])
def test_damaged_images_are_refused_and_nothing_else_suffers(
    mode: str, toolchain: Callable[[str], Toolchain], guest: Guest, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    count = request.config.getoption("--hostile-inputs")
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    for path in IMAGES.glob("*bin"):
        shutil.copy(path, corpus)
    command = [
        program(toolchain("13.0"), "images", tmp_path),
        str(corpus),
        str(["calls", "none"].index(mode)),
        "0",
        str(count),
    ]
    outcome = guest.run(command, mode, timeout=60 + count / 50)
    assert outcome.status == 0, f"{outcome.stdout}\n{outcome.stderr[-2000:]}"
    lines = dict(line.split(": ", 1) for line in outcome.stdout.splitlines() if ": " in line)
    for load in LOADS:  # each is reached, and both accepts and refuses some; what is registered is asked for a kernel that most images do not have
        codes = {int(code): int(times) for code, times in re.findall(r"(\d+) x (\d+)", lines[load])}
        accepted = codes.pop(98 if load == "registered" else 0, 0)
        assert sum(codes.values()) > accepted > 0, f"{load}: {lines[load]}"


def test_texts_that_cost_more_than_their_length(toolchain: Callable[[str], Toolchain], tmp_path: Path) -> None:
    files = []
    for name in texts.TEXTS:
        files.append(tmp_path / name)
        files[-1].write_text(texts.text(name))
    compiled = program(toolchain("13.0"), "texts", tmp_path)
    with EmbeddedHost("sim") as host:
        guest = Guest(host.url)
        assert guest.run([compiled]).stdout == "PASS\n"
        before = _most_memory(host.pid)
        outcome = guest.run([compiled, *map(str, files)], timeout=300)
        assert host.alive()
        held = _most_memory(host.pid) - before
    *lines, last = outcome.stdout.splitlines()
    assert (outcome.status, last) == (0, "PASS"), f"{outcome.stdout}\n{outcome.stderr[-2000:]}"
    results = {}
    for line in lines:
        name, *codes, seconds = line.split()
        assert float(seconds) < MOST_SECONDS, line
        results[name] = next((code for code in map(int, codes) if code > 0), 0)
    assert results == {name: REFUSED.get(name, 0) for name in texts.TEXTS}
    assert held < MOST_MEMORY, f"{held >> 20} MiB"


def _most_memory(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) << 10
