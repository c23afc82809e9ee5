"""Permissions: what must be proven of programs compiled by nvcc, what must not, and `more` against the machine."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from farlane.analyzer.graph.program import Program
from farlane.analyzer.loader import elf
from farlane.analyzer.machine import decoder
from farlane.analyzer.machine.decoder import Decoder
from farlane.analyzer.permissions import instructions
from farlane.analyzer.permissions.model import Permission
from farlane.analyzer.permissions.prove import Prover
from farlane.frontend.devtools.programs import Build, compile_program
from farlane.frontend.devtools.toolchain import Toolchain

SOURCES = [Path(__file__).parent / "programs" / f"{name}.cu" for name in ("permissions", "permissions_by_detours")]
NAMES = [
    name
    for source in SOURCES
    for name in re.findall(
        r'^(?:PROGRAM|extern "C" .* int) ((?:defer|keep|sync|wait)_\w+)\(', source.read_text(), re.MULTILINE
    )
]
# Where the compiler made something of a case that cannot be proven, which is no error: (level, case).
UNPROVEN = {
    (0, "defer_elements"),  # the index is signed: the element may be anywhere in the frame
    (0, "defer_many_parameters"),  # which of the frame's bytes the copied structure holds is not known
}

Permissions = dict[str, list[Permission]]


def permissions(program: Path) -> Permissions:
    """Function -> what is said of its copies and synchronizations."""
    found: Permissions = {}
    image = Program(elf.load(program), Decoder())
    prover = Prover(image)
    for start in sorted(image.reaching_cuda()):
        try:
            sites = sorted(prover.structure(start).flow.calls)
        except instructions.Refused:
            continue
        each = (prover.permission(start, site) for site in sites)
        found[image.ranges[start].name] = [permission for permission in each if permission is not None]
    return found


@pytest.fixture(scope="module", params=(0, 2, 3), ids=lambda level: f"O{level}")
def level(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture(scope="module")
def given(level: int, toolchain: Callable[[str], Toolchain]) -> Permissions:
    found: Permissions = {}
    for source in SOURCES:
        program = compile_program(toolchain("13.0"), [source], source.stem, Build(level, "compute_75"))
        found |= permissions(program)
    return found


def test_the_cases_are_found() -> None:
    assert len(NAMES) > 90
    assert len(NAMES) == len(set(NAMES))


@pytest.mark.native
@pytest.mark.parametrize("name", [name for name in NAMES if name.startswith("defer_")])
def test_deferred(given: Permissions, level: int, name: str) -> None:
    permitted = [each for each in given[name] if each.defer_read]
    assert bool(permitted) != ((level, name) in UNPROVEN), [each.refused for each in given[name]]
    for each in permitted:
        assert each.proof
        assert each.more or each.settle_at_call
        assert each.header


@pytest.mark.native
@pytest.mark.parametrize("name", [name for name in NAMES if name.startswith("keep_")])
def test_kept(given: Permissions, name: str) -> None:
    found = given.get(name, [])  # nothing where the function's graph is not known
    assert [each.proof for each in found if each.defer_read or each.settle_at_call] == []
    assert all(each.refused for each in found if not each.any)


@pytest.mark.native
@pytest.mark.parametrize("name", [name for name in NAMES if name.startswith(("sync_", "wait_"))])
def test_synchronizations(given: Permissions, name: str) -> None:
    reached = [each for each in given[name] if "is not reached" not in each.refused]
    local = {each.local_sync for each in reached}
    if name == "wait_in_struct":
        local = {each.local_sync for each in given["_ZL7wrappedi"]}  # the call is in the callee
    assert local == {name.startswith("sync_")}, [each.refused for each in reached]


@pytest.mark.native
def test_reading_now_and_then_is_part_of_the_condition(given: Permissions, level: int) -> None:
    (found,) = [each for each in given["defer_every_tenth_read"] if each.defer_read]
    assert "&" in found.more_text


def test_every_instruction_without_listed_effects_is_known() -> None:
    """The decoder lists what an instruction writes only for those that are not in its own table."""
    flow = {"call", "jmp"}
    unknown = decoder._MODELLED - instructions.HANDLED - flow
    # Those whose only effect is on the first operand need no knowledge.
    assert all(re.match(r"(cvt|sqrt|add|sub|mul|div|min|max)\w*(ss|sd|si)$|pxor|xorp[sd]", name) for name in unknown), (
        unknown
    )
