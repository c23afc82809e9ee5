"""The embedded host at its end."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from farlane.frontend import embedded
from farlane.frontend.embedded import EmbeddedHost
from farlane.hosturl import variables

# A host that ends when it is told to and a file is there.
SLOW = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: None)
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
os.write(1, b"ready")
signal.sigwait([signal.SIGTERM])
while not os.path.exists(sys.argv[1]):
    time.sleep(0.01)
open(sys.argv[2], "w").close()
"""


def ending(folder: Path) -> EmbeddedHost:
    host = EmbeddedHost("sim")
    host._process = subprocess.Popen(
        [sys.executable, "-c", SLOW, str(folder / "go"), str(folder / "report")], stdout=subprocess.PIPE
    )
    assert host._process.stdout is not None
    assert host._process.stdout.read(5) == b"ready"
    return host


def test_a_host_that_does_not_end_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded, "STOP_SECONDS", 0.05)
    monkeypatch.delenv(variables.MODEL, raising=False)
    ending(tmp_path).close()
    assert not (tmp_path / "report").exists()


def test_a_host_whose_report_is_to_come_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = []

    def say(text: str, file: object) -> None:
        said.append(text)
        (tmp_path / "go").touch()  # nobody waits any more, or the model ends only now

    monkeypatch.setattr(embedded, "STOP_SECONDS", 0.05)
    monkeypatch.setenv(variables.MODEL, "settings.json")
    monkeypatch.setattr("builtins.print", say)
    ending(tmp_path).close()
    assert said == ["farlane: the memory model is at work; its report comes when it is done"]
    assert (tmp_path / "report").exists()


def test_an_abandoned_host_is_given_less_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded, "STOP_SECONDS", None)  # waiting for this would never end
    monkeypatch.delenv(variables.MODEL, raising=False)
    ending(tmp_path).close(abandoned=True)
    assert not (tmp_path / "report").exists()
