"""Device functions that wait or have barriers, put where they are called.

A function returns for all lanes of a warp together. So a lock that is taken in a function of its own, which the compiler did not inline, would
keep the lanes that have it until the others have it, too. In one function lanes that are through a loop that waits go ahead (codegen.py).

Owns which functions that are, and the rewriting of bodies: what waits is inlined where it is called by name, and so is what calls it, up to the kernel.
Without optimization an atomic operation is a function, too, or many that call each other, and what it gives goes through memory: a loop that calls is judged with
everything that it calls in its place, and stays so if it then is seen to wait. Not inlined: what calls itself, calls by pointers, and where a body would get too
large.

A barrier in a function counts the lanes that called it, and the warp stops there: those that have parted from them would never come (to the same barrier, or
to the kernel's end). So functions with barriers are inlined, too, where lanes may have parted; without optimization `__syncthreads_count` is such a function.

A call's arguments are storage of the caller already; the function's parameters become other names for them, and where they are written and read as a
whole, registers. Order: parser -> promotion -> this -> cfg.

Source: PTX ISA, "call", "ABI: Function Declarations and Definitions".
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from farlane.backend.jit.ptx.declarations import Function
from farlane.backend.jit.ptx.model import Address, Body, Instruction, Negated, Register, Storage, Symbol, Vector

MOST_INSTRUCTIONS = 6000  # of a body that others were put into
MOST_ADDED, MOST_TRIED = 24_000, 500_000  # to all bodies together, and to those that only show what would come of it
SMALL = 64  # instructions of a function that only asks
_WIDE = {4: {"b32", "f32"}, 8: {"b64", "f64"}}  # registers of as many bytes
_WHOLE = {4: ("b32", {"b32", "u32", "s32", "f32"}), 8: ("b64", {"b64", "u64", "s64", "f64"})}


class WaitingLoops(Protocol):
    """What finds loops that wait for another thread (analysis/spins.py)."""

    def may_wait(self, body: Body) -> bool: ...

    def count(self, body: Body) -> int: ...


def inlined(
    bodies: Mapping[str, Body],
    calls: Mapping[str, list[str]],
    functions: Mapping[str, Function],
    kernel: str,
    called_apart: Callable[[Body], set[str]],
    spins: WaitingLoops,
) -> dict[str, Body]:
    """The kernel's body and those of the functions that are still called.

    Args:
        calls: what each calls by name.
        called_apart: what the kernel's body calls where lanes may have parted.
        spins: what finds loops that wait.
    """
    if not any(calls.values()) or not any(spins.may_wait(body) or has_barrier(body) for body in bodies.values()):
        return dict(bodies)
    result = dict(bodies)
    added, tried = _Growth(MOST_ADDED), _Growth(MOST_TRIED)
    whole: dict[str, Body] = {}  # with all that they call
    waiting: set[str] = set()
    meeting: set[str] = set()
    for name in callees_first(calls, kernel):
        alone = [callee for callee in calls[name] if callee not in _reached(calls, callee)]
        wanted = {callee: (functions[callee], result[callee]) for callee in alone if callee in waiting}
        if wanted:
            result[name] = added.with_(result[name], wanted)
        whole[name] = result[name]
        others = {callee: (functions[callee], whole[callee]) for callee in alone if callee not in waiting}
        if others:
            whole[name] = tried.with_(result[name], others)
            asks = _has_loop(result[name]) and _waiting(whole[name], spins) > _waiting(result[name], spins)
            if asks or _small(whole[name], spins):
                result[name] = added.with_(result[name], others)
        met = {callee for callee in alone if callee in meeting}
        if met and name == kernel:
            met &= called_apart(result[name])
        if met:
            result[name] = added.with_(result[name], {callee: (functions[callee], result[callee]) for callee in met})
        if name != kernel and (has_barrier(result[name]) or meeting & set(calls[name])):
            meeting.add(name)
        if name != kernel and (wanted or _waiting(result[name], spins)):
            waiting.add(name)
    left = _named(result, kernel)
    return {name: result[name] if name in left else body for name, body in bodies.items()}


class _Growth:
    """Puts functions where they are called, until all that got longer by it is this much longer."""

    def __init__(self, most: int) -> None:
        self._left = most

    def with_(self, body: Body, callees: Mapping[str, tuple[Function, Body]]) -> Body:
        if self._left <= 0:
            return body
        made = _with(body, callees)
        self._left -= len(made.instructions) - len(body.instructions)
        return made


def _named(bodies: Mapping[str, Body], kernel: str) -> set[str]:
    """What is still called by name, from the kernel on. A pointer may lead to any other function, most of which have no caller: they stay short."""
    seen: set[str] = set()
    stack = [kernel]
    while stack:
        name = stack.pop()
        if name in bodies and name not in seen:
            seen.add(name)
            stack += [_callee(item) for item in bodies[name].instructions if item.base == "call"]
    return seen


def has_barrier(body: Body) -> bool:
    return any(item.base in ("bar", "barrier") and "warp" not in item.modifiers for item in body.instructions)


def _small(body: Body, spins: WaitingLoops) -> bool:
    """Whether a function does little but ask: no loops, no calls."""
    return (
        len(body.instructions) <= SMALL
        and spins.may_wait(body)
        and not any(item.base in ("call", "brx") for item in body.instructions)
        and not _has_loop(body)
    )


def _has_loop(body: Body) -> bool:
    """Whether a branch leads back, as one of every loop does."""
    return any(
        body.labels[label] <= number
        for number, item in enumerate(body.instructions)
        if item.base in ("bra", "brx")
        for label in item.labels
    )


def _callee(call: Instruction) -> str:
    """Empty for a call by a pointer."""
    return call.sources[0].name if isinstance(call.sources[0], Symbol) else ""


def _waiting(body: Body, spins: WaitingLoops) -> int:
    """How many of a body's loops wait."""
    return spins.count(body) if spins.may_wait(body) and _has_loop(body) else 0


