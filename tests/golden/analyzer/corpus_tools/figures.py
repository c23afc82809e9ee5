"""How much of the corpus and of tests/native is known: `python tests/golden/analyzer/corpus_tools/figures.py [--reasons]`.

Prints for each level, with nvcc's first toolchain: loops with CUDA calls; those that are described (class, sequence and trip count are
known when the loop is entered); the counted ones (the number of iterations is known by arithmetic, constants included), and
those of them with a formula for the rest of the iterations over what is at hand at a call (`remaining`), or a constant count.
"""

from __future__ import annotations

import itertools
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from farlane.analyzer.loops.model import LoopReport
from farlane.frontend.devtools import registry
from farlane.frontend.devtools.programs import Build
from farlane.frontend.devtools.toolchain import install

from corpus_tools.cases import EXPECTED, NVCC, Case
from corpus_tools.compare import TELLING, analyzed, known_at_entry

LEVELS = (0, 2, 3)


def programs(level: int) -> Iterator[tuple[str, Path]]:
    """(corpus or native, executable)."""
    row = next(row for row in NVCC if row.level == level)
    for unit in EXPECTED:
        yield "corpus", Case(unit, row).compiled(install)
    for entry in registry.load(Path(__file__).parents[3] / "native" / "registry.toml"):
        if not entry.helper and not entry.variant and "nvcc" in entry.compilers:
            yield "native", Path(entry.compiled(install(row.toolchain), Build(level, "sm_75"))[0])


def counted(loop: LoopReport) -> bool:
    return loop.trip_count is not None and not loop.trip_count.text.startswith("while ")


def located(loop: LoopReport) -> bool:
    """Whether how often the loop goes on can be computed at one of its calls."""
    constant = loop.trip_count is not None and loop.trip_count.constant is not None
    return constant or any(each.count is not None for each in loop.continuations)


def main() -> None:
    reasons: dict[str, Counter[str]] = {}
    for level, of in itertools.product(LEVELS, ("corpus", "native")):
        loops = [(path, loop) for kind, path in programs(level) if kind == of for loop in analyzed(path).loops]
        described = [loop for _, loop in loops if known_at_entry(loop)]
        counts = [(path, loop) for path, loop in loops if counted(loop)]
        found = [loop for _, loop in counts if located(loop)]
        print(
            f"-O{level} {of}: {len(loops)} loops, {len(described)} described ({len(described) / len(loops):.0%}), "
            f"{len(counts)} counted, {len(found)} of them with locations ({len(found) / len(counts):.0%})"
        )
        why = reasons.setdefault(f"-O{level}", Counter())
        for path, loop in loops:
            if not known_at_entry(loop):
                why.update(str(reason) for reason in set(loop.reasons) - TELLING)
            if "--reasons" in sys.argv and counted(loop) and not located(loop):
                text = loop.trip_count.text if loop.trip_count else ""
                calls = "; ".join(f"{call.name}{'*' if call.chain else ''}" for call in loop.calls)
                print(f"    no location: {path.name} {loop.function} {loop.line} {text}: {calls}")
    if "--reasons" in sys.argv:
        for name, found_ in reasons.items():
            print(f"{name} not described: {', '.join(f'{reason} {count}' for reason, count in found_.most_common())}")


if __name__ == "__main__":
    main()
