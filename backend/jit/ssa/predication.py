"""Instructions under a condition without a branch: fewer blocks, so less to compile.

Owns the rewriting of a body before its graph is made:

- a guarded instruction that only computes (`@p add`) is computed always, into a register of its own, and PICK takes the result over where the
  guard holds;
- in large kernels, a branch round a few simple instructions (a bounds check and a load) gives these its condition as their guard. The guard of a
  memory access stays with the instruction: the emitter narrows the mask (`FunctionEmitter._guarded`).

Every block costs its share of pending masks and phis, and the compile time of a function grows faster than the number of its blocks. In a small kernel
branches are better: its unmasked version skips what is round them.

Never under a guard: instructions that concern other lanes or the order of memory, calls, and what costs much to compute in vain.
"""

from __future__ import annotations

from farlane.backend.jit.ptx.instructions import Trait, having
from farlane.backend.jit.ptx.model import Body, Instruction, Negated, Register, read_by

PICK = "?pick"  # destination = guard ? first : second; no opcode of PTX can be spelled like this
_COMPUTES = having(Trait.CHEAP)
_ACCESSES = having(Trait.ACCESS) - {"multimem"}
_MAX_INSTRUCTIONS = 12  # round which a branch is not worth while


def convert(body: Body, branches: bool) -> tuple[list[Instruction], dict[str, int]]:
    """The instructions (copies: the SSA pass rewrites them) of a body, which stays as it is, and the labels that they name.

    Args:
        branches: whether branches and memory accesses are converted as well.
    """
    code = [
        Instruction(
            item.base, item.modifiers, list(item.destinations), list(item.sources), item.line, item.guard, item.labels
        )
        for item in body.instructions
    ]
    dropped, finished = _take_conditions(code, body.labels) if branches else (set(), set())
    result: list[Instruction] = []
    places = []
    for index, item in enumerate(code):
        places.append(len(result))
        if index in dropped:
            continue
        if item.guard is None or index in finished or not (_computes(item) or (branches and accesses(item))):
            result.append(item)
        else:
            result += _expanded(item, index)
    places.append(len(result))
    named = {label for item in result for label in item.labels}
    return result, {label: places[index] for label, index in body.labels.items() if label in named}


def accesses(item: Instruction) -> bool:
    """Whether an instruction is a memory access that may keep its guard."""
    return item.base in _ACCESSES and not {"param", "async", "bulk"} & set(item.modifiers)


def _computes(item: Instruction) -> bool:
    """Whether it may be executed in vain: no effect but its results, no fault, little cost."""
    return item.base in _COMPUTES and "cc" not in item.modifiers and bool(item.destinations)


def _expanded(item: Instruction, index: int) -> list[Instruction]:
    """A guarded instruction into registers of its own, and what takes them over."""
    assert item.guard is not None
    register, negated = item.guard
    holds = Negated(register) if negated else register
    picks = []
    for position, old in enumerate(item.destinations):
        if old is not None:
            new = item.destinations[position] = Register(f"{old.name}?{index}", old.type)
            picks.append(Instruction(PICK, (), [old], [new, old, holds], item.line))
    if _computes(item):
        item.guard = None
    return [item, *picks]


def _take_conditions(code: list[Instruction], labels: dict[str, int]) -> tuple[set[int], set[int]]:
    """Gives branches' conditions to what they go round. Returns where the branches were, and instructions that need no PICK."""
    targets = sorted(set(labels.values()))
    spans = _spans(code)
    dropped: set[int] = set()
    finished: set[int] = set()
    following = 0
    for index, item in enumerate(code):
        while following < len(targets) and targets[following] <= index:
            following += 1
        if item.base != "bra" or item.guard is None or following == len(targets):
            continue
        # The first place behind the branch where others come in: its condition says nothing of them.
        end = targets[following]
        if end != labels.get(item.labels[0]) or end > index + 1 + _MAX_INSTRUCTIONS:
            continue
        register, negated = item.guard
        inside = range(index + 1, end)
        if any(code[place].guard or not _suitable(code[place], register) for place in inside):
            continue
        dropped.add(index)
        for place in inside:
            inner = code[place]
            private = all(r is None or _within(spans[r.name], index, end) for r in inner.destinations)
            if accesses(inner):
                inner.guard = (register, not negated)
                if private:
                    finished.add(place)
            elif not private:
                inner.guard = (register, not negated)
    return dropped, finished


def _suitable(item: Instruction, guard: Register) -> bool:
    return (_computes(item) or accesses(item)) and guard not in item.destinations


def _spans(code: list[Instruction]) -> dict[str, tuple[int, int]]:
    """Where each register is first and last named; the first is negative when it is read there."""
    spans: dict[str, tuple[int, int]] = {}
    for index, item in enumerate(code):
        for register in read_by(item):
            spans[register.name] = (spans.get(register.name, (-1, 0))[0], index)
        for register in item.destinations:
            if register is not None:
                spans[register.name] = (spans.get(register.name, (index, 0))[0], index)
    return spans


def _within(span: tuple[int, int], start: int, end: int) -> bool:
    """Whether a register is written and read between two places only."""
    return start < span[0] and span[1] < end
