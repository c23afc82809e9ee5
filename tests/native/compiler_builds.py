"""The seven builds in which tests of the analyzer's claims compile a program of their own: each compiler and host compiler, at
several -O levels.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from farlane.frontend.devtools.programs import Build, compile_program
from farlane.frontend.devtools.toolchain import CLANG, Toolchain

# name -> toolchain, level, host compiler
BUILDS = {
    "O0": ("13.0", 0, "g++"),
    "O2": ("13.0", 2, "g++"),
    "O3": ("13.5", 3, "g++"),
    "hosted-O0": ("13.0", 0, CLANG),
    "hosted-O2": ("13.0", 2, CLANG),
    "clang-O0": ("clang-12.9", 0, "g++"),
    "clang-O3": ("clang-12.9", 3, "g++"),
}


def level_of(build: str) -> int:
    """The -O level of one of `BUILDS`."""
    return BUILDS[build][1]


def compiled(source: Path, build: str, toolchain: Callable[..., Toolchain]) -> Path:
    """A program of one file, in one of `BUILDS`. `toolchain`: the fixture."""
    name, optimization, host = BUILDS[build]
    return compile_program(
        toolchain(name, host_compiler=host), [source], source.stem, Build(optimization, "compute_75")
    )
