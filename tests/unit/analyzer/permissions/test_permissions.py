"""Permissions: what must be proven of programs compiled by nvcc, what must not, and `more` against the machine."""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from farlane.analyzer.graph.program import Program
from farlane.analyzer.loader import elf
from farlane.analyzer.machine import effects
from farlane.analyzer.machine.decoder import Decoder
from farlane.analyzer.permissions.abstract import instructions
from farlane.analyzer.permissions.model import Permission
from farlane.analyzer.permissions.prove import Prover
from farlane.frontend.devtools.programs import Build, compile_program
from farlane.frontend.devtools.toolchain import Toolchain

PROGRAMS = Path(__file__).parent / "programs"
NAMES = {
    source: re.findall(
        r'^(?:PROGRAM|extern "C" .* int) ((?:defer|keep|sync|wait)_\w+)\(',
        (PROGRAMS / f"{source}.cu").read_text(),
        re.MULTILINE,
    )
    for source in ("permissions", "permissions_by_detours")
}
# By default each at -O0 and at one of the others; tests/golden/analyzer has more at every level.
BUILDS = [("permissions", 0), ("permissions", 3), ("permissions_by_detours", 0), ("permissions_by_detours", 2)]
# Where the compiler made something of a case that cannot be proven, which is no error: (level, case).
UNPROVEN = {
    (0, "defer_elements"),  # the index is signed: the element may be anywhere in the frame
    (0, "defer_many_parameters"),  # which of the frame's bytes the copied structure holds is not known
}

Permissions = dict[str, list[Permission]]


class Given(NamedTuple):
    """What is said of a build's functions."""

    level: int
    found: Permissions


def permissions(program: Path) -> Permissions:
    """Function -> what is said of its copies and synchronizations."""
    found: Permissions = {}
    image = Program(elf.load(program), Decoder())
    prover = Prover(image)
    for start in sorted(image.cuda):
        try:
            sites = sorted(prover.structure(start).flow.calls)
        except instructions.Refused:
            continue
        each = (prover.permission(start, site) for site in sites)
        found[image.ranges[start].name] = [permission for permission in each if permission is not None]
    return found


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "given" not in metafunc.fixturenames:
        return
    full = metafunc.config.getoption("--full-matrix")
    parameters = []
    for source, level in itertools.product(NAMES, (0, 2, 3)) if full else BUILDS:
        group = pytest.mark.xdist_group(f"{source}-O{level}")
        for name in NAMES[source]:
            if name.startswith(PREFIXES[metafunc.function]):
                parameters.append(pytest.param((source, level), name, id=f"O{level}-{name}", marks=group))
    metafunc.parametrize(("build_of", "name"), parameters)


@functools.cache
def given_in(source: str, level: int, installed: Toolchain) -> Given:
    build = Build(level, "compute_75")
    return Given(level, permissions(compile_program(installed, [PROGRAMS / f"{source}.cu"], source, build)))


@pytest.fixture
def given(build_of: tuple[str, int], toolchain: Callable[[str], Toolchain]) -> Given:
    return given_in(*build_of, toolchain("13.0"))


def test_the_cases_are_found() -> None:
    names = [name for of_source in NAMES.values() for name in of_source]
    assert len(names) > 90
    assert len(names) == len(set(names))


@pytest.mark.native
def test_deferred(given: Given, name: str) -> None:
    permitted = [each for each in given.found[name] if each.defer_read]
    assert bool(permitted) != ((given.level, name) in UNPROVEN), [each.refused for each in given.found[name]]
    for each in permitted:
        assert each.proof
        assert each.more or each.complete_at_call
        assert each.header


@pytest.mark.native
def test_kept(given: Given, name: str) -> None:
    found = given.found.get(name, [])  # nothing where the function's graph is not known
    assert [each.proof for each in found if each.defer_read or each.complete_at_call] == []
    assert all(each.refused for each in found if not each.any)


@pytest.mark.native
def test_synchronizations(given: Given, name: str) -> None:
    reached = [each for each in given.found[name] if "is not reached" not in each.refused]
    local = {each.local_sync for each in reached}
    if name == "wait_in_struct":
        local = {each.local_sync for each in given.found["_ZL7wrappedi"]}  # the call is in the callee
    assert local == {name.startswith("sync_")}, [each.refused for each in reached]


@pytest.mark.native
def test_reading_now_and_then_is_part_of_the_condition(given: Given, name: str) -> None:
    (found,) = [each for each in given.found[name] if each.defer_read]
    assert "&" in found.more_text


PREFIXES = {
    test_deferred: ("defer_",),
    test_kept: ("keep_",),
    test_synchronizations: ("sync_", "wait_"),
    test_reading_now_and_then_is_part_of_the_condition: ("defer_every_tenth_read",),
}


def test_every_instruction_without_listed_effects_is_known() -> None:
    """The decoder lists what an instruction writes only for those that are not in its own table."""
    flow = {"call", "jmp"}
    unknown = effects.MODELLED - instructions.HANDLED - flow
    # Those whose only effect is on the first operand need no knowledge.
    assert all(re.match(r"(cvt|sqrt|add|sub|mul|div|min|max)\w*(ss|sd|si)$|pxor|xorp[sd]", name) for name in unknown), (
        unknown
    )
