"""Random kernels against the CPU, word for word: what the simulated device computes is what the host compiler's code computes.

`kernel_programs` makes two kinds of programs. In one each thread runs a function for itself, which the host runs as well; in the other threads
meet in shuffles, votes, shared memory and atomics, and the host has a loop over threads for each step. Neither has undefined behaviour:
the host's side is compiled with the sanitizer, where the compiler has it.

A few of each kind always, many with --full-matrix, which also compiles every kernel by tier 2 at once, as when it has run for a while. A program
is made again by its seed: PYTHONPATH=tests/randomized python -c 'import kernel_programs; print(kernel_programs.program(SEED))'
"""

from __future__ import annotations

import functools
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from farlane.frontend.devtools.guest import Guest
from farlane.frontend.devtools.programs import Build, compile_program
from farlane.frontend.devtools.toolchain import Toolchain
from farlane.frontend.embedded import EmbeddedHost
from kernel_programs import HEADERS, KINDS

CHECKS = {"FARLANE_CHECK": "memory,race,init"}
# Calls of functions that only the host has would compile, with a warning, to anything.
STRICT = ("-fmad=false", "-w", "-diag-error", "20011,20012,20013,20014,20015")
SANITIZER = ["-fsanitize=undefined", "-static-libubsan"]


def _nvcc(architecture: str, *flags: str) -> Build:
    return Build(architecture=architecture, nvcc_flags=(*STRICT, *flags))


BUILDS = [
    ("13.0", _nvcc("compute_75")),
    ("13.0", _nvcc("compute_80", "-Xcicc", "-O0")),
    ("13.0", _nvcc("compute_90", "-G")),  # 13.5 does not compile __dp4a with -G
    # clang 19 gives __reduce_max_sync its operands in the wrong order, which architectures before sm_80 do not have.
    ("clang-12.9", Build(2, "sm_75", clang_flags=("-ffp-contract=off", "-w"))),
    ("13.5", _nvcc("compute_80", "-Xcicc", "-O1")),
    ("13.0", _nvcc("compute_90", "-Xcicc", "-O2")),
]
FEW, MANY = 2, 60


@dataclass(frozen=True)
class Case:
    """A program of a kind; its seed deals out the builds."""

    kind: str
    seed: int

    @property
    def id(self) -> str:
        return f"{self.kind}-{self.seed}"

    @property
    def build(self) -> tuple[str, Build]:
        return BUILDS[(self.seed + FEW * [*KINDS].index(self.kind)) % len(BUILDS)]


def cases(full: bool) -> list[Case]:
    return [Case(kind, seed) for kind in KINDS for seed in range(MANY if full else FEW)]


@functools.cache
def sanitizer() -> str:
    """The host compiler's options for nvcc."""
    command = ["c++", *SANITIZER, "-x", "c++", "-", "-o", "/dev/null"]
    has = subprocess.run(command, input=b"int main() {}", capture_output=True).returncode == 0
    return ",".join(["-O0", *(SANITIZER if has else ())])


@pytest.fixture(scope="module")
def full_guest(request: pytest.FixtureRequest) -> Iterator[Guest | None]:
    """Runs programs on a host that compiles kernels by tier 2 at once."""
    if not request.config.getoption("--full-matrix"):
        yield None
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FARLANE_JIT_TIERS", "off")
        with EmbeddedHost("sim") as host:
            yield Guest(host.url)


@pytest.mark.native
def test_random_kernels(
    build_case: Case, toolchain: Callable[[str], Toolchain], guest: Guest, full_guest: Guest | None, tmp_path: Path
) -> None:
    name, build = build_case.build
    for header in HEADERS:
        (tmp_path / header.name).write_text(header.read_text())
    source = tmp_path / "random.cu"
    source.write_text(KINDS[build_case.kind](build_case.seed))
    if not name.startswith("clang"):
        build = Build(build.optimization, build.architecture, nvcc_flags=(*build.nvcc_flags, "-Xcompiler", sanitizer()))
    compiled = str(compile_program(toolchain(name), [source], "random", build))
    outcomes = [guest.run([compiled], timeout=240)]
    if full_guest is not None:
        outcomes.append(full_guest.run([compiled], timeout=240))
        outcomes.append(guest.run([compiled], timeout=240, extra=CHECKS))
        assert outcomes.pop().report.sections["check"]["errors"] == 0
    for outcome in outcomes:
        assert (outcome.status, outcome.stdout, outcome.stderr) == (0, "PASS\n", "")


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_seed_makes_the_same_program(kind: str) -> None:
    assert KINDS[kind](7) == KINDS[kind](7)
    assert KINDS[kind](7) != KINDS[kind](8)


def test_the_programs_use_what_they_are_for() -> None:
    """Over a few hundred programs each operation and each kind of statement occurs."""
    text = "\n".join(make(seed) for make in KINDS.values() for seed in range(60))
    wanted = [
        "goto again", "goto over", "goto middle", "switch (", "do {", "while (", "continue;", "->act(", "(*functions[", "recursive_", "by_value_",
        "by_pointer_", "divide(", "modulo(", "rotate(", "funnel(", "permuted(", "packed_", "dot(", "fused_rz(", "quotient_ru(", "root_rd(", "exact(",
        "saturate<", "truncated<", "to_s64(", "__hdiv(", "fused_half(", "u128", "alignas(16)", "load<s128>",
        "shuffled(", "__ballot_sync(", "__any_sync(", "__all_sync(", "__match_any_sync(", "__match_all_sync(", "reduced<", "__syncwarp(", "atomically(",
        "atomicAdd(&totals", "__syncthreads_count(", "__syncthreads_and(", "__syncthreads_or(", "return; } }",
    ]  # fmt: skip
    assert [word for word in wanted if text.count(word) < 3] == []
