"""`farlane run --timeline`: a real run as trace events, the guest's side and the host's on one clock."""

from __future__ import annotations

import itertools
import json
import os
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from farlane.frontend.devtools import registry
from farlane.frontend.devtools.programs import Build, compile_program
from farlane.frontend.devtools.toolchain import Toolchain
from secured_host import Host, done

pytestmark = [pytest.mark.native, pytest.mark.xdist_group("security")]

ROOT = Path(__file__).parents[3]
ENTRIES = {entry.name: entry for entry in registry.load(ROOT / "tests" / "native" / "registry.toml")}
AHEAD = 10_000_000  # seconds, of another machine's clock
READ_CLOCK = "import time; print(time.monotonic())"
CLOCK = 1.0  # microseconds: the guest reads its clock by way of another one
Event = dict[str, Any]


@pytest.fixture(scope="module")
def compiled(toolchain: Callable[[str], Toolchain]) -> Callable[[str], list[str]]:
    return lambda name: ENTRIES[name].compiled(toolchain("13.0"), Build(architecture="sm_75"))


def run(*arguments: str, environment: Mapping[str, str] = {}) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("FARLANE_")}
    return subprocess.run(
        [sys.executable, "-m", "farlane.frontend.cli", "run", *arguments],
        env={**kept, "FARLANE_ANALYZE_SECONDS": "0", **environment}, capture_output=True, text=True, timeout=120,
    )  # fmt: skip


def traced(
    folder: Path, program: list[str], *options: str, environment: Mapping[str, str] = {}
) -> tuple[dict[str, Any], list[Event]]:
    """`otherData` and the events of a run, which are well formed."""
    file = folder / "run.json"
    outcome = run("--timeline", str(file), *options, "--", *program, environment=environment)
    assert outcome.returncode == 0, outcome.stderr
    assert "open it with" in outcome.stderr
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
    assert about["host_clocks"] == ["session s1: this machine's"]
    assert_both_sides(events, CLOCK)


def assert_both_sides(events: list[Event], clock: float) -> None:
    """Of `stencil2d`; the two clocks agree within so many microseconds."""
    tracks = slices(events)
    for track in tracks.values():
        assert_nested(track)
    names = {event["pid"]: event["args"]["name"] for event in events if event["name"] == "process_name"}
    guest, host = (next(pid for pid, name in names.items() if name.startswith(side)) for side in ("guest", "host"))
    calls = [event for event in events if event.get("cat") == "call"]
    assert {event["pid"] for event in calls} == {guest}
    assert {"cudaMalloc", "cudaMemcpy", "cudaFree"} <= {event["name"] for event in calls}
    of_host = {event["cat"] for event in events if event["ph"] == "X" and event["pid"] == host}
    assert {"queue", "open", "group", "operation", "launch"} <= of_host
    launches = [event for event in events if event.get("cat") == "launch"]
    assert any("step(" in event["name"] for event in launches)
    # No kernel runs before the program has asked for its first memory.
    first = min(event["ts"] for event in calls)
    assert first <= min(event["ts"] for event in launches) + clock
    # A group is replayed while it is on its way.
    replayed = {event["args"]["group"]: event for event in events if event.get("cat") == "group" and event["ph"] == "X"}
    sent = {event["name"]: event["ts"] for event in events if event["ph"] == "b"}
    answered = {event["name"]: event["ts"] for event in events if event["ph"] == "e"}
    assert sent.keys() == answered.keys()
    assert replayed
    for number, event in replayed.items():
        assert event["pid"] == host
        if f"group {number}" in sent:  # the last one may end with the program
            assert sent[f"group {number}"] <= event["ts"] + clock
            assert event["ts"] + event["dur"] <= answered[f"group {number}"] + clock
    assert len(sent) >= len(replayed) - 5, "the guest's part is over before the clocks are compared again"


@pytest.mark.parametrize("workers", ["thread", "process"])
def test_a_host_of_another_machine(compiled: Callable[[str], list[str]], tmp_path: Path, workers: str) -> None:
    """With another clock, another guest's session beside, and a token that may see its own session alone."""
    within = ["unshare", "--time", "--monotonic", str(AHEAD)]
    clock = subprocess.run([*within, sys.executable, "-c", READ_CLOCK], capture_output=True, text=True)
    if clock.returncode or float(clock.stdout) < AHEAD:
        pytest.skip("this system gives no clocks of their own to processes (unshare --time)")
    host = Host(tmp_path, "--workers", workers, within=within)
    try:
        other = done("token", "create", "other", "--folder", str(host.folder.path)).strip()
        folders = [tmp_path / name for name in ("mine", "theirs")]
        found = []
        for folder, program, token in zip(folders, ("stencil2d", "vecadd"), (None, other), strict=True):
            folder.mkdir()
            options = ("--host", host.url(), "--defer", "calls")
            found.append(traced(folder, compiled(program), *options, environment=host.access(token)))
    finally:
        host.close()
    (mine, events), (theirs, others) = found
    accuracy = re.fullmatch(r"session s1: another one, accurate to ([\d.]+) us", mine["host_clocks"][0])
    assert accuracy
    assert_both_sides(events, CLOCK + float(accuracy[1]))
    assert (mine["host"], theirs["host"]) == ("1 sessions", "1 sessions")
    assert theirs["host_clocks"][0].startswith("session s2: another one")
    assert not any("step(" in event["name"] for event in others)


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


def test_a_file_that_cannot_be_written(tmp_path: Path) -> None:
    done = run("--timeline", str(tmp_path / "no" / "run.json"), "--", "true")
    assert done.returncode == 2
    assert "cannot write the timeline" in done.stderr