def callees_first(calls: Mapping[str, list[str]], kernel: str) -> list[str]:
    """What the kernel reaches by calls, and itself last: in a graph without cycles each behind all that it calls."""
    order: list[str] = []
    seen = {kernel}
    stack = [(kernel, iter(calls[kernel]))]
    while stack:
        name, rest = stack[-1]
        following = next(rest, None)
        if following is None:
            order.append(name)
            stack.pop()
        elif following not in seen:
            seen.add(following)
            stack.append((following, iter(calls[following])))
    return order


def _reached(calls: Mapping[str, list[str]], start: str) -> set[str]:
    seen: set[str] = set()
    stack = list(calls[start])
    while stack:
        name = stack.pop()
        if name not in seen:
            seen.add(name)
            stack += calls[name]
    return seen


def _with(body: Body, callees: Mapping[str, tuple[Function, Body]]) -> Body:
    """The body with these functions in place of calls of them."""
    result = Body(
        tables=dict(body.tables),
        prototypes=dict(body.prototypes),
        storage=dict(body.storage),
        registers=body.registers,
    )
    moved: list[int] = []  # where the body's instructions have gone to
    passed: set[str] = set()  # arguments and results of the inlined calls
    room = MOST_INSTRUCTIONS - len(body.instructions)
    for number, item in enumerate(body.instructions):
        moved.append(len(result.instructions))
        function, inner = callees.get(_callee(item), (None, None)) if item.base == "call" else (None, None)
        fits = function is not None and [len(part.items) for part in item.sources[1:]] == [
            len(function.parameters),
            len(function.returns),
        ]
        if function is None or inner is None or not fits or len(inner.instructions) > room:
            result.instructions.append(item)
            continue
        room -= len(inner.instructions)
        passed |= {symbol.name for part in item.sources[1:] for symbol in part.items}
        _Inlining(result, f"@{number}", function, item).add(inner)
    moved.append(len(result.instructions))
    result.labels |= {label: moved[at] for label, at in body.labels.items()}
    return _in_registers(result, passed)


def _in_registers(body: Body, passed: set[str]) -> Body:
    """Arguments and results of inlined calls that are written and read as a whole become registers."""
    kept = {name for name in passed if body.storage[name].array or body.storage[name].size not in _WHOLE}
    for item in body.instructions:
        access = _whole_access(item, body)
        for operand in (*item.destinations, *item.sources):
            kept |= {symbol for symbol in _symbols(operand) if symbol != access}
    forwarded = passed - kept
    for number, item in enumerate(body.instructions):
        name = _whole_access(item, body)
        if name in forwarded:
            kind = _WHOLE[body.storage[name].size][0]
            register = Register(f"{name}@value", kind)
            to, source = (register, item.sources[1]) if item.base == "st" else (item.destinations[0], register)
            body.instructions[number] = Instruction("mov", (item.modifiers[-1],), [to], [source], item.line, item.guard)
    for name in forwarded:
        del body.storage[name]
    return body


