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
LINES = """["session","s1",50]
["queue",1500,1600]
["open",1600,1900]
["names","launch",{"16":"kernel(int*)"}]
["names","operation",{"72":"FUNCTION_OPEN"}]
["compilation","kernel(int*)",4000,4500]
["operation",72,3100,3500]
["launch",16,4000,5000]
["launch",99,5000,5500]
["repeat",40,5500,6000]
["while",7,6000,6500]
["group",1,3000,7000]
["dropped",1]
"""
ONE_CLOCK = '{"clocks":[[1000,1050,1100],[7900,7990,8000]]}\n'


def made(folder: Path) -> tuple[dict[str, object], list[timeline.Event], str]:
    line = timeline.write(folder, folder / "run.json")
    content = json.loads((folder / "run.json").read_text())
    return content["otherData"], content["traceEvents"], line


def test_both_sides(tmp_path: Path) -> None:
    (tmp_path / "guest-100.jsonl").write_text(GUEST)
    (tmp_path / "guest-100.jsonl.host").write_text(ONE_CLOCK + LINES)
    about, events, line = made(tmp_path)
    assert (about["dropped_spans"], about["host_clocks"]) == (4, ["session s1: this machine's"])
    assert "4 spans were left out" in line
    slices = {event["name"]: event for event in events if event["ph"] == "X"}
    assert slices["cudaMemcpy"] == {
        "ph": "X", "pid": 100, "tid": 101, "name": "cudaMemcpy", "cat": "call", "ts": 1.0, "dur": 8.0,
    }  # fmt: skip
    assert set(slices) == {
        "cudaMemcpy", "wait for the host", "replay group 1", "kernel(int*)", "function 99", "loop (REPEAT), 40 iterations",
        "loop (WHILE), 7 iterations", "FUNCTION_OPEN", "compile kernel(int*)", "wait for a session", "open the session",
    }  # fmt: skip
    assert (slices["kernel(int*)"]["ts"], slices["kernel(int*)"]["dur"]) == (4.0, 1.0)
    assert slices["loop (REPEAT), 40 iterations"]["args"] == {"iterations": 40}
    assert slices["kernel(int*)"]["pid"] not in (50, 100), "the host's processes may be numbered as ours are"
    begun, ended = (next(event for event in events if event["ph"] == kind) for kind in "be")
    assert (begun["id"], begun["name"], begun["cat"]) == (ended["id"], ended["name"], ended["cat"])
    assert (begun["ts"], ended["ts"], begun["args"]) == (2.5, 7.5, {"bytes": 640})
    names = {(event["pid"], event["name"]): event["args"]["name"] for event in events if event["ph"] == "M"}
    host = slices["kernel(int*)"]["pid"]
    assert names == {
        (100, "process_name"): 'guest: heat "a"', (host, "process_name"): "host",
        (host, "thread_name"): "session s1 (process 50)",
    }  # fmt: skip


def test_the_guests_side_alone_says_so(tmp_path: Path) -> None:
    (tmp_path / "guest-100.jsonl").write_text(GUEST)
    about, events, line = made(tmp_path)
    assert "guest's side alone" in str(about["host"])
    assert "the guest's side alone" in line
    assert {event["pid"] for event in events} == {100}


@pytest.mark.parametrize("drift", [0, 2000])
def test_another_machines_clock_is_brought_to_ours(tmp_path: Path, drift: int) -> None:
    """It is a second ahead, and drifts away from ours between the comparisons."""

    def host(moment: int) -> int:
        return moment + 10**9 + drift * (moment - 1000) // 10_000

    comparisons = [
        [900, host(1000), 1100],
        [0, host(1000) + 400, 2000],
        [10_000, host(11_000), 12_000],
        [10_990, host(11_000), 11_010],
    ]
    lines = [["session", "s1", 1], ["launch", 16, host(4000), host(5000)], ["group", 1, host(3000), host(7000)]]
    (tmp_path / "guest-100.jsonl").write_text(GUEST)
    text = "\n".join(map(json.dumps, [{"clocks": comparisons}, *lines]))
    (tmp_path / "guest-100.jsonl.host").write_text(text)
    about, events, line = made(tmp_path)
    found = {event["name"]: event["ts"] for event in events if event["ph"] == "X"}
    assert found["function 16"] == pytest.approx(4.0, abs=0.001)
    assert found["replay group 1"] == pytest.approx(3.0, abs=0.001)
    assert about["host_clocks"] == ["session s1: another one, accurate to 0.1 us"]
    assert "accurate to 0 us" in line


@pytest.mark.parametrize(
    "line",
    ["", "{", "[]", "7", '["launch"]', '["launch",1,2]', '["launch","x",1,2]', '["launch",1,NaN,2]', '["launch",1,1e400,2]',
     '["launch",1,-5,2]', '["names","launch",[]]', '["session","a","b"]', '["group",[],1,2]', "[" * 5000,
     f'["group",1,{"9" * 5000},2]', '["later","kinds"]', '["call",1,2,3,"cudaMalloc"]'],
)  # fmt: skip
def test_what_a_host_says_wrongly_is_left_out(tmp_path: Path, line: str) -> None:
    (tmp_path / "guest-100.jsonl").write_text(GUEST)
    (tmp_path / "guest-100.jsonl.host").write_text(ONE_CLOCK + line + "\n" + LINES)
    _, events, _ = made(tmp_path)
    (tmp_path / "guest-100.jsonl.host").write_text(ONE_CLOCK + LINES)
    assert events == made(tmp_path)[1]


def test_damaged_files_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "guest-100.jsonl").write_text(GUEST)
    (tmp_path / "guest-101.jsonl").write_text(GUEST[: len(GUEST) // 2])
    (tmp_path / "guest-102.jsonl").write_text("")
    (tmp_path / "guest-100.jsonl.host").write_text("{")
    (tmp_path / "guest-102.jsonl.host").write_text('{"clocks":[]}')
    _, events, _ = made(tmp_path)
    assert {event["pid"] for event in events} == {100}


def test_a_target_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot write the timeline"):
        timeline.write(tmp_path, tmp_path / "no" / "run.json")
