"""Programs that use 2, 4 and 8 times the device memory print what they print with enough of it, and the report says what moved."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from farlane.frontend.devtools.guest import Guest
from farlane.frontend.devtools.programs import Build, compile_program
from farlane.frontend.devtools.toolchain import Toolchain
from farlane.frontend.embedded import EmbeddedHost

pytestmark = pytest.mark.native

SOURCE = Path(__file__).parent / "programs" / "reuse.cu"
DEVICE = 2  # MiB


@pytest.fixture(scope="module")
def program(toolchain: Callable[[str], Toolchain]) -> str:
    return str(compile_program(toolchain("13.0"), [SOURCE], "reuse", Build()))


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guest]:
    """A host whose sessions have 2 MiB, and the folder of its reports."""
    folder = tmp_path_factory.mktemp("reports")
    options = ("--device-memory", f"{DEVICE}M", "--memory-policy", "genetic", "--session-reports", str(folder))
    with EmbeddedHost("sim", extra=options) as host:
        yield Guest(host.url)
    files = list(folder.glob("*.json"))
    assert files, "no session has left a report"
    for file in files:
        [(name, counts)] = json.loads(file.read_text()).items()
        assert name == "memory (genetic)"
        assert counts["peak_bytes"] <= DEVICE << 20
        assert counts["bytes_in"] > DEVICE << 20


@pytest.mark.parametrize("times", [2, 4, 8])
@pytest.mark.parametrize("scenario", ["mixing", "layers", "pointers", "whole"])
def test_the_same_output_as_with_enough(scenario: str, times: int, program: str, guest: Guest, small: Guest) -> None:
    command = [program, scenario, str(times * DEVICE)]
    enough = guest.run(command, "loops")
    little = small.run(command, "calls" if times == 4 else "loops")
    assert (enough.status, enough.stderr) == (0, "")
    assert (little.status, little.stdout, little.stderr) == (0, enough.stdout, "")


def test_the_report_and_the_trace(program: str, tmp_path: Path) -> None:
    report, trace = tmp_path / "report.json", tmp_path / "trace.json"
    options = ["--device-memory", "2M", "--memory-policy", "lru", "--memory-trace", str(trace)]
    command = [
        sys.executable,
        "-m",
        "farlane.frontend.cli",
        "run",
        *options,
        "--report",
        f"json:{report}",
        "--no-manifest",
    ]
    done = subprocess.run([*command, "--", program, "mixing", "4"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    counts = json.loads(report.read_text())["sections"]["memory (lru)"]
    assert counts["device_bytes"] == 2 << 20
    assert counts["moves_in"] > 16
    planned = subprocess.run(
        [sys.executable, "-m", "farlane.frontend.cli", "plan", str(trace), "--json"],
        capture_output=True,
        text=True,
        check=True,
    )
    plan = json.loads(planned.stdout)
    assert plan["memory"] == 2 << 20
    assert plan["footprint"] >= 4 << 20
    assert plan["bytes_in"] > 0
