"""Random loop nests of CUDA calls print the same in every deferral mode, and what the CPU says they print.

`loop_programs` makes the programs, ten to a translation unit, and one process runs the ten one after another: each but the first
meets what the others left behind (templates, remembered loops, freed memory). The expectation is the output of the same text compiled
against an emulation of the runtime API that does every call at once (with sanitizers, where the compiler has them: they show
that the programs have no undefined behaviour), so a mistake that all modes share is seen too.

One unit of each build always; all 200 programs with --full-matrix. What a failing test prints names the program; it is made
again by its seed, and the unit runs it alone with the seed as its only argument:

    PYTHONPATH=tests/randomized python -c 'import loop_programs; print(loop_programs.translation_unit([SEED]))'
"""

from __future__ import annotations

import functools
import hashlib
import os
import subprocess
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import pytest
from farlane.frontend import manifests
from farlane.frontend.devtools.guest import Guest
from farlane.frontend.devtools.programs import Build, compile_program
from farlane.frontend.devtools.toolchain import Toolchain, cache_folder, locked
from loop_programs import HEADERS, THEMES, program, translation_unit

PROGRAMS, UNIT = 200, 10
BUILDS = [
    ("13.0", Build(optimization=0, architecture="compute_75")),
    ("13.0", Build(optimization=2, architecture="compute_75")),
    ("13.5", Build(optimization=3, architecture="compute_75")),
    ("clang-12.9", Build(optimization=2, architecture="sm_75")),
]
# Without a manifest the recorder works alone; with one, permissions and predictions count.
MODES = {"none": None, "calls": None, "loops": manifests.OFF, "loops with a manifest": "made"}
ANALYZE_SECONDS = 90.0
SANITIZERS = ["-fsanitize=address,undefined", "-fno-sanitize-recover=undefined"]


@dataclass(frozen=True)
class Case:
    """Ten programs: a unit, which has one build."""

    unit: int

    @property
    def id(self) -> str:
        name, build = self.build
        return f"{self.unit}-{name}-O{build.optimization}"

    @property
    def seeds(self) -> range:
        return range(self.unit * UNIT, (self.unit + 1) * UNIT)

    @property
    def build(self) -> tuple[str, Build]:
        # 25 themes come round after five units, builds after four: in twenty units each build meets each theme.
        return BUILDS[self.unit % len(BUILDS)]


