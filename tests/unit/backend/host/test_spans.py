"""A session's file for the timeline of a run: what it has, its clock, its bound, and that nothing is kept unasked."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from farlane.backend.device import registry
from farlane.backend.handlers.generated_operations import encode
from farlane.backend.host.greeting import TAPE_VERSION_MAX, Greeting
from farlane.backend.host.host import Host
from farlane.backend.host.spans import to_folder

FENCE = encode("FENCE", 7, 0)
LAUNCH = encode("LAUNCH", 16, 1, 1, 1, 1, 1, 1, 1, 0, 0)


@pytest.fixture
def traced(tmp_path: Path) -> Iterator[Host]:
    host = Host(registry.open_device("null"), spans=to_folder(str(tmp_path / "spans")))
    yield host
    host.close()


@pytest.fixture
def open_guest(new_guest: Callable[..., Any], traced: Host) -> Callable[[], Any]:
    kind = type(new_guest())
    return lambda: kind(traced.admit(Greeting(1, TAPE_VERSION_MAX, program="test")))


def written(folder: Path) -> dict[str, Any]:
    (file,) = (folder / "spans").iterdir()
    found: dict[str, Any] = json.loads(file.read_text())
    return found


def test_what_a_session_leaves(traced: Host, open_guest: Callable[[], Any], tmp_path: Path) -> None:
    began = time.monotonic_ns()
    guest = open_guest()
    guest.open_module()
    guest.open_function(name=b"_Z4fillPfi")
    template = encode("TEMPLATE", 1, 0, len(LAUNCH), 0, tail=LAUNCH)
    guest.submit(LAUNCH, LAUNCH, LAUNCH, template, encode("REPEAT", 1, 0, 1000), FENCE)
    traced.end(guest.session, "test")
    found = written(tmp_path)
    kinds = [kind for kind, *_ in found["spans"]]
    assert (kinds.count("group"), kinds.count("repeat")) == (3, 1)
    assert (found["session"], found["dropped"], found["compilations"]) == (guest.session.name, 0, [])
    assert found["kernels"] == {"16": "fill(float*, int)"}
    names = {found["operations"][str(number)] for kind, number, *_ in found["spans"] if kind == "operation"}
    assert {"MODULE_BEGIN", "MODULE_OPEN", "FUNCTION_OPEN"} <= names
    assert next(number for kind, number, *_ in found["spans"] if kind == "repeat") == 1000
    assert {number for kind, number, *_ in found["spans"] if kind == "launch"} == {16}
    for _, _, start, end in found["spans"]:
        assert began <= start <= end <= time.monotonic_ns()


def test_it_is_bounded(traced: Host, open_guest: Callable[[], Any], tmp_path: Path) -> None:
    guest = open_guest()
    guest.open_module()
    guest.open_function()
    for _ in range(21):
        guest.submit(LAUNCH * 10_000)
    traced.end(guest.session, "test")
    found = written(tmp_path)
    assert len(found["spans"]) == 200_000
    assert found["dropped"] > 9_000


def test_a_folder_that_cannot_be_written_costs_the_file_alone(
    traced: Host, open_guest: Callable[[], Any], tmp_path: Path
) -> None:
    (tmp_path / "spans").write_text("a file")
    guest = open_guest()
    guest.submit(FENCE)
    traced.end(guest.session, "test")
    assert guest.context.closed


def test_nothing_is_kept_unasked(host: Host, new_guest: Callable[..., Any]) -> None:
    guest = new_guest()
    guest.submit(FENCE)
    assert guest.session._replay.spans() == ([], 0)
