"""`farlane top`: what it shows of two answers of a host, and that names of guests cannot take the terminal over."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from farlane.frontend import top
from farlane.frontend.embedded import EmbeddedHost
from farlane.frontend.errors import UserError
from farlane.v1 import admin_pb2, session_pb2
from rich.console import Console
from tape_client.client import Client
from tape_client.generated_operations import allocate


def reply(seconds: float, kernels: int, **more: Any) -> admin_pb2.DescribeReply:
    session = admin_pb2.OpenSession(
        name="s1", program="\x1b]0;taken\x07[bold]train[/bold]\n", pid=7, memory_used=3 << 20, memory_quota=1 << 30,
        seconds=3723, counts={"kernels": kernels, "device_nanoseconds": int(seconds * 5e8), "round_trips": 12},
        served=admin_pb2.Served(weight=2, waited_nanoseconds=1_500_000_000),
    )  # fmt: skip
    return admin_pb2.DescribeReply(
        host_version="1", devices=[session_pb2.DeviceDescription(name="a device", total_memory=2 << 30)], sessions=1,
        session_limit=4, uptime_seconds=seconds, memory_used=3 << 20, open=[session], opened=9, opening=2,
        refused={"busy": 1}, ended={"gone": 3, "goodbye": 5}, counts={"kernels": 100 + kernels}, **more,
    )  # fmt: skip


def printed(view: top.View, width: int) -> str:
    console = Console(file=io.StringIO(), width=width, highlight=False, markup=False, emoji=False)
    console.print(top.shown(view, width))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_rates_are_what_has_grown() -> None:
    text = printed(top.View(reply(10, 1000), reply(12, 3000)), 140)
    assert (
        "sessions 1 of 4, 2 waiting (0 in the queue), 9 since the start, refused: 1 busy, ended: 3 gone, 5 goodbye"
        in text
    )
    assert "memory 3.0M of 2.0G" in text
    assert "1,000 kernels/s" in text
    row = text.splitlines()[-1].split()
    assert row[0] == "s1"
    assert row[-15:] == [
        "7",
        "1:02:03",
        "3.0M",
        "1.0G",
        "50",
        "0/2",
        "1.5s",
        "3,000",
        "1,000",
        "12",
        "0B",
        "0B",
        "-",
        "0B",
        "-",
    ]


@pytest.mark.parametrize("width", [60, 80, 119, 120, 200])
def test_every_width_has_the_session(width: int) -> None:
    text = printed(top.View(reply(10, 1), reply(10, 1)), width)
    assert all(len(line) <= width for line in text.splitlines())
    assert "s1" in text
    assert ("QUOTA" in text) == (width >= top.WIDE)


def test_names_are_only_text() -> None:
    text = printed(top.View(reply(1, 1), reply(2, 1)), 160)
    assert "\x1b" not in text
    assert "\x07" not in text
    assert "?]0;taken?[bold]train[/bold]?" in text


def test_a_host_of_before_the_counts() -> None:
    old = admin_pb2.DescribeReply(open=[admin_pb2.OpenSession(name="s1", program="a")], sessions=1, session_limit=2)
    text = printed(top.View(old, old), 120)
    assert "memory ? of 0B" in text
    assert text.splitlines()[-1].split()[:2] == ["s1", "a"]


@pytest.fixture(scope="module")
def host() -> Iterator[EmbeddedHost]:
    with EmbeddedHost("null") as embedded:
        yield embedded


def command(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "farlane.frontend.cli", "top", *words], capture_output=True, text=True, timeout=60
    )


def test_a_table_of_a_host(host: EmbeddedHost) -> None:
    with Client(host.url, program="a guest") as client:
        client.defer(allocate(client.welcome.window_base, 1 << 20))
        client.flush()
        for words in (("--once",), ()):  # without a terminal there is one table anyway
            done = command("--host", host.url, *words)
            assert done.returncode == 0, done.stderr
            assert "a guest" in done.stdout
            assert "\x1b" not in done.stdout
        found = json.loads(command("--host", host.url, "--json").stdout)
        assert [each["program"] for each in found["sessions"]] == ["a guest"]
        assert found["sessions"][0]["memory_used"] == 1 << 20
        assert found["sessions"][0]["counts"]["groups"] == found["counts"]["groups"] >= 1


def test_what_can_be_wrong(tmp_path: Path) -> None:
    done = command("--once", "--host", f"unix://{tmp_path}/none")
    assert done.returncode == UserError("").status
    assert "no answer from" in done.stderr
    assert done.stderr.count("\n") <= 2
    assert "--host" in command("--once").stderr
    assert command("--interval", "0").returncode == 2
