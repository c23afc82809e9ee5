"""Manifests from where they are made to where they are used: `farlane run`, a note in the program, the host; the same output always."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from farlane.frontend.devtools import registry
from farlane.frontend.devtools.guest import Guest
from farlane.frontend.devtools.programs import Build
from farlane.frontend.devtools.toolchain import Toolchain
from waiting import eventually

pytestmark = [pytest.mark.native, pytest.mark.slow]

NATIVE = Path(__file__).parents[2] / "native"
ENTRY = {entry.name: entry for entry in registry.load(NATIVE / "registry.toml")}["streams_events"]
FARLANE = [sys.executable, "-m", "farlane.frontend.cli"]


@pytest.fixture(scope="module")
def program(toolchain: Callable[[str], Toolchain]) -> str:
    return str(Path(ENTRY.compiled(toolchain("13.0"), Build(architecture="sm_75"))[0]).resolve())


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("FARLANE_")}
    return kept | {"XDG_CACHE_HOME": str(tmp_path / "cache"), "FARLANE_LOG": "info"}


def farlane(environment: dict[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*FARLANE, *words], env=environment, capture_output=True, text=True, timeout=200)


def test_made_on_first_use(program: str, environment: dict[str, str], tmp_path: Path) -> None:
    for _ in range(2):
        done = farlane(environment, "run", "--analyze-seconds", "100", "--", program)
        assert (done.returncode, done.stdout) == (0, ENTRY.expected)
        (path,) = (tmp_path / "cache" / "farlane" / "manifests").rglob("*.manifest")
        assert f"the manifest of {program} is used ({path})" in done.stderr
    without = farlane(environment, "run", "--no-manifest", "--", program)
    assert (without.returncode, without.stdout) == (0, ENTRY.expected)
    assert "manifest" not in without.stderr
    # Damage is noticed, and repaired.
    path.write_bytes(path.read_bytes()[:-8])
    again = farlane(environment, "run", "--analyze-seconds", "100", "--", program)
    assert f"is used ({path})" in again.stderr


def test_inside_the_program(program: str, environment: dict[str, str], tmp_path: Path) -> None:
    marked = tmp_path / "marked"
    assert farlane(environment, "analyze", "--embed", str(marked), program).returncode == 0
    done = farlane(environment, "run", "--", str(marked))
    assert (done.returncode, done.stdout) == (0, ENTRY.expected)
    assert f"the manifest of {marked} is used (in its note)" in done.stderr
    assert not list((tmp_path / "cache" / "farlane").rglob("*.manifest"))


def test_from_the_host(program: str, environment: dict[str, str], tmp_path: Path) -> None:
    """The guest's own shim uploads the program in the first session and is given its manifest in a later one."""
    url = f"unix://{tmp_path}/host.sock"
    serve = [*FARLANE, "serve", "--device", "sim", "--listen", url]
    with subprocess.Popen(serve, env=environment, stdout=subprocess.PIPE, text=True) as host:
        try:
            assert host.stdout is not None
            assert url in host.stdout.readline()
            first = Guest(url).run([program], "loops", extra={"FARLANE_LOG": "info"})
            assert (first.status, first.stdout) == (0, ENTRY.expected)
            assert "is used" not in first.stderr
            made = tmp_path / "cache" / "farlane" / "host-manifests"
            eventually(lambda: any(made.rglob("*.manifest")), 100)
            second = Guest(url).run([program], "loops", extra={"FARLANE_LOG": "info"})
            assert (second.status, second.stdout) == (0, ENTRY.expected)
            assert f"the manifest of {program} is used (from the host)" in second.stderr
        finally:
            host.terminate()
            host.wait(30)
