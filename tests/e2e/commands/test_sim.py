"""`farlane sim run` as a user calls it: a real program, its files, and what other commands make of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from farlane.frontend.devtools import registry
from farlane.frontend.devtools.programs import Build
from farlane.frontend.devtools.toolchain import Toolchain

pytestmark = pytest.mark.native

NATIVE = Path(__file__).parents[2] / "native"
FARLANE = [sys.executable, "-m", "farlane.frontend.cli"]
SMALL = """
base = "mgpusim-peers"
[tlb]
cores = 4
[tlb.network]
columns = 2
"""


def farlane(*arguments: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("FARLANE_")}
    return subprocess.run([*FARLANE, *arguments], env=kept, capture_output=True, text=True, timeout=240)


def test_a_program_is_run_and_reported(toolchain: Callable[[str], Toolchain], tmp_path: Path) -> None:
    entry = next(entry for entry in registry.load(NATIVE / "registry.toml") if entry.name == "vecadd")
    program = entry.compiled(toolchain("13.0"), Build(architecture="sm_75"))
    (tmp_path / "memory.toml").write_text(SMALL)
    names = {name: str(tmp_path / name) for name in ("run.json", "run.html", "trace.zip", "accesses.json")}
    ran = farlane(
        "sim", "run", "--config", str(tmp_path / "memory.toml"), "--json", names["run.json"], "--html", names["run.html"],
        "--trace", names["trace.zip"], "--accesses", names["accesses.json"], "--", *program,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.endswith("PASS\n")
    assert "seconds: kernels" in ran.stderr
    report = json.loads((tmp_path / "run.json").read_text())
    (session,) = report["sessions"]
    (kernel,) = session["kernels"]
    assert kernel["launches"] == 1
    assert kernel["blocks"] == 391
    # 100003 threads: 3126 warps, the last of three threads; each reads twice and writes once, and an array of 400012 bytes begins a page.
    assert kernel["requests"] == 3 * 3126
    assert session["pages"] == 3 * 98
    counts = session["total"]
    assert counts["faults"] == 0
    assert counts["walks"] >= session["pages"]
    assert counts["private_hits"] + counts["merged"] + counts["misses"] == counts["requests"]
    assert "<svg" in (tmp_path / "run.html").read_text()
    planned = farlane("plan", "--json", names["accesses.json"])
    assert planned.returncode == 0, planned.stderr
    steps = json.loads((tmp_path / "accesses.json").read_text())["steps"]
    assert steps[-2:] == [[[0, "r"], [1, "r"], [2, "rw"]], [[2, "r"]]]
    swept = farlane(
        "sim",
        "sweep",
        "--config",
        str(tmp_path / "memory.toml"),
        "--no-grid",
        "--hierarchies",
        "peers",
        names["trace.zip"],
    )
    assert swept.returncode == 0, swept.stderr
    assert "9378 requests, 294 pages" in swept.stdout


def test_a_wrong_configuration_is_told_before_anything_runs(tmp_path: Path) -> None:
    (tmp_path / "wrong.toml").write_text("[cores]\nslots = 0\n")
    ran = farlane("sim", "run", "--config", str(tmp_path / "wrong.toml"), "--", "/bin/true")
    assert ran.returncode == 1
    assert "cores.slots" in ran.stderr