def _whole_access(item: Instruction, body: Body) -> str:
    """The parameter that an instruction loads or stores as a whole, if it does that."""
    if item.base not in ("ld", "st") or not item.sources or len(item.modifiers) != 2 or item.modifiers[0] != "param":
        return ""
    place = item.sources[0]
    symbol = place.base if isinstance(place, Address) and not place.offset else place
    if not isinstance(symbol, Symbol) or symbol.offset or symbol.name not in body.storage:
        return ""
    storage = body.storage[symbol.name]
    whole = storage.size in _WHOLE and item.modifiers[1] in _WHOLE[storage.size][1]
    value = item.destinations[0] if item.base == "ld" else item.sources[1]
    if not whole or isinstance(value, (Vector, Symbol)) or value is None:
        return ""
    wide = isinstance(value, Register) and value.type not in _WIDE[storage.size]
    return "" if wide else symbol.name


def _symbols(operand: Any) -> set[str]:
    if isinstance(operand, Symbol):
        return {operand.name}
    if isinstance(operand, Address):
        return _symbols(operand.base)
    if isinstance(operand, Vector):
        return {name for item in operand.items for name in _symbols(item)}
    return set()


class _Inlining:
    """One call. Everything of the function's own gets a suffix."""

    def __init__(self, result: Body, suffix: str, function: Function, call: Instruction) -> None:
        self._result, self._suffix, self._call = result, suffix, call
        _, arguments, returns = call.sources
        formals = (*function.parameters, *function.returns)
        actuals = (*arguments.items, *returns.items)
        self._names = {formal.name: actual.name for formal, actual in zip(formals, actuals, strict=True)}

    def add(self, body: Body) -> None:
        result, end = self._result, f"end{self._suffix}"
        for name, item in body.storage.items():
            if name not in self._names and item.space != "shared":  # of which there is one for all calls
                self._names[name] = name + self._suffix
            if name not in self._names or self._names[name] == name + self._suffix:
                self._keep(self._names.get(name, name), item)
        result.tables |= {
            name + self._suffix: tuple(label + self._suffix for label in labels) for name, labels in body.tables.items()
        }
        result.prototypes |= {name + self._suffix: shape for name, shape in body.prototypes.items()}
        result.registers += body.registers
        if self._call.guard is not None:
            predicate, negated = self._call.guard
            skip = Instruction("bra", (), [], [], self._call.line, (predicate, not negated), (end,))
            result.instructions.append(skip)
        begin = len(result.instructions)
        result.instructions += [self._instruction(instruction, end) for instruction in body.instructions]
        result.labels |= {label + self._suffix: begin + at for label, at in body.labels.items()}
        result.labels[end] = len(result.instructions)

    def _keep(self, name: str, item: Storage) -> None:
        self._result.storage[name] = dataclasses.replace(item, name=name)

    def _instruction(self, item: Instruction, end: str) -> Instruction:
        guard = None if item.guard is None else (self._operand(item.guard[0]), item.guard[1])
        if item.base == "ret":
            return Instruction("bra", (), [], [], item.line, guard, (end,))
        return Instruction(
            item.base,
            item.modifiers,
            [self._operand(destination) for destination in item.destinations],
            [self._operand(source) for source in item.sources],
            item.line,
            guard,
            tuple(label + self._suffix for label in item.labels),
        )

    def _operand(self, operand: Any) -> Any:
        if isinstance(operand, Register):
            return Register(operand.name + self._suffix, operand.type)
        if isinstance(operand, Symbol):
            return Symbol(self._names.get(operand.name, operand.name), operand.offset)
        if isinstance(operand, Address):
            return Address(self._operand(operand.base), operand.offset)
        if isinstance(operand, Negated):
            return Negated(self._operand(operand.operand))
        if isinstance(operand, Vector):
            return Vector(tuple(self._operand(element) for element in operand.items))
        return operand
