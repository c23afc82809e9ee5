"""The programs that are measured: what each is an example of, and how it is built.

Owns the list. The loops are functions of one executable; whole programs come from tests/native, when this is a source tree.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from farlane.frontend.devtools import registry
from farlane.frontend.devtools.programs import Build, compile_program
from farlane.frontend.devtools.toolchain import install

FOLDER = Path(__file__).resolve().parent
NATIVE = FOLDER.parents[1] / "tests" / "native" / "registry.toml"
TOOLCHAIN = "13.0"

CLASS_1_2, CG_LIKE, OTHER = "class 1 or 2", "CG-like", "other"


@dataclass(frozen=True)
class Program:
    """A program and what it is an example of; `family` says which goal is its."""

    name: str
    what: str
    family: str = OTHER
    native: bool = False


PROGRAMS = (
    Program("repeated", "class 1: 4,000 equal launches", CLASS_1_2),
    Program("affine", "class 2: a memset and a launch, arguments affine in i, 2,000 times", CLASS_1_2),
    Program("stepping", "class 2: addresses that stand still for four iterations, 3,000 launches", CLASS_1_2),
    Program("nested", "class 2, nested: 60 x 32 launches", CLASS_1_2),
    Program("triangular", "class 2, triangular: 1,830 launches", CLASS_1_2),
    Program("ping-pong", "class 2: a stencil between two buffers, 2,000 launches", CLASS_1_2),
    Program("allocating", "class 3: memory allocated, used and freed, 500 times"),
    Program("mixed", "classes 2 and 3, host tables, copies on the device, 800 times"),
    Program("uploading", "a new batch from the host for each launch, 10 epochs of 64 batches"),
    Program("checked", "synchronized after each launch, error codes checked, 1,000 times"),
    Program("unread", "a value copied to the host in each iteration, read after the loop, 1,000 times"),
    Program("deciding", "not deferrable: a value read in each iteration is the next argument, 300 times"),
    Program("converging", "a stencil until the change is small, read in each iteration"),
    Program("cg-host", "conjugate gradient, two dot products read in each iteration", CG_LIKE),
    Program("cg-device", "the same with factors on the device, the residual read in each iteration", CG_LIKE),
    Program("cg-tenth", "the same, the residual read in each tenth iteration", CG_LIKE),
    Program("cg", "tests/native: conjugate gradient, sparse", CG_LIKE, native=True),
    Program("bfs", "tests/native: breadth-first search, a flag read for each level", native=True),
    Program("scan", "tests/native: prefix sums of five sizes", native=True),
    Program("stencil2d", "tests/native: a two-dimensional stencil", native=True),
    Program("streams_events", "tests/native: streams and events", native=True),
)


def command(program: Program) -> list[str] | None:
    """Compiles the program (or finds it in the cache): its command line. None: it is not here, this is no source tree."""
    toolchain = install(TOOLCHAIN)
    if not program.native:
        source = FOLDER / "cuda" / "loops.cu"
        return [str(compile_program(toolchain, [source], "loops", Build())), program.name]
    if not NATIVE.exists():
        return None
    entry = next(entry for entry in registry.load(NATIVE) if entry.name == program.name)
    return entry.compiled(toolchain, Build(architecture="sm_75"))
