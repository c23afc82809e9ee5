"""`farlane run --timeline`: a real run as trace events, the guest's side and the host's on one clock."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from farlane.frontend.devtools import registry
from farlane.frontend.devtools.programs import Build, compile_program
from farlane.frontend.devtools.toolchain import Toolchain
from farlane.frontend.embedded import EmbeddedHost

pytestmark = pytest.mark.native

ROOT = Path(__file__).parents[3]
ENTRIES = {entry.name: entry for entry in registry.load(ROOT / "tests" / "native" / "registry.toml")}
CLOCK = 1.0  # microseconds: the guest reads its clock by way of another one
Event = dict[str, Any]


@pytest.fixture(scope="module")
def compiled(toolchain: Callable[[str], Toolchain]) -> Callable[[str], list[str]]:
    return lambda name: ENTRIES[name].compiled(toolchain("13.0"), Build(architecture="sm_75"))


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("FARLANE_")}
    return subprocess.run(
        [sys.executable, "-m", "farlane.frontend.cli", "run", *arguments],
        env=kept | {"FARLANE_ANALYZE_SECONDS": "0"}, capture_output=True, text=True, timeout=120,
    )  # fmt: skip


def traced(folder: Path, program: list[str], *options: str) -> tuple[dict[str, Any], list[Event]]:
    """`otherData` and the events of a run, which are well formed."""
    file = folder / "run.json"
    done = run("--timeline", str(file), *options, "--", *program)
    assert done.returncode == 0, done.stderr
    assert "open it with" in done.stderr
    content = json.loads(file.read_text())
    events: list[Event] = content["traceEvents"]
    for event in events:
        assert event["ph"] in "XbeM"
        assert isinstance(event["pid"], int)
        assert isinstance(event["tid"], int)
        assert event["ts"] >= 0
        assert event["name"]
        assert event["ph"] != "X" or event["dur"] >= 0
    return content["otherData"], events


def slices(events: list[Event]) -> dict[tuple[int, int], list[Event]]:
    """By process and thread, in the order in which they begin, an outer one before what is in it."""
    found = defaultdict(list)
    for event in events:
        if event["ph"] == "X":
            found[event["pid"], event["tid"]].append(event)
    return {key: sorted(each, key=lambda event: (event["ts"], -event["dur"])) for key, each in found.items()}


def assert_nested(track: list[Event]) -> None:
    """Slices of one thread lie in each other or apart; Perfetto drops others. A nanosecond is what rounding costs."""
    outer: list[float] = []
    for event in track:
        while outer and outer[-1] <= event["ts"] + 0.002:
            outer.pop()
        end = event["ts"] + event["dur"]
        assert not outer or end <= outer[-1] + 0.002, event
        outer.append(end)


@pytest.mark.parametrize("mode", ["none", "calls", "loops"])
def test_both_sides_on_one_clock(compiled: Callable[[str], list[str]], tmp_path: Path, mode: str) -> None:
    about, events = traced(tmp_path, compiled("stencil2d"), "--defer", mode)
    assert (about["dropped_spans"], about["host"]) == (0, "1 sessions")
    tracks = slices(events)
    for track in tracks.values():
        assert_nested(track)
    names = {event["pid"]: event["args"]["name"] for event in events if event["name"] == "process_name"}
    guest, host = (next(pid for pid, name in names.items() if name.startswith(side)) for side in ("guest", "host"))
    calls = [event for event in events if event.get("cat") == "call"]
    assert {event["pid"] for event in calls} == {guest}
    assert {"cudaMalloc", "cudaMemcpy", "cudaFree"} <= {event["name"] for event in calls}
    assert any("step(" in event["name"] for event in events if event.get("cat") == "launch")
    # A group is replayed while it is on its way.
    replayed = {event["args"]["group"]: event for event in events if event.get("cat") == "group" and event["ph"] == "X"}
    sent = {event["name"]: event["ts"] for event in events if event["ph"] == "b"}
    answered = {event["name"]: event["ts"] for event in events if event["ph"] == "e"}
    assert sent.keys() == answered.keys()
    assert replayed
    for number, event in replayed.items():
        assert event["pid"] == host
        if f"group {number}" in sent:  # the last one may end with the program
            assert sent[f"group {number}"] <= event["ts"] + CLOCK
            assert event["ts"] + event["dur"] <= answered[f"group {number}"] + CLOCK
    assert len(sent) >= len(replayed) - 1


def test_a_loop_is_one_slice(toolchain: Callable[[str], Toolchain], tmp_path: Path) -> None:
    """The example's loop, which reads: the host leads it by its slice."""
    program = compile_program(toolchain("13.0"), [ROOT / "examples" / "heat.cu"], "heat", Build(optimization=3))
    _, events = traced(tmp_path, [str(program)], "--analyze-seconds", "100")
    loops = [event for event in events if event.get("cat") == "while"]
    assert sum(event["args"]["iterations"] for event in loops) == 400
    assert len(loops) <= 8
    for track in slices(events).values():
        assert_nested(track)


def test_waits_are_inside_calls(compiled: Callable[[str], list[str]], tmp_path: Path) -> None:
    _, events = traced(tmp_path, compiled("vecadd"), "--defer", "calls")
    calls = [event for event in events if event.get("cat") == "call"]
    waits = [event for event in events if event.get("cat") == "wait"]
    assert waits
    inside = [
        wait
        for wait, call in itertools.product(waits, calls)
        if call["tid"] == wait["tid"]
        and call["ts"] <= wait["ts"]
        and wait["ts"] + wait["dur"] <= call["ts"] + call["dur"] + 0.002
    ]
    assert len(inside) >= len(waits) - 1, "the session's end may wait as well, outside of every call"


def test_a_host_that_is_not_its_own(compiled: Callable[[str], list[str]], tmp_path: Path) -> None:
    with EmbeddedHost("sim") as host:
        about, events = traced(tmp_path, compiled("vecadd"), "--host", host.url)
    assert "guest's side alone" in about["host"]
    assert len({event["pid"] for event in events}) == 1


def test_a_file_that_cannot_be_written(tmp_path: Path) -> None:
    done = run("--timeline", str(tmp_path / "no" / "run.json"), "--", "true")
    assert done.returncode == 2
    assert "cannot write the timeline" in done.stderr
