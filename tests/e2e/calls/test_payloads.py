"""What is sent twice is sent once, and what compresses is compressed: exact counts, and every byte as it should be."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from farlane.frontend.devtools.guest import Guest, Outcome
from farlane.frontend.devtools.programs import Build, compile_program
from farlane.frontend.devtools.toolchain import Toolchain
from farlane.frontend.embedded import EmbeddedHost

pytestmark = pytest.mark.native

SOURCE = Path(__file__).parent / "programs" / "payloads.cu"
MIB = 1 << 20


@pytest.fixture(scope="module")
def program(toolchain: Callable[[str], Toolchain]) -> str:
    return str(compile_program(toolchain("13.0"), [SOURCE], "payloads", Build()))


@pytest.fixture(scope="module")
def host() -> Iterator[EmbeddedHost]:
    with EmbeddedHost("sim") as host:
        yield host


@pytest.fixture(scope="module")
def sim(host: EmbeddedHost) -> Guest:
    """By a socket: through shared memory large pieces have no name."""
    return Guest(host.url, transport="grpc")


def run(guest: Guest, program: str, scenario: str, count: int, mode: str = "calls", **environment: str) -> Outcome:
    outcome = guest.run([program, scenario, str(count)], mode, extra=environment)
    assert (outcome.status, outcome.stdout) == (0, "ok\n"), outcome.stderr
    return outcome


@pytest.mark.parametrize("mode", ["calls", "loops"])
def test_the_same_buffer_again_is_sent_once(sim: Guest, program: str, mode: str) -> None:
    report = run(sim, program, "again", 50, mode).report
    assert report.sections["payloads"]["kept"] == 1
    assert report.sections["payloads"]["reused"] == 49
    assert report.sections["payloads"]["bytes_not_sent"] == 49 * MIB
    assert MIB < report.bytes_up < MIB + 32768


def test_the_same_bytes_to_another_address_are_sent_once(sim: Guest, program: str) -> None:
    report = run(sim, program, "elsewhere", 8).report
    assert (report.sections["payloads"]["kept"], report.sections["payloads"]["reused"]) == (1, 7)
    assert 300_000 < report.bytes_up < 332_768


def test_large_pieces_are_sent_again_through_shared_memory(host: EmbeddedHost, program: str) -> None:
    """A copy is cheaper there than its name."""
    report = run(Guest(host.url, transport="shm"), program, "again", 50).report
    assert (report.sections["payloads"]["kept"], report.sections["payloads"]["reused"]) == (0, 0)
    assert 50 * MIB < report.bytes_up < 50 * MIB + 65536


def test_changed_bytes_are_sent(sim: Guest, program: str) -> None:
    counts = run(sim, program, "fresh", 500).report.sections["payloads"]
    assert counts["reused"] == 0
    assert counts["kept"] == 16, "a program that repeats nothing soon keeps nothing"


def test_more_than_the_host_keeps(sim: Guest, program: str) -> None:
    report = run(sim, program, "turnover", 100).report
    counts = report.sections["payloads"]
    # Four rounds over 100 MiB, of which 64 are kept: what was dropped is sent and kept anew.
    assert counts["kept"] > 100
    assert counts["reused"] > 0
    sent = (400 - counts["reused"]) * MIB
    assert sent < report.bytes_up < sent + MIB


def test_what_compresses_is_compressed(sim: Guest, program: str) -> None:
    report = run(sim, program, "zeros", 20).report
    counts = report.sections["payloads"]
    assert (counts["compressed"], counts["bytes_before_compression"]) == (20, 20 * MIB)
    assert counts["bytes_after_compression"] < 20 * 8192
    assert report.bytes_up < MIB


def test_rows_are_packed_before_they_are_named(sim: Guest, program: str) -> None:
    counts = run(sim, program, "rows", 10).report.sections["payloads"]
    assert (counts["kept"], counts["reused"], counts["bytes_not_sent"]) == (1, 9, 9 * 20_000)


@pytest.mark.parametrize("scenario", ["again", "fresh", "zeros", "rows"])
def test_off_and_mode_none_send_everything(sim: Guest, program: str, scenario: str) -> None:
    for outcome in (
        run(sim, program, scenario, 3, FARLANE_PAYLOADS="off"),
        run(sim, program, scenario, 3, mode="none"),
    ):
        assert not any(outcome.report.sections["payloads"].values())


def test_a_wrong_setting_is_named(sim: Guest, program: str) -> None:
    outcome = sim.run([program, "rows", "1"], extra={"FARLANE_PAYLOADS": "some"})
    assert outcome.status != 0
    assert "FARLANE_PAYLOADS" in outcome.stderr
