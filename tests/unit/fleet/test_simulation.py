"""Traces in simulated time: sessions end once, hosts are shared, images move once, what is lost comes again."""

from __future__ import annotations

import argparse
import dataclasses
import json
from pathlib import Path

import pytest
from farlane.fleet.commands import fleet
from farlane.fleet.placement import locality, spread
from farlane.fleet.placement.hosts import Capacity, Request
from farlane.fleet.simulation.rivals import AnyFit, first_fit
from farlane.fleet.simulation.running import COMPILE_BYTES, UPLOAD_BYTES, Simulation
from farlane.fleet.simulation.summary import figures
from farlane.fleet.simulation.trace import Arrival, Spec, Trace, make

SMALL = Spec(hosts=12, sessions=600, owners=8, images=60, failure_days=0.5)


def arrival(at: float, seconds: float, load: float = 1.0, images: tuple[str, ...] = (), memory: int = 1) -> Arrival:
    return Arrival(at, Request("ada", "sim", memory, load, 0, images), seconds)


def trace(*arrivals: Arrival, **more: object) -> Trace:
    whole = Trace((Capacity("sim", 100, 10),), tuple(arrivals), {"i": 10**8}, (), 50.0)
    return dataclasses.replace(whole, **more)  # type: ignore[arg-type]


def test_sessions_share_a_hosts_throughput() -> None:
    report = Simulation(trace(arrival(0.0, 10.0), arrival(5.0, 10.0)), spread.choose).run()
    # Alone for 5 s, then both at half the pace: the first ends at 15 s, the other, alone again, at 20 s.
    assert report.slowdowns == pytest.approx([1.5, 1.5])
    assert report.length == pytest.approx(20.0)


def test_a_host_with_room_slows_down_none() -> None:
    report = Simulation(trace(*(arrival(0.0, 10.0, 0.3) for _ in range(3))), spread.choose).run()
    assert report.slowdowns == pytest.approx([1.0] * 3)


def test_sessions_wait_for_memory() -> None:
    report = Simulation(trace(arrival(0.0, 10.0, memory=80), arrival(1.0, 10.0, memory=80)), spread.choose).run()
    assert report.waits == pytest.approx([0.0, 9.0])


def test_an_image_is_moved_once_to_each_host() -> None:
    report = Simulation(trace(arrival(0.0, 1.0, images=("i",)), arrival(20.0, 1.0, images=("i",))), spread.choose).run()
    delay = 1e8 / UPLOAD_BYTES + 1e8 / COMPILE_BYTES
    assert report.moved_bytes == 10**8
    assert report.slowdowns == pytest.approx([1.0 + delay, 1.0])


def test_what_is_lost_with_its_host_begins_anew() -> None:
    two = (Capacity("sim", 100, 10), Capacity("sim", 100, 10))
    report = Simulation(trace(arrival(0.0, 10.0), failures=((4.0, 0),), capacities=two), spread.choose).run()
    assert (report.lost, report.refused) == (1, 0)
    assert report.slowdowns == pytest.approx([1.4])


@pytest.mark.parametrize(
    "policy", [spread.choose, locality.choose, first_fit, AnyFit(1)], ids=["spread", "locality", "first", "any"]
)
def test_every_session_ends_once(policy: object) -> None:
    whole = make(SMALL)
    report = Simulation(whole, policy).run()  # type: ignore[arg-type]
    assert len(report.slowdowns) + report.refused == SMALL.sessions
    assert report.lost > 0
    assert min(report.slowdowns) > 0.999
    assert all(0 <= share <= 1 + 1e-9 for _, share in report.memory + report.work)


def test_a_trace_is_the_same_each_time_and_as_heavy_as_asked_for() -> None:
    one, other = make(SMALL), make(SMALL)
    assert one == other
    assert make(dataclasses.replace(SMALL, seed=2)) != one
    asked = sum(each.request.load * each.seconds for each in one.arrivals)
    memory = sum(each.request.memory * each.seconds for each in one.arrivals)
    length = one.arrivals[-1].at
    offered = (
        max(
            asked / sum(each.throughput for each in one.capacities),
            memory / sum(each.memory for each in one.capacities),
        )
        / length
    )
    assert offered == pytest.approx(SMALL.offered, rel=0.05)


def run(*words: str) -> int:
    parser = argparse.ArgumentParser()
    fleet.command.add_arguments(parser)
    return fleet.command.run(parser.parse_args(words))


def test_the_command_compares_policies(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output, picture = tmp_path / "figures.json", tmp_path / "picture.svg"
    words = ["simulate", "--hosts", "5", "--sessions", "200", "--policy", "spread,random"]
    assert run(*words, "--json", str(output), "--plot", str(picture)) == 0
    printed = capsys.readouterr().out
    assert "| spread |" in printed
    assert "| random |" in printed
    found = json.loads(output.read_text())
    assert set(found) == {"spread", "random"}
    assert found["spread"]["throughput_used_mean"] > 0
    assert picture.read_text().lstrip().startswith("<?xml")


def test_what_is_wrong_with_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words, message in (
        (["--policy", "best"], "no policy best"),
        (["--hosts", "0"], "1 to 10000000"),
        (["--offered", "x"], "above 0"),
    ):
        with pytest.raises(SystemExit):
            run("simulate", *words)
        assert message in capsys.readouterr().err
    assert (
        run("simulate", "--hosts", "2", "--sessions", "5", "--policy", "pack", "--json", str(tmp_path / "no" / "file"))
        == 1
    )
    assert "No such file" in capsys.readouterr().err


def test_figures_of_nothing() -> None:
    assert figures(Simulation(trace(), spread.choose).run())["slowdown_mean"] == 0.0
