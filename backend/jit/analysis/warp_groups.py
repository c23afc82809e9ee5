"""Warp groups: several warps of a block that run as one, where that is known to do.

A GPU hides what a warp costs by running many; here, what the warps of a block have in common is computed once for all of them: addresses,
checks, what is read at places that they share. A warp group's code knows no masks. It takes a branch when all its lanes agree, and else ends: each
warp goes on from there alone, in the kernel's own code, with the values that are alive (`%WarpGroup` in warp_group.ll, `Emitter.entries`).
A barrier of a warp group that is the whole block is nothing.

Few warps stand side by side in the code, and what lives is in registers. Where a block with barriers has more, its warps take turns: the code from one
barrier to the next is a loop over them, what lives across barriers is in memory, and no fiber is switched to.

Owns which kernels get a warp group's code beside their own, of how many warps, and what the thread's index looks like there; group_codegen.py
makes the code. Only kernels in which the order between warps can be told by programs with races alone: no atomics, no volatile or ordered accesses,
no warp-wide instructions but shuffles of whole warps by distances known now. Branches have to depend on the thread's index, not on data that differ from thread to thread.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from farlane.backend.jit.analysis.strides import constant, row_length
from farlane.backend.jit.ptx.instructions import Trait, having
from farlane.backend.jit.ptx.model import LANES, Instruction, Special, read_by, registers_of
from farlane.backend.jit.ssa.blocks import EXIT
from farlane.backend.jit.ssa.cfg import Graph
from farlane.backend.jit.ssa.ssa import Value

MOST = 8  # warps whose code stands side by side
MOST_LOOPED = 32  # warps that take turns in one code, from barrier to barrier
MOST_INSTRUCTIONS, MOST_INSTRUCTIONS_LOOPED = 250, 600
MOST_COPIES = 700  # of instructions whose results differ between lanes, over all warps
# Vectors of 64 bytes that may live through a loop: where there is a choice, and where there is none. Processors have room for 32, or for 8.
VECTORS, MOST_VECTORS = 20, 48
NARROW_VECTORS, NARROW_MOST = 6, 16
AREA_BYTES = 1 << 16  # for what lives when a warp group ends early (warp_group.ll)
FIRST_ENTRY = 2  # entries of the kernel's own code: for each block its start, and the branch at its end
_BASES = having(Trait.LANE) | {"ld", "st", "bar", "barrier", "shfl", "?pick"}
ALL_LANES = (1 << LANES) - 1
_STATE_SPACES = {"global", "shared", "const", "param"}
_REFUSED = {
    "cc",
    "volatile",
    "relaxed",
    "acquire",
    "release",
    "mmio",
    "b128",
    "red",
    "arrive",
    "warp",
    "cluster",
    "shared::cluster",
}
_FLOATS = {"f16", "f16x2", "bf16", "bf16x2", "f32", "f64"}


@dataclass(frozen=True)
class WarpGroup:
    """The shape of a warp group.

    Attributes:
        warps: how many, a power of two.
        steps: what an axis of %tid grows by from row to row; those that are not named are the same in all rows.
    """

    warps: int
    steps: dict[str, int]


def shapes(block: tuple[int, int, int], barriers: bool) -> list[WarpGroup]:
    """The warp groups in which %tid is affine, the largest first. With barriers, only the whole block."""
    x, y, z = block
    warps, rest = divmod(x * y * z, LANES)
    if rest:
        return []
    found = []
    for count in (warps,) if barriers else (MOST, MOST // 2, MOST // 4):
        if count not in (2, 4, 8, 16, MOST_LOOPED) or warps % count:
            continue
        rows = count * LANES // row_length(block)
        if y == z == 1 or (x % LANES == 0 and x > LANES and x // LANES % count == 0):
            found.append(WarpGroup(count, {"x": LANES}))
        elif x in (8, 16, LANES) and row_length(block) == x and (y % rows == 0 or (z == 1 and y >= rows)):
            found.append(WarpGroup(count, {"y": 1}))
    return found


def accepts(instruction: Instruction) -> bool:
    """Whether a warp group may execute it."""
    if instruction.base not in _BASES or instruction.guard is not None or _REFUSED & set(instruction.modifiers):
        return False
    if instruction.base == "shfl":
        return _whole_warp(instruction)
    if instruction.base in ("bar", "barrier"):
        return "sync" in instruction.modifiers and len(instruction.sources) == 1
    if instruction.base in ("ld", "st"):
        spaces = {item.split("::")[0] for item in instruction.modifiers} & (_STATE_SPACES | {"local"})
        if len(spaces) != 1 or "local" in spaces or "L2::cache_hint" in instruction.modifiers:
            return False
        if "param" in spaces and instruction.base == "st":
            return False
    specials = [source for source in instruction.sources if isinstance(source, Special)]
    return all(item.name.split(".")[0] in ("tid", "ntid", "ctaid", "nctaid") for item in specials)


def _whole_warp(i: Instruction) -> bool:
    """A shuffle of all lanes by a distance known now: an operation on one warp's values, and no order between warps shows."""
    if "sync" not in i.modifiers or len(i.sources) != 4:
        return False
    distance, clamp, members = (constant(item) for item in i.sources[1:])
    return distance is not None and clamp is not None and members is not None and members & ALL_LANES == ALL_LANES


