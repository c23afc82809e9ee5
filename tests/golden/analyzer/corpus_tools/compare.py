"""What the analyzer says of a program, beside what is expected of it: mistakes in words, none when all is right.

Owns how each aspect of expected.toml is compared. Analyses and manifests are kept for the process, by path.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from farlane.analyzer.analysis.program import analyze
from farlane.analyzer.loader import elf
from farlane.analyzer.loops.model import TELLING, LoopReport, ProgramReport
from farlane.analyzer.manifest import reader, writer
from farlane.analyzer.manifest.build import build
from farlane.analyzer.manifest.model import Manifest

from corpus_tools.cases import Case, bare


@functools.cache
def analyzed(path: Path) -> ProgramReport:
    """The report of which the manifest is made."""
    return analyze(path, in_callees=False)


@functools.cache
def manifest_of(path: Path) -> Manifest:
    """The manifest, through its bytes."""
    report = analyzed(path)
    return reader.read(writer.write(build(elf.load(path), report, report.permissions)))


def loops_of(report: ProgramReport, function: str) -> list[LoopReport]:
    """A function's loops, in the order of expected.toml."""
    found = [loop for loop in report.loops if bare(loop.function) == function]
    return sorted(found, key=lambda loop: (loop.depth, loop.header))


def known_at_entry(loop: LoopReport) -> bool:
    """Whether class, sequence and trip count are."""
    return loop.described


def wrong(case: Case, program: Path, function: str, aspects: Sequence[str]) -> list[str]:
    """The mistakes in these aspects of a function's loops; permissions that are missing count, those too many do not."""
    rows = case.expected()[function]
    found: list[str] = []
    if "permits" in aspects:
        found += missing(case, program, function)
    aspects = [aspect for aspect in aspects if aspect != "permits"]
    if not aspects:
        return found
    loops = loops_of(analyzed(program), function)
    if len(loops) != len(rows):
        return [*found, f"{len(loops)} loops, not {len(rows)}"]
    told = foretold(program)
    for aspect in aspects:
        for index, (loop, row) in enumerate(zip(loops, rows, strict=True)):
            if aspect == "foretold":
                given_ = (loop.entry, loop.header) in told
                mistake = "" if row.get(aspect, False) in (given_, "either") else f"foretold: {given_}"
            else:
                mistake = _mistake(aspect, loop, row)
            if mistake:
                found.append(f"loop {index}: {mistake}")
    return found


@functools.cache
def foretold(program: Path) -> set[tuple[int, int]]:
    """The loops, by function and header, whose first launch tells what the later ones of the iteration are passed."""
    manifest = manifest_of(program)
    loops = {site.loop for site in manifest.sites if any(argument.first is not None for argument in site.arguments)}
    return {(manifest.loops[index].function, manifest.loops[index].header) for index in loops}


def _mistake(aspect: str, loop: LoopReport, row: dict[str, Any]) -> str:
    if aspect == "class":
        return "" if str(loop.class_) in _any_of(row["class"]) else f"class {loop.class_}, not {row['class']}"
    if aspect == "trips":
        count = loop.trip_count
        given = "unknown" if count is None else count.constant
        for trips in _any_of(row["trips"]):
            if given == (trips if isinstance(trips, int) or trips == "unknown" else None):
                return ""
        return f"trip count {count and count.text}, not {row['trips']}"
    described, expected = known_at_entry(loop), row.get("described", True)
    if described or expected is True:
        return "" if expected in (described, "either") else f"described: {described} ({', '.join(loop.reasons)})"
    reasons, right = set(loop.reasons) - TELLING, set(row.get("reasons", []))
    return "" if reasons & right else f"reasons {sorted(reasons)}, none of {sorted(right)}"


def _any_of(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list) else [value]


Permissions = dict[str, set[str]]  # CUDA function -> names of permissions


def given(program: Path) -> dict[str, Permissions]:
    """Function -> what the manifest permits at the sites of its loops."""
    manifest = manifest_of(program)
    found: dict[str, Permissions] = defaultdict(lambda: defaultdict(set))
    for site in manifest.sites:
        names = {permission.name or "" for permission in site.permissions}
        if names:
            found[bare(manifest.loops[site.loop].name)][site.name] |= names
    return found


def _named(rows: Sequence[dict[str, Any]], *keys: str) -> Permissions:
    found: Permissions = defaultdict(set)
    for row in rows:
        for key in keys:
            for call, names in row.get(key, {}).items():
                found[call] |= set(names)
    return found


def missing(case: Case, program: Path, function: str) -> list[str]:
    """The permissions that must be given and are not."""
    permitted = given(program).get(function, {})
    wanted = _named(case.expected()[function], "permits")
    lacking = {call: names - permitted.get(call, set()) for call, names in wanted.items()}
    return [f"{call}: no {', '.join(sorted(names))}" for call, names in sorted(lacking.items()) if names]


def forbidden(case: Case, program: Path) -> list[str]:
    """The permissions that are given and must not be, in any function of the program."""
    found = []
    for function, calls in given(program).items():
        right = _named(case.expected().get(function, []), "permits", "also")
        for call, names in sorted(calls.items()):
            if wrongly := names - right.get(call, set()):
                found.append(f"{function}: {call}: {', '.join(sorted(wrongly))}")
    return found
