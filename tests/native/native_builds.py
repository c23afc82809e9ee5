"""The builds in which the programs of tests/native are tested: tests that need any build of a program take one of these, so that
each is compiled once.

The matrix: programs (registry.toml) x compilers (nvcc 13.0, nvcc 13.5, clang for CUDA 12.9) x -O0/-O3 x kinds of image x the runtime
shared or linked in (with --full-matrix: all of it, each kind of image with two of nvcc's four). Otherwise:

- a few programs that between them use every way of passing data run with every compiler at both -O levels;
- every other program runs with two builds: one of nvcc's and one of clang's, dealt out in turn from `NVCC_ROWS` and
  `CLANG_ROWS`. The rows of nvcc are a pairwise cover: every pair of values of any two of (version, -O, image, runtime) is in a row,
  which a test of tests/e2e/test_native.py checks;
- of a program with two builds, the first runs in all modes of deferral and the second in the default one; `make test-matrix`
  runs every program with every compiler in all modes;
- each variant of a program (other options, such as per-thread default streams or debug code) runs with one build;
- programs and variants marked as rare are left out: they take time, and what they use is in others too.
"""

from __future__ import annotations

import functools
import itertools
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from farlane.frontend.devtools import registry
from farlane.frontend.devtools.programs import Build
from farlane.frontend.devtools.registry import Entry
from farlane.frontend.devtools.toolchain import SPECIFICATIONS, Toolchain

REGISTRY = Path(__file__).parent / "registry.toml"
MODES = ("none", "calls", "loops")  # of deferral; the last is the default
EVERY_BUILD = {"vecadd", "constants", "templates_and_structs"}

CUDART = ("shared", "static")
# How the image is embedded: the options and what they make.
IMAGES: dict[str, Build] = {
    "sm": Build(architecture="sm_75"),  # machine code and PTX, zstd
    "ptx": Build(architecture="compute_75"),  # PTX alone, zstd
    "lz4": Build(architecture="sm_75", nvcc_flags=("--compress-mode=speed",)),
    "stored": Build(architecture="compute_75", nvcc_flags=("--compress-mode=none",)),
    "many": Build(architecture="75,sm_80,90,compute_100"),  # four architectures, PTX of three
}


# Several threads wait for each other's work: their round trips differ from run to run.
VARYING = ("threads", "driver_threads", "pinned_in_kernels")


def one_level(entry: Entry) -> int:
    """The digit of -O where a program is built at one level only: its own, whatever programs there are beside it."""
    return 3 if zlib.crc32(entry.name.encode()) % 2 else 0


@dataclass(frozen=True)
class Row:
    """One combination of options."""

    toolchain: str
    optimization: int
    image: str
    cudart: str = "shared"

    def build(self) -> Build:
        image = IMAGES[self.image]
        return Build(self.optimization, image.architecture, nvcc_flags=image.nvcc_flags, cudart=self.cudart)

    def __str__(self) -> str:
        return f"{self.toolchain}-O{self.optimization}-{self.image}-{self.cudart}"


NVCC_ROWS = [
    Row("13.0", 3, "sm", "shared"),
    Row("13.5", 0, "sm", "static"),
    Row("13.0", 0, "ptx", "static"),
    Row("13.5", 3, "ptx", "shared"),
    Row("13.0", 3, "lz4", "static"),
    Row("13.5", 0, "lz4", "shared"),
    Row("13.0", 0, "stored", "shared"),
    Row("13.5", 3, "stored", "static"),
    Row("13.0", 0, "many", "static"),
    Row("13.5", 3, "many", "shared"),
]
CLANG_ROWS = [Row("clang-12.9", 3, "sm", "shared"), Row("clang-12.9", 0, "sm", "static")]


@dataclass(frozen=True)
class Case:
    """One build of one program."""

    entry: Entry
    row: Row
    modes: tuple[str, ...] = MODES  # in which it runs

    @property
    def id(self) -> str:
        return f"{self.entry.name}-{self.row}"


def fitting(entry: Entry, rows: Sequence[Row]) -> list[Row]:
    return [row for row in rows if SPECIFICATIONS[row.toolchain].compiler in entry.compilers]


@functools.cache
def of_nvcc() -> dict[str, Row]:
    """The build of a program that is there already once test_native.py has run, by the program's name: the first one of nvcc's."""
    rows: dict[str, Row] = {}
    for case in cases(full=False):
        if case.row in NVCC_ROWS:
            rows.setdefault(case.entry.name, case.row)
    return rows


def by_nvcc(entry: Entry, toolchain: Callable[[str], Toolchain]) -> list[str]:
    """The command line of a program where any build of nvcc's does."""
    row = of_nvcc().get(entry.name, NVCC_ROWS[0])
    return entry.compiled(toolchain(row.toolchain), row.build())


def cases(full: bool) -> list[Case]:
    """The builds to test, in an order that keeps builds of one program together."""
    chosen: list[Case] = []
    nvcc_turn, clang_turn = itertools.cycle(NVCC_ROWS), itertools.cycle(CLANG_ROWS)
    for entry in registry.load(REGISTRY):
        rare = entry.rare and not full
        if entry.helper or (rare and not entry.variant):
            continue
        if full:
            plain = [Row(t, o, "sm", c) for t in SPECIFICATIONS for o in (0, 3) for c in CUDART]
            rows = plain + [row for row in NVCC_ROWS if row.image != "sm"]
        elif entry.name in EVERY_BUILD:
            rows = [
                Row(t, o, "sm", c) for t in SPECIFICATIONS for o, c in ((0, "static"), (3, "shared"), (3, "static"))
            ]
        elif entry.variant:
            rows = [next(nvcc_turn if "nvcc" in entry.compilers else clang_turn)]
        else:
            rows = [next(nvcc_turn), next(clang_turn)]
        if rare:  # its turn is over, so that the other programs keep their builds
            continue
        first, *others = fitting(entry, rows)
        thorough = full or entry.name in EVERY_BUILD
        chosen += [Case(entry, first), *(Case(entry, row, MODES if thorough else MODES[-1:]) for row in others)]
    return chosen
