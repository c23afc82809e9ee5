"""What `farlane fleet` says before there is a cluster, and how it shows one."""

from __future__ import annotations

import sys
import urllib.request
from collections.abc import Sequence

import pytest
from farlane.backend.server.endpoint import EndpointError, TcpEndpoint
from farlane.fleet.cluster.starting import BadArguments, parse
from farlane.fleet.commands import showing
from farlane.fleet.gateway.gateway import Gateway
from farlane.fleet.gateway.roster import Held, Report, Roster, Target
from farlane.fleet.placement import pack
from farlane.fleet.placement.hosts import Capacity, Request
from farlane.frontend.cli import main
from fleet_here import FleetHere
from rich.console import Console

GIB = 1 << 30


def outcome(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    return main(["fleet", *arguments]), capsys.readouterr().err


def test_without_ray_it_says_how_to_get_it(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.delitem(sys.modules, "farlane.fleet.cluster.cluster", raising=False)
    for part in (["status"], ["up"], ["map", "--host", "grpc://h:1", "--", "true"]):
        status, said = outcome(capsys, *part)
        assert (status, "pip install 'farlane[fleet]'" in said) == (1, True)


@pytest.mark.parametrize(
    ("listen", "why"),
    [
        (["--listen", "grpc://0.0.0.0:7070"], "without encryption"),
        (["--listen", "farlane+tls://127.0.0.1:0", "--folder", "/nonexistent"], "needs a certificate and tokens"),
        (["--listen", "nowhere"], "nowhere"),
    ],
)
def test_a_gateway_is_as_protected_as_a_host(capsys: pytest.CaptureFixture[str], listen: list[str], why: str) -> None:
    status, said = outcome(capsys, "up", *listen)
    assert (status, why in said) == (1, True), said


@pytest.mark.parametrize("arguments", [["--per-host", "GPU"], ["--per-host", "GPU=many"], ["--policy", "best"]])
def test_bad_options(arguments: list[str]) -> None:
    with pytest.raises(SystemExit):
        main(["fleet", "up", *arguments])


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--listen", "grpc://127.0.0.1:1"], "--listen is not for a host of a fleet"),
        (["--insecure"], "--insecure is not"),
        (["--guest-share", "5%"], "--guest-share is not"),
        (["--sessions", "none"], "--sessions"),
        (["--unknown"], "--unknown"),
    ],
)
def test_options_that_a_host_of_a_fleet_does_not_take(arguments: Sequence[str], why: str) -> None:
    with pytest.raises(BadArguments, match=why):
        parse(list(arguments))


@pytest.fixture
def roster() -> Roster:
    made = Roster(pack.choose)
    held = [Held(7, Request("alice", "sim", 3 * GIB))]
    made.add_host("host-0", "a", Capacity("sim", 16 * GIB, 8), Target("grpc://a:1"), "node-a", held)
    made.report("host-0", "a", Report([7], memory_used=GIB, busy_nanoseconds=2_000_000_000, ended={"goodbye": 3}))
    made.add_host("host-1", "b", Capacity("sim", 16 * GIB, 8), Target("grpc://b:1"), "node-b")
    made.set_open("host-1", False)
    return made


def test_the_table(roster: Roster) -> None:
    console = Console(width=200, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(showing.render(roster.state(), ["host-0", "host-1", "host-2"]))
    lines = console.export_text().splitlines()
    assert lines[1].split()[:6] == ["host-0", "open", "1/8", "3.0G", "16.0G", "1.0G"]
    assert lines[2].split()[:3] == ["host-1", "drained", "0/8"]
    assert lines[3].split() == ["host-2", "not", "there"]
    assert lines[4].startswith("1 sessions, 0 waiting")


def test_the_page_of_metrics(roster: Roster) -> None:
    fleet = FleetHere(hosts=1)
    page = showing.MetricsPage(TcpEndpoint("127.0.0.1", 0), roster.state, fleet.gateway)
    try:
        with urllib.request.urlopen(page.url, timeout=30) as answer:
            lines = answer.read().decode().splitlines()
    finally:
        page.stop()
        fleet.close()
    assert 'farlane_fleet_host_sessions{host="host-0",node="node-a"} 1.0' in lines
    assert 'farlane_fleet_host_open{host="host-1",node="node-b"} 0.0' in lines
    assert 'farlane_fleet_host_device_seconds_total{host="host-0",node="node-a"} 2.0' in lines
    assert 'farlane_fleet_host_sessions_ended_total{host="host-0",how="goodbye",node="node-a"} 3.0' in lines
    with pytest.raises(EndpointError, match="loopback address alone"):
        showing.MetricsPage(TcpEndpoint("0.0.0.0", 0), roster.state, fleet.gateway)


def test_a_gateway_opens_no_session() -> None:
    fleet = FleetHere(hosts=1)
    try:
        assert isinstance(fleet.gateway, Gateway)
        with pytest.raises(AssertionError, match="opens no session"):
            fleet.gateway.device.open()  # type: ignore[union-attr,call-arg]
    finally:
        fleet.close()
