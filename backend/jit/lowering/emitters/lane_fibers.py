"""Kernels whose lanes run on fibers of their own, since lanes of a warp may wait for each other in functions.

A function returns for all lanes of a warp together, so lanes that are through a loop that waits cannot go ahead of the others beyond its end, and those that
have gone ahead call functions without the others. Inlining (inlining.py) solves both as long as it can: not for functions that call
themselves or are called by pointers, nor where the kernel would get too long.

Owns which kernels those are, and what a warp's lanes do together in them. Each fiber runs the code of a warp in which one lane lives (lane_fibers.ll), every loop lets
the others run, and what all lanes take part in (shuffles, votes, matrix products) is done by each for itself, after it has met the others, with what all have
brought. Lanes are at an `activemask` together when all others of their warp have stopped somewhere, too. Such kernels take many times as long as others: for most of them the alternative is not to end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from farlane.backend.jit.analysis import spins
from farlane.backend.jit.lowering import families
from farlane.backend.jit.lowering.families.base import write
from farlane.backend.jit.lowering.ir import Val, integer
from farlane.backend.jit.ptx.instructions import Trait, having
from farlane.backend.jit.ptx.model import LANES, Body, Instruction, Symbol, registers_of
from farlane.backend.jit.ssa.ssa import Value

if TYPE_CHECKING:
    from farlane.backend.jit.lowering.emitters.codegen import FunctionEmitter
    from farlane.backend.jit.ptx.declarations import Module

_MATRICES = having(Trait.MATRIX)


def needed(
    module: Module,
    kernel: str,
    bodies: Mapping[str, Body],
    calls: Mapping[str, list[str]],
    waits: Callable[[str], bool],
    parts: Callable[[], bool],
) -> bool:
    """Whether a kernel's lanes get fibers of their own.

    Args:
        bodies: its own and those of the functions that it may call.
        calls: what each calls by name.
        waits: whether a body has a loop that waits.
        parts: whether lanes of the kernel's body go ahead of others that wait.
    """
    others = _called(module, kernel, bodies, calls)
    if any(waits(name) for name in others):
        return True
    together = any(collective(item) for name in others for item in bodies[name].instructions)
    return together and parts()


def collective(item: Instruction) -> bool:
    """Whether lanes do something together that needs all of them."""
    return spins.warp_wide(item) or item.base == "activemask" or item.base in _MATRICES


def _called(module: Module, kernel: str, bodies: Mapping[str, Body], calls: Mapping[str, list[str]]) -> set[str]:
    """The functions that are called by name, or whose address is taken."""
    seen: set[str] = set()
    stack = list(calls[kernel])
    if _by_pointer(bodies.values()):
        stack += sorted(module.held_functions() & bodies.keys())
    while stack:
        name = stack.pop()
        if name not in seen and name in bodies:
            seen.add(name)
            stack += calls[name]
    return seen - {kernel}


def _by_pointer(bodies: Iterable[Body]) -> bool:
    return any(
        item.base == "call" and not isinstance(item.sources[0], Symbol) for body in bodies for item in body.instructions
    )


def emit(e: FunctionEmitter, item: Instruction) -> None:
    """An instruction that lanes do together: for all lanes that have met, of which this one keeps its own result."""
    b = e.body
    if item.base == "activemask":
        write(e, item, b.splat(_converged(e)))
        return
    operand = spins.members(item) if spins.warp_wide(item) else None
    own = b.call("cttz", "i32", [e.mask_bits], "i1 false")
    lane = b.bin("and", own, integer(LANES - 1, "i32"))
    if operand is not None:
        members = b.lane(e.read(operand, "i32"), lane)
    elif spins.warp_wide(item):  # the old forms: those that are here
        members = _converged(e)
    else:
        members = integer(-1, "i32")
    brought = _varying(item)
    mine, everyone = _places(e, len(brought))
    for number, value in enumerate(brought):
        word = b.lane(_word(e, b.splat(e.value(value))), lane)
        b.store(word, b.gep(mine, 8 * number))
    met = b.op(
        f"call i32 @farlane_meet(ptr %warp, {members}, ptr {mine}, ptr {everyone}, i32 {len(brought)})", "i32", False
    )
    alone = e.mask, e.mask_bits
    kept = {value: e.local[value] for value in brought}
    for number, value in enumerate(brought):
        words = b.load("i64", True, b.gep(everyone, 8 * LANES * number))
        e.local[value] = _value(e, words, kept[value].type)
    e.mask, e.mask_bits = b.mask(met), met
    families.emit(e, item)
    e.mask, e.mask_bits = alone
    e.local.update(kept)


def _converged(e: FunctionEmitter) -> Val:
    return e.body.op(f"call i32 @farlane_converge(ptr %warp, i32 {e.kernel.place()})", "i32", False)


def _varying(item: Instruction) -> list[Value]:
    found: dict[Value, None] = {}
    for source in item.sources:
        for value in registers_of(source):
            if isinstance(value, Value) and value.varying and value.definition is not None:
                found[value] = None
    return list(found)


def _places(e: FunctionEmitter, count: int) -> tuple[str, str]:
    """Memory for what a lane brings, and for what all of them do."""
    if not count:
        return "null", "null"
    names = f"%mine{count}", f"%everyone{count}"
    for name, words in zip(names, (count, LANES * count), strict=True):
        if name not in e.slots:
            e.slots.add(name)
            e.allocas.append(f"  {name} = alloca [{words} x i64], align 256")
    return names


_CARRIERS: dict[str, Any] = {"float": "i32", "double": "i64", "half": "i16", "bfloat": "i16"}


def _word(e: FunctionEmitter, value: Val) -> Val:
    carrier = _CARRIERS.get(value.type)
    return e.body.resize(value if carrier is None else e.body.bitcast(value, carrier), "i64")


def _value(e: FunctionEmitter, words: Val, kind: str) -> Val:
    b = e.body
    carrier = _CARRIERS.get(kind)
    return b.resize(words, kind) if carrier is None else b.bitcast(b.resize(words, carrier), kind)
