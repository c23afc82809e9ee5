"""The table of instructions: what passes ask of it is there for every instruction that has a handler, once."""

from __future__ import annotations

from collections import Counter

from farlane.backend.jit.lowering.families import HANDLERS
from farlane.backend.jit.ptx import instructions
from farlane.backend.jit.ptx.instructions import TRAITS, Trait, having
from farlane.backend.jit.ssa.predication import PICK


def test_every_instruction_has_one_row() -> None:
    bases = {name.removesuffix(".async") for name in HANDLERS} - {PICK}
    assert bases - set(TRAITS) == set()
    names = Counter(name for _, names in instructions._ROWS for name in names.split())
    assert [name for name, count in names.items() if count > 1] == []


def test_what_excludes_each_other() -> None:
    alone = having(Trait.LANE)
    assert having(Trait.CHEAP) | having(Trait.SLOW) <= alone
    for other in (Trait.ACCESS, Trait.EFFECT, Trait.VARYING, Trait.TIMED, Trait.WARP_WIDE, Trait.NO_RESULT):
        assert not alone & having(other), other
