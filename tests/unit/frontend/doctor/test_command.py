"""`farlane doctor` itself: its exit status, its JSON, its text with colours and without."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from farlane.frontend import cli
from farlane.frontend.commands import doctor
from farlane.frontend.doctor.finding import FAILED, NOTE, OK, Finding

FOUND = [
    Finding(OK, "system", "Linux [bold]x86_64[/bold]"),
    Finding(NOTE, "gpu", "no GPU", "Use the simulated device."),
    Finding(FAILED, "shim", "the shim is not built", "Build it."),
]


def run(monkeypatch: pytest.MonkeyPatch, findings: list[Finding], *words: str) -> int:
    monkeypatch.setattr(doctor, "checks", lambda program, host: [lambda: iter(findings)])
    parser = cli.build_parser({"doctor": "check"}, {"doctor": doctor.command})
    arguments = parser.parse_args(["doctor", *words])
    return int(arguments.execute(arguments))


@pytest.mark.parametrize(("count", "status"), [(2, 0), (3, 1)])
def test_the_status_says_whether_a_check_failed(
    count: int, status: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, FOUND[:count]) == status
    text = capsys.readouterr().out
    assert "    ok  Linux [bold]x86_64[/bold]\n" in text
    assert "  note  no GPU\n        -> Use the simulated device.\n" in text
    assert text.endswith("everything needed is there\n" if not status else "1 check failed\n")


def test_json(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(monkeypatch, FOUND, "--json") == 1
    assert json.loads(capsys.readouterr().out) == {
        "failed": 1,
        "findings": [
            {"state": "ok", "check": "system", "text": "Linux [bold]x86_64[/bold]", "advice": ""},
            {"state": "note", "check": "gpu", "text": "no GPU", "advice": "Use the simulated device."},
            {"state": "failed", "check": "shim", "text": "the shim is not built", "advice": "Build it."},
        ],
    }


@pytest.mark.parametrize(("variable", "coloured"), [("FORCE_COLOR", True), ("NO_COLOR", False)])
def test_colours(
    variable: str, coloured: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("FORCE_COLOR", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(variable, "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    run(monkeypatch, FOUND)
    assert ("\x1b[" in capsys.readouterr().out) is coloured


def test_this_installation() -> None:
    """Every check, on this machine, as users run it."""
    done = subprocess.run(
        [sys.executable, "-m", "farlane.frontend.cli", "doctor", "--json"], capture_output=True, text=True
    )
    document = json.loads(done.stdout)
    assert done.returncode == (1 if document["failed"] else 0)
    found = {finding["check"]: finding for finding in document["findings"]}
    assert found["embedded-host"]["state"] == "ok", found["embedded-host"]
    assert set(found) >= {"system", "packages", "glibc", "shim", "generated-code", "shared-memory", "limits", "cache"}
    assert all(finding["advice"] for finding in document["findings"] if finding["state"] == "failed")
