"""What a statement may use at its place in a generated program, and random expressions over it.

Owns: names in scope, the text's indentation, the budget of CUDA calls. Expressions have no side effects and no undefined
behaviour: 32-bit unsigned arithmetic, divisors that are not zero, indices within bounds.
"""

from __future__ import annotations

import contextlib
import dataclasses
import random
from collections.abc import Iterator
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Group:
    """Buffers that one stream works on. Work of the default stream may use every group's."""

    stream: str
    buffers: tuple[str, ...]


@dataclass
class Text:
    """The lines of a program so far, and counters for names. Shared by all scopes of a program."""

    lines: list[str] = field(default_factory=list)
    functions: list[str] = field(default_factory=list)
    names: int = 0
    calls: float = 0.0


@dataclass
class Scope:
    """A place in a program.

    Attributes:
        n: elements of every buffer and host array.
        groups: device buffers; pointer variables of a scope always point to distinct buffers.
        arrays: host arrays of n elements.
        values: host variables that may be assigned.
        constants: host values that may not.
        loops: loop variables, the innermost last.
        tables: host tables of `TABLE` elements.
        pinned: page-locked host arrays of n elements.
        managed: buffers in managed memory.
        mapped: a page-locked host array that the device sees, and its address there; or nothing.
        posted: for each group a page-locked array that is copied to, and the `Folded` that looks at it; or nothing.
        kept_graphs: executable graphs for the default stream.
        repeats: how often this place runs, roughly.
        budget: how many CUDA calls the program may make, roughly.
        in_loop: whether `break` and `continue` may stand here.
    """

    random: random.Random
    text: Text
    prefix: str
    n: int
    groups: tuple[Group, ...]
    arrays: tuple[str, ...]
    values: tuple[str, ...]
    constants: tuple[str, ...] = ()
    loops: tuple[str, ...] = ()
    tables: tuple[str, ...] = ()
    pinned: tuple[str, ...] = ()
    managed: tuple[str, ...] = ()
    mapped: tuple[str, ...] = ()
    posted: tuple[tuple[str, str], ...] = ()
    kept_graphs: tuple[str, ...] = ()
    helpers: tuple[str, ...] = ()
    repeats: float = 1.0
    budget: float = 500.0
    depth: int = 1
    in_loop: bool = False
    threaded: bool = False

    TABLE = 12

    def inner(self, **changes: object) -> Scope:
        return dataclasses.replace(self, depth=self.depth + 1, **changes)  # type: ignore[arg-type]

    # text

    def write(self, line: str) -> None:
        self.text.lines.append("    " * self.depth + line)

    def call(self, line: str, calls: float = 1.0) -> None:
        """Writes a line that makes so many CUDA calls."""
        self.write(line)
        self.text.calls += calls * self.repeats

    @contextlib.contextmanager
    def braces(self, head: str, **changes: object) -> Iterator[Scope]:
        """A block: `head {` ... `}`; the scope within."""
        self.write(f"{head} {{" if head else "{")
        yield self.inner(**changes)
        self.write("}")

    def name(self, stem: str) -> str:
        self.text.names += 1
        return f"{stem}{self.text.names}"

    def affordable(self, calls: float) -> bool:
        return self.text.calls + calls * self.repeats <= self.budget

    # choices

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def below(self, limit: int) -> int:
        return self.random.randrange(limit)

    def buffer(self) -> str:
        return self.random.choice([b for group in self.groups for b in group.buffers])

    def two_buffers(self) -> tuple[str, str]:
        first, second = self.random.sample([b for group in self.groups for b in group.buffers], 2)
        return first, second

    def placed(self, count: int) -> tuple[str, list[str]]:
        """A stream and so many distinct buffers that work on it may use."""
        if len(self.groups) == 1 or self.chance(0.5):
            everything = [b for group in self.groups for b in group.buffers]
            return "0", self.random.sample(everything, count)
        group = self.random.choice([g for g in self.groups if len(g.buffers) >= count])
        return group.stream, self.random.sample(group.buffers, count)

    def checked(self, call: str) -> None:
        """A call in one of the ways programs look at its result, or do not."""
        way = self.below(8)
        if way < 3:
            self.call(f"CHECK({call});")
        elif way < 4:
            self.call(f"CHECK_APART({call});")
        elif way < 5:
            self.call(f"if ({call} != cudaSuccess) return;")
        elif way < 6:
            self.call(f"if (cudaError_t error = {call}) failed(__LINE__, error);")
        else:
            self.call(f"{call};")

    # expressions

    def value(self, deep: int = 0) -> str:
        """A random 32-bit value."""
        r = self.random
        options = ["constant", "constant"]
        if self.loops:
            options += ["affine"] * 4 + ["shift", "alternating", "innermost"]
        if self.values:
            options += ["variable"] * 2
        if self.constants:
            options += ["given"] * 2
        if self.tables and self.loops:
            options += ["table"] * 2
        if deep < 2:
            options += ["sum", "mixed"]
        match r.choice(options):
            case "constant":
                return f"{r.choice([r.randrange(10), r.randrange(1000), r.randrange(2**32)])}u"
            case "affine":
                return (
                    f"({r.choice([1, 2, 3, 5, 64, 4096, 4294967295])}u * {r.choice(self.loops)} + {r.randrange(100)}u)"
                )
            case "innermost":
                return self.loops[-1]
            case "shift":
                return f"({r.choice([1, 3])}u << ({r.choice(self.loops)} & 31u))"
            case "alternating":
                i = r.choice(self.loops)
                return f"({i} % {r.randrange(2, 5)}u == {r.randrange(2)}u ? {r.randrange(50)}u : {r.randrange(5000)}u + {i})"
            case "variable":
                return r.choice(self.values)
            case "given":
                return r.choice(self.constants)
            case "table":
                return f"{r.choice(self.tables)}[{r.choice(self.loops)} % {self.TABLE}u]"
            case "sum":
                return f"({self.value(deep + 1)} {r.choice(['+', '-', '*', '^'])} {self.value(deep + 1)})"
            case _:
                return f"mixed({self.value(deep + 1)})"

    def index(self) -> str:
        """An index into a buffer or host array."""
        return f"{self.value(1)} % {self.n}u"

    def condition(self) -> str:
        """A condition on loop variables, host values or tables."""
        r = self.random
        return f"({self.value(1)} & {r.choice([1, 2, 3, 7])}u) {r.choice(['==', '!=', '<', '>='])} {r.randrange(1, 4)}u"
