"""Programs whose session is saved and restored while they run: they go on, and print what they would have."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from farlane.frontend.devtools import registry
from farlane.frontend.devtools.guest import Guest
from farlane.frontend.devtools.programs import Build
from farlane.frontend.devtools.toolchain import Toolchain
from farlane.frontend.embedded import EmbeddedHost
from test_resuming import NATIVE, described, free_port, start

pytestmark = [pytest.mark.native, pytest.mark.xdist_group("resuming")]


@pytest.fixture(scope="module")
def programs(toolchain: Callable[[str], Toolchain]) -> dict[str, str]:
    entries = {entry.name: entry for entry in registry.load(NATIVE / "registry.toml")}
    build = Build(architecture="sm_75")
    return {name: entries[name].compiled(toolchain("13.0"), build)[0] for name in ("patient",)}


def farlane(*arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "farlane.frontend.cli", "session", *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("way", ["started anew", "the same"])
def test_a_program_goes_on_with_a_restored_session(programs: dict[str, str], tmp_path: Path, way: str) -> None:
    port, saved = free_port(), str(tmp_path / "saved")
    listen = ("--listen", f"grpc://127.0.0.1:{port}", "--workers", "thread")
    with EmbeddedHost("sim", extra=listen) as first:
        process = start(Guest(f"grpc://127.0.0.1:{port}", "grpc"), programs["patient"], "150", "4000000")
        shown = farlane("list", "--host", first.url).splitlines()
        assert [line.split()[0] for line in shown] == ["SESSION", "s1"]
        assert "s1 is saved" in farlane("save", "s1", saved, "--host", first.url, "--leave")
        assert not described(first.url).sessions
        if way == "the same":
            assert "is restored" in farlane("restore", saved, "--host", first.url)
            output, errors = process.communicate(timeout=60)
        else:
            os.kill(first.pid, signal.SIGKILL)
            with EmbeddedHost("sim", extra=(*listen, "--restore", saved)):
                output, errors = process.communicate(timeout=60)
    assert (process.returncode, output.endswith("PASS\n")) == (0, True), output + errors
    assert output.count("round") == 150 - 3, "each once"
    assert "was resumed after" in errors
