"""The corpus: its units, how they are built, and what expected.toml and gaps.toml say of their loops.

Owns the files' schemas and the matrix of builds. A unit is one .cu file; a case is one of its functions in one build. The full
matrix is every unit by nvcc at every level, by clang at every level, and in every way of its own (`WAYS`). By default every unit
is built three times: without optimization by nvcc or clang, optimized by the other, and in one of the ways, dealt out in turn; what
permissions are about (`reads`) by nvcc at every level besides.
"""

from __future__ import annotations

import itertools
import re
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from farlane.frontend.devtools.programs import Build, compile_program
from farlane.frontend.devtools.toolchain import CLANG, Toolchain, cache_folder

from corpus_tools import driver

FOLDER = Path(__file__).parents[1] / "corpus"
EXPECTED: dict[str, dict[str, list[dict[str, Any]]]] = tomllib.loads((FOLDER / "expected.toml").read_text())
GAPS: list[dict[str, Any]] = tomllib.loads((FOLDER / "gaps.toml").read_text()).get("gap", [])
# Besides, a gap may name the aspect "predictions": what corpus_tools/trace.py compares with the program's run.
ASPECTS = ("class", "trips", "described", "permits", "foretold")

# Ways of compiling that change how the machine code looks, beside the levels.
WAYS: dict[str, tuple[str, ...]] = {
    "no-plt": ("-Xcompiler", "-fno-plt"),
    "cf-protection": ("-Xcompiler", "-fcf-protection=full", "-Xlinker", "-z,ibtplt"),
    "no-pie": ("-Xcompiler", "-fno-pie", "-Xlinker", "-no-pie"),
    "clang-host": (),
    "pic": ("-Xcompiler", "-fPIC", "-Xcompiler", "-fstack-protector-all"),
}


@dataclass(frozen=True)
class Row:
    """One way of building a unit; `name` is what expected.toml and gaps.toml call it."""

    name: str
    toolchain: str
    level: int
    flags: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The names under which something may be said of this build, the most particular one first."""
        return (self.name,) if self.toolchain.startswith("clang") else (self.name, f"O{self.level}")

    @property
    def host_compiler(self) -> str:
        return CLANG if self.name.endswith("clang-host") else "g++"


NVCC = tuple(Row(f"O{level}", "13.0", level) for level in (0, 2, 3))
CLANG_ROWS = tuple(Row(f"clang-O{level}", "clang-12.9", level) for level in (0, 3, 2))
WAY_ROWS = (*(Row(f"O2-{way}", "13.0", 2, flags) for way, flags in WAYS.items()), Row("O3-13.5", "13.5", 3))


@dataclass(frozen=True)
class Case:
    """One build of one unit; `driver`: in the words of the driver API."""

    unit: str
    row: Row
    driver: bool = False

    @property
    def id(self) -> str:
        return f"{'driver-' if self.driver else ''}{self.unit}-{self.row.name}"

    @property
    def names(self) -> tuple[str, ...]:
        """The names under which something may be said of this build."""
        return (*self.row.names, *("driver", f"driver-{self.row.name}")) if self.driver else self.row.names

    def compiled(self, toolchain: Callable[..., Toolchain]) -> Path:
        """Builds the unit, or takes it from the cache. `toolchain` is the fixture of that name, or `install`."""
        source, options = FOLDER / f"{self.unit}.cu", self.row.flags
        compilers = toolchain(self.row.toolchain, host_compiler=self.row.host_compiler)
        if self.driver:
            source = driver.written(self.unit, cache_folder() / "driver-corpus" / self.unit)
        build = Build(self.row.level, "compute_75", flags=("-g",), nvcc_flags=options, driver=self.driver)
        return compile_program(compilers, [source], self.unit, build)

    def expected(self) -> dict[str, list[dict[str, Any]]]:
        """function -> its loops' rows, for this build."""
        found: dict[str, list[dict[str, Any]]] = {}
        for key, rows in EXPECTED[self.unit].items():
            name, _, builds = key.partition("@")
            if not builds or not set(self.names).isdisjoint(builds.split(",")):
                found[name] = [driver.renamed(row) for row in rows] if self.driver else rows
        return found

    def gap(self, function: str, aspect: str) -> str | None:
        """Why the analyzer does not do this yet; None when it does."""
        for gap in GAPS:
            builds = set(gap.get("builds", self.names))
            here = gap["unit"] == self.unit and not builds.isdisjoint(self.names)
            here = here and f"!{self.row.name}" not in builds
            if here and function in gap["functions"] and aspect in gap["aspects"]:
                return str(gap["why"])
        return None


def cases(full: bool) -> Iterator[Case]:
    """The builds to test."""
    ways = itertools.cycle(WAY_ROWS)
    nvcc, clang = {row.level: row for row in NVCC}, {row.level: row for row in CLANG_ROWS}
    pairs = itertools.cycle([(nvcc[0], clang[3]), (nvcc[3], clang[0]), (nvcc[0], clang[2]), (nvcc[2], clang[0])])
    for unit in EXPECTED:
        rows = (*NVCC, *CLANG_ROWS, *WAY_ROWS) if full else (*next(pairs), next(ways))
        if unit == "reads" and not full:
            rows = (*NVCC, clang[0], rows[-1])
        for row in rows:
            yield Case(unit, row)


def driver_cases(full: bool) -> Iterator[Case]:
    """The builds of the units in the driver's words: by nvcc, once by default, dealt out in turn."""
    rows = itertools.cycle((*NVCC, WAY_ROWS[0], WAY_ROWS[-1]))
    for unit in driver.UNITS:
        for row in (*NVCC, *WAY_ROWS) if full else (next(rows),):
            yield Case(unit, row, driver=True)


def bare(symbol: str) -> str:
    """The name of a function at the outermost level without its mangling: `_ZL10many_stepsPfi` -> `many_steps`."""
    mangled = re.match(r"_ZL?(\d+)", symbol)
    if not mangled:
        return symbol
    return symbol[mangled.end() : mangled.end() + int(mangled[1])]
