"""The timeline of a run as a file: the format that Perfetto reads, and what damaged or missing parts do to it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from farlane.frontend import timeline
from farlane.frontend.errors import UserError

GUEST = """{"program":"heat \\"a\\"","process":100,"dropped":3}
["call",1000,9000,101,"cudaMemcpy"]
["wait",2000,8000,101]
["group",2500,7500,1,640]
"""
HOST = {
    "session": "s1", "process": 50, "dropped": 1,
    "spans": [["group", 1, 3000, 7000], ["launch", 16, 4000, 5000], ["launch", 99, 5000, 5500], ["repeat", 40, 5500, 6000],
              ["while", 7, 6000, 6500], ["operation", 72, 3100, 3500]],
    "kernels": {"16": "kernel(int*)"}, "operations": {"72": "FUNCTION_OPEN"}, "compilations": [["kernel(int*)", 4000, 4500]],
}  # fmt: skip


def made(folder: Path) -> tuple[dict[str, object], list[timeline.Event], str]:
    line = timeline.write(folder, folder / "run.json")
    content = json.loads((folder / "run.json").read_text())
    return content["otherData"], content["traceEvents"], line


def test_both_sides(tmp_path: Path) -> None:
    (tmp_path / "guest-100.jsonl").write_text(GUEST)
    (tmp_path / "host-50-s1.json").write_text(json.dumps(HOST))
    about, events, line = made(tmp_path)
    assert about["dropped_spans"] == 4
    assert "4 spans were left out" in line
    slices = {event["name"]: event for event in events if event["ph"] == "X"}
    assert slices["cudaMemcpy"] == {
        "ph": "X", "pid": 100, "tid": 101, "name": "cudaMemcpy", "cat": "call", "ts": 1.0, "dur": 8.0,
    }  # fmt: skip
    assert set(slices) == {
        "cudaMemcpy", "wait for the host", "replay group 1", "kernel(int*)", "function 99", "loop (REPEAT), 40 iterations",
        "loop (WHILE), 7 iterations", "FUNCTION_OPEN", "compile kernel(int*)",
    }  # fmt: skip
    begun, ended = (next(event for event in events if event["ph"] == kind) for kind in "be")
    assert (begun["id"], begun["name"], begun["cat"]) == (ended["id"], ended["name"], ended["cat"])
    assert (begun["ts"], ended["ts"], begun["args"]) == (2.5, 7.5, {"bytes": 640})
    names = {(event["pid"], event["name"]): event["args"]["name"] for event in events if event["ph"] == "M"}
    assert names == {
        (100, "process_name"): 'guest: heat "a"', (50, "process_name"): "host", (50, "thread_name"): "session s1",
    }  # fmt: skip


def test_the_guests_side_alone_says_so(tmp_path: Path) -> None:
    (tmp_path / "guest-100.jsonl").write_text(GUEST)
    about, events, line = made(tmp_path)
    assert "guest's side alone" in str(about["host"])
    assert "the guest's side alone" in line
    assert {event["pid"] for event in events} == {100}


def test_damaged_files_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "guest-100.jsonl").write_text(GUEST)
    (tmp_path / "guest-101.jsonl").write_text(GUEST[: len(GUEST) // 2])
    (tmp_path / "guest-102.jsonl").write_text("")
    (tmp_path / "host-50-s1.json").write_text("{")
    _, events, _ = made(tmp_path)
    assert {event["pid"] for event in events} == {100}


def test_a_target_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot write the timeline"):
        timeline.write(tmp_path, tmp_path / "no" / "run.json")
