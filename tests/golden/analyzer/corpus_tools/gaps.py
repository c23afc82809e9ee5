"""Compares gaps.toml with what the analyzer does now: `python tests/golden/analyzer/corpus_tools/gaps.py [UNIT...]`.

Prints the mistakes that no gap names, and for each gap the builds and functions in which it has closed.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from farlane.frontend.devtools.toolchain import install

from corpus_tools.cases import ASPECTS, cases
from corpus_tools.compare import forbidden, wrong


def main() -> None:
    units = sys.argv[1:]
    closed: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    open_: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    unnamed: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    for case in cases(full=False):
        if units and case.unit not in units:
            continue
        program = case.compiled(install)
        for mistake in forbidden(case, program):
            print(f"{case.id}: MUST NOT BE PERMITTED: {mistake}")
        for function in case.expected():
            for aspect in ASPECTS:
                key = (case.unit, function, aspect)
                mistakes = wrong(case, program, function, [aspect])
                if case.gap(function, aspect):
                    (open_ if mistakes else closed)[key].append(case.row.name)
                elif mistakes:
                    unnamed[key].append(f"{case.row.name}: {'; '.join(mistakes)}")
    for (unit, function, aspect), builds in closed.items():
        rest = open_.get((unit, function, aspect), [])
        print(
            f"closed: {unit} {function} {aspect}: {', '.join(builds)}" + (f"; open: {', '.join(rest)}" if rest else "")
        )
    for (unit, function, aspect), mistakes in unnamed.items():
        print(f"not named: {unit} {function} {aspect}")
        for mistake in mistakes:
            print(f"    {mistake}")


if __name__ == "__main__":
    main()