def cases(full: bool) -> list[Case]:
    return [Case(unit) for unit in range(PROGRAMS // UNIT if full else len(BUILDS))]


def source(unit: int) -> Path:
    """The unit's source in the cache, with its headers beside it."""
    texts = {path.name: path.read_text() for path in HEADERS}
    texts["unit.cu"] = translation_unit(Case(unit).seeds)
    key = hashlib.sha256("\0".join(texts.values()).encode()).hexdigest()[:24]
    folder = cache_folder() / "loop_programs" / key
    with locked(folder.with_name(f"{folder.name}.lock")):
        if not (folder / "unit.cu").exists():
            folder.mkdir(parents=True, exist_ok=True)
            for name in (*(path.name for path in HEADERS), "unit.cu"):
                (folder / name).write_text(texts[name])
    return folder / "unit.cu"


@functools.cache
def sanitizers() -> list[str]:
    """The sanitizers' options, if the compiler has their libraries."""
    command = ["c++", *SANITIZERS, "-x", "c++", "-", "-o", "/dev/null"]
    return SANITIZERS if subprocess.run(command, input=b"int main() {}", capture_output=True).returncode == 0 else []


def reference(unit: Path) -> str:
    """The unit compiled against the emulation. Not optimized: the sanitizers see more, and compiling takes longer than running."""
    binary = unit.with_name("reference-O0")
    with locked(unit.with_name("reference.lock")):
        if not binary.exists():
            temporary = unit.with_name("reference.new")
            command = ["c++", "-O0", "-std=c++17", "-DEMULATED", *sanitizers(), "-x", "c++", str(unit), "-pthread"]
            subprocess.run([*command, "-o", str(temporary)], check=True)
            temporary.rename(binary)
    return str(binary)


def expected(unit: Path, seeds: Iterable[int]) -> str:
    """What the CPU says the programs print."""
    done = subprocess.run([reference(unit), *map(str, seeds)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, f"a program itself is wrong:\n{done.stderr}"
    return done.stdout


def manifest_folder(compiled: Path) -> Path:
    """The folder with the program's manifest, made at the first call. An analysis that fails is a failure here."""
    remarks: list[str] = []
    folder = manifests.prepare(compiled, os.environ, ANALYZE_SECONDS, remarks.append)
    assert remarks == []
    assert folder is not None
    return folder


@pytest.mark.sampled(2)
@pytest.mark.native
def test_generated_programs(build_case: Case, toolchain: Callable[[str], Toolchain], guest: Guest) -> None:
    name, build = build_case.build
    unit = source(build_case.unit)
    compiled = compile_program(toolchain(name), [unit], "unit", build)
    wanted = expected(unit, build_case.seeds)
    assert wanted.count("last error cudaSuccess\n") == wanted.count("last error") >= UNIT
    trips = {}
    for mode, manifest in MODES.items():
        where = str(manifest_folder(compiled)) if manifest == "made" else manifest
        extra = {} if where is None else {"FARLANE_MANIFESTS": where}
        outcome = guest.run([str(compiled), *map(str, build_case.seeds)], mode.split()[0], extra=extra)
        assert outcome.stdout == wanted, f"mode {mode}"
        assert (outcome.status, outcome.stderr) == (0, ""), f"mode {mode}"
        assert outcome.report.unsupported == []
        assert outcome.report.processes == 1
        trips[mode] = outcome.report.round_trips
    assert max(trips["calls"], trips["loops"], trips["loops with a manifest"]) < trips["none"]


def test_the_same_seed_makes_the_same_program() -> None:
    assert program(7) == program(7)
    assert program(7) != program(7 + len(THEMES))


def test_every_build_meets_every_theme() -> None:
    met = {(*case.build, seed % len(THEMES)) for case in cases(full=True) for seed in case.seeds}
    assert len(met) == len(BUILDS) * len(THEMES)


def test_the_programs_use_what_they_are_for() -> None:
    """Over all programs every kind of loop, every kernel and every CUDA function of the generator occurs."""
    text = "".join(program(seed) for seed in range(PROGRAMS))
    emulated = next(path for path in HEADERS if path.name == "emulated.h").read_text()
    functions = {word.split("(")[0] for word in emulated.split() if word.startswith("cuda") and "(" in word}
    missing = sorted(name for name in functions if f"{name}(" not in text)
    assert missing == []
    for kernel in ("shape", "digest", "widths", "structure", "constant_memory", "scratch", "decide"):
        assert text.count(f"LAUNCH({kernel},") > 10
    for shape in (
        "while (++",
        "for (;;)",
        ">>= 1",
        "std::function",
        "*= 2",
        ": table_",
        "break;",
        "continue;",
        "std::swap",
    ):
        assert text.count(shape) > 5


def test_a_lost_or_repeated_launch_shows() -> None:
    """The programs can fail: of launches lost or done twice in the emulation, most change what is printed.

    The rest change nothing that anybody could see: filling twice, an invalid configuration, a result that is overwritten.
    """
    unit = source(0)
    seen = tried = 0
    for seed in Case(0).seeds:
        command = [reference(unit), str(seed)]
        wanted = subprocess.run(command, env=os.environ | {"EMULATED_COUNT": "1"}, capture_output=True, text=True)
        launches = int(wanted.stderr)
        for number in range(0, launches, max(1, launches // 4)):
            for fault in ("EMULATED_LOSE", "EMULATED_REPEAT"):
                done = subprocess.run(command, env=os.environ | {fault: str(number)}, capture_output=True, text=True)
                tried += 1
                seen += done.stdout != wanted.stdout
    assert tried > 60
    assert seen > 0.7 * tried, f"{seen} of {tried}"