def waits(instruction: Instruction) -> bool:
    """Whether it is a barrier."""
    return instruction.base in ("bar", "barrier")


def coherent(graph: Graph, guards: Callable[[int], bool]) -> bool:
    """Whether every varying branch depends on the thread's index and uniform values only, by integer arithmetic, and enters no loop in its middle.

    Nor does one within a loop lead on in it, where lanes would disagree again and again, but for what `guards` knows to end no warp group.
    """
    known: dict[Value, bool] = {}
    for index, block in enumerate(graph.blocks):
        conditions = [value for value in registers_of(block.condition) if value.varying]
        if not conditions:
            continue
        if block.switch or not all(_follows_from_index(value, known) for value in conditions):
            return False
        for target in () if guards(index) else block.targets:
            if target == EXIT:
                continue
            if any(target in members and header != target for header, members in graph.loops.items()):
                return False
    return True


def _follows_from_index(value: Value, known: dict[Value, bool]) -> bool:
    """No load, and no floating point: what depends on data, and loops that run until something converges, differ between threads."""
    work = [value]
    while work:
        value = work.pop()
        if value in known or not value.varying or value.stride is not None:
            continue
        known[value] = True
        definition = value.definition
        if isinstance(definition, Instruction):
            if definition.base == "ld" or _FLOATS & set(definition.modifiers):
                return False
            work += [item for item in read_by(definition) if isinstance(item, Value)]
        elif definition is not None:
            work += definition.operands.values()
    return True


def room(features: str) -> tuple[int, int]:
    """VECTORS and MOST_VECTORS of a processor with these LLVM features."""
    return (VECTORS, MOST_VECTORS) if "+avx512f" in features.split(",") else (NARROW_VECTORS, NARROW_MOST)


def vectors_in_loops(graph: Graph, live_in: list[list[Value]]) -> int:
    """How many vectors of one warp live at most at the start of a block of a loop, counted in 64 bytes."""
    sizes = {"pred": 0, "b16": 1, "b32": 2, "f32": 2, "b64": 4, "f64": 4}
    inside = set().union(*graph.loops.values()) if graph.loops else set()
    return max(
        (sum(sizes[value.type] for value in live_in[index] if differs(value)) for index in inside),
        default=0,
    )


def differs(value: Value) -> bool:
    """Whether there is a vector of it for each warp."""
    return value.varying and value.stride is None


def copies(graph: Graph) -> int:
    """How many instructions there are once for each warp."""
    return sum(
        instruction.base == "st" or any(value is not None and differs(value) for value in instruction.destinations)
        for block in graph.blocks
        for instruction in block.instructions
    )


def late(graph: Graph, index: int) -> bool:
    """Whether a warp group that ends in this block is likely to have been worth it: it has been through a loop."""
    return any(header <= index for header in graph.loops)


def place_offset(number: int, warps: int) -> int:
    """Where the vector of the number-th value that is alive lies in the area of the first warp; each next warp's lies 256 bytes on."""
    return number * warps * 256


def stack_bytes(block: tuple[int, int, int], barriers: bool) -> int:
    """What a warp group may take of a warp's stack, whether this code has one or the code that takes its place: the area, and what finds no register."""
    return AREA_BYTES + 512 * MOST_COPIES if shapes(block, barriers) else 0


def barriers_in_all_loops(graph: Graph) -> bool:
    """Whether warps that take turns do so only between barriers: what lives through a loop of their own would go through memory."""
    return all(
        any(waits(instruction) for index in members for instruction in graph.blocks[index].instructions)
        for members in graph.loops.values()
    )
