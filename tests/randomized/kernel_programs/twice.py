"""A kernel's text in the making, for the device and for the host, and what its expressions may name."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from kernel_programs.expressions import Expressions, Names
from kernel_programs.functions import Program

FIELDS = {
    "v.a": "u32", "v.b": "u32", "v.c": "u32", "v.p": "s32", "v.w": "u64", "v.q": "s64", "v.f": "f32", "v.g": "f64", "v.h": "u16", "v.k": "u8",
}  # fmt: skip
PLACES = {"t": "u32", "lane": "u32", "warp": "u32", "u": "u32"}


@dataclass
class Twice:
    """A kernel's text for both sides, in the making."""

    whole: Program
    chance: random.Random
    threads: int
    device: list[str] = field(default_factory=list)
    host: list[str] = field(default_factory=list)
    depth: int = 1
    number: int = 0
    loops: int = 0
    exits: bool = False

    def write(self, device: str | None, host: str | None) -> None:
        if device is not None:
            self.device += ["    " * self.depth + line for line in device.split("\n")]
        if host is not None:
            self.host += ["    " * (self.depth + 1) + line for line in host.split("\n")]

    def fresh(self, prefix: str) -> str:
        self.number += 1
        return f"{prefix}{self.number}"

    def expressions(self, deepest: int = 2) -> Expressions:
        return Expressions(Names(self.chance, values={**FIELDS, **PLACES}), deepest)

    def of(self, kind: str) -> str:
        return self.expressions().of(kind)

    def condition(self) -> str:
        c = self.chance
        simple = [f"(t & {1 << c.randrange(7)}u)", f"lane < {c.randrange(1, 32)}u", f"(v.a >> {c.randrange(32)} & 1u)", f"lane % {c.randrange(2, 6)}u == 0u",
                  f"warp % 2u == {c.randrange(2)}u", f"(v.b & {1 << c.randrange(6)}u) != 0u"]  # fmt: skip
        return c.choice(simple) if c.random() < 0.6 else self.expressions().condition(1)

    def variable(self, *kinds: str) -> str:
        return self.chance.choice([name for name, kind in FIELDS.items() if not kinds or kind in kinds])
