"""Random kernels against the CPU: the same C++ function compiled by nvcc or clang for the device and by the host compiler.

A few seeds always, many with --full-matrix. The generator is farlane.frontend.devtools.random_kernels; a failing program is
kept in the test's temporary folder, and its seed makes it again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from farlane.frontend.devtools.guest import Guest
from farlane.frontend.devtools.programs import Build, compile_program
from farlane.frontend.devtools.random_kernels import program
from farlane.frontend.devtools.toolchain import Toolchain

pytestmark = pytest.mark.native

BUILDS = [
    ("13.0", Build(architecture="compute_75")),
    ("13.5", Build(architecture="compute_75", flags=("-G",))),
    ("clang-12.9", Build(architecture="sm_75", optimization=2)),
]


@dataclass(frozen=True)
class Case:
    seed: int

    @property
    def id(self) -> str:
        return str(self.seed)


def cases(full: bool) -> list[Case]:
    return [Case(seed) for seed in range(60 if full else len(BUILDS) * 2)]


def test_random_kernels(build_case: Case, toolchain: Callable[[str], Toolchain], guest: Guest, tmp_path: Path) -> None:
    name, build = BUILDS[build_case.seed % len(BUILDS)]
    source = tmp_path / "random.cu"
    source.write_text(program(build_case.seed, kernels=2))
    compiled = compile_program(toolchain(name), [source], "random", build)
    outcome = guest.run([str(compiled)], timeout=240)
    assert (outcome.status, outcome.stdout) == (0, "PASS\n"), outcome.stdout + outcome.stderr


def test_the_same_seed_makes_the_same_program() -> None:
    assert program(7) == program(7)
    assert program(7) != program(8)
