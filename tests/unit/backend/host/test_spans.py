"""What a session keeps for a timeline: what a guest reads of it, what others get, its clock, its bound, and that nothing is kept unasked."""

from __future__ import annotations

import json
import os
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from farlane.backend.device import registry
from farlane.backend.handlers.generated_operations import encode
from farlane.backend.host.greeting import TAPE_VERSION_MAX, Greeting
from farlane.backend.host.host import Host
from farlane.backend.plane import ProtocolError

FENCE = encode("FENCE", 7, 0)
LAUNCH = encode("LAUNCH", 16, 1, 1, 1, 1, 1, 1, 1, 0, 0)


@pytest.fixture
def traced(tmp_path: Path) -> Iterator[Host]:
    def write(session: str, content: bytes) -> None:
        (tmp_path / f"{session}.json").write_bytes(content)

    host = Host(registry.open_device("null"), spans=write)
    yield host
    host.close()


@pytest.fixture
def open_guest(new_guest: Callable[..., Any], traced: Host) -> Callable[[], Any]:
    kind = type(new_guest())
    return lambda: kind(traced.admit(Greeting(1, TAPE_VERSION_MAX, program="test")))


def written(folder: Path) -> dict[str, Any]:
    (file,) = folder.glob("*.json")
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


class Reader:
    """Reads as the shim does."""

    def __init__(self, guest: Any) -> None:
        self._guest = guest

    def ask(self, first: int, size: int = 4096) -> tuple[int, list[list[Any]]]:
        """The host's clock, and lines."""
        (result,) = self._guest.submit(encode("TIMELINE", first, 7, size)).results
        assert (result.error, len(result.data)) == (0, size)
        now, length, reserved = struct.unpack_from("<QII", result.data)
        text = result.data[16 : 16 + length]
        assert reserved == 0
        assert not any(result.data[16 + length :])
        assert not text or text.endswith(b"\n")
        return now, [json.loads(line) for line in text.splitlines()]

    def all(self, size: int = 4096) -> list[list[Any]]:
        found: list[list[Any]] = []
        while some := self.ask(len(found), size)[1]:
            found += some
        return found


@pytest.fixture
def watched(new_guest: Callable[..., Any], host: Host) -> Any:
    """A guest that has asked for a timeline."""
    kind = type(new_guest())
    return kind(host.admit(Greeting(1, TAPE_VERSION_MAX, program="test", timeline=True)))


def test_what_a_guest_reads(watched: Any) -> None:
    assert watched.admission.timeline
    watched.open_module()
    watched.open_function(name=b"_Z4fillPfi")
    template = encode("TEMPLATE", 1, 0, len(LAUNCH), 0, tail=LAUNCH)
    watched.submit(LAUNCH, template, encode("REPEAT", 1, 0, 1000), FENCE)
    first, *lines, last = Reader(watched).all()
    assert first == ["session", watched.session.name, os.getpid()]
    assert last == ["dropped", 0]
    by_kind = {kind: rest for kind, *rest in lines}
    came, admitted = by_kind["queue"]
    assert by_kind["open"][0] == admitted
    assert came <= admitted <= by_kind["open"][1] <= by_kind["group"][1] <= time.monotonic_ns()
    names = {(line[1], number): name for line in lines if line[0] == "names" for number, name in line[2].items()}
    assert names["launch", "16"] == "fill(float*, int)"
    assert next(line[1] for line in lines if line[0] == "repeat") == 1000
    assert [line[1] for line in lines if line[0] == "group"] == [1, 2, 3], "the last one is not over as it is read"


@pytest.mark.parametrize("size", [600, 4096, 65536])
def test_it_is_read_in_parts(watched: Any, size: int) -> None:
    watched.open_module()
    watched.open_function()
    watched.submit(LAUNCH * 3000)
    reader = Reader(watched)
    lines = reader.all(size)
    assert [line[0] for line in lines].count("launch") == 3000
    assert lines[-1] == ["dropped", 0]
    assert reader.ask(len(lines))[1] == []
    assert reader.ask(1 << 63)[1] == []


def test_the_clock_alone(watched: Any) -> None:
    before = time.monotonic_ns()
    now, lines = Reader(watched).ask(0, 16)
    assert before <= now <= time.monotonic_ns()
    assert lines == []


def test_a_guest_that_has_not_asked_reads_nothing(new_guest: Callable[..., Any], watched: Any) -> None:
    """Whatever other sessions keep."""
    watched.submit(FENCE)
    guest = new_guest()
    guest.submit(FENCE)
    assert not guest.admission.timeline
    assert Reader(guest).all() == []


@pytest.mark.parametrize("size", [0, 15, 65537, 1 << 31])
def test_an_answer_that_has_no_size_ends_the_session(watched: Any, size: int) -> None:
    with pytest.raises(ProtocolError, match="TIMELINE"):
        watched.submit(encode("TIMELINE", 0, 7, size))


def test_nothing_is_kept_unasked(host: Host, new_guest: Callable[..., Any]) -> None:
    guest = new_guest()
    guest.submit(FENCE)
    assert guest.session._replay.spans() == ([], 0, 0)
