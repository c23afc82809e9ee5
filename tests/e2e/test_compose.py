"""The docker-compose demo, really run: images are built, host and guest start on a private network, the guest compares the modes.

Runs where a Docker engine answers and the base images are there or can be pulled (tests/e2e/compose/base_images.sh makes stand-ins
where no registry can be reached). Building takes minutes the first time, hence `slow` and --full-matrix.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MODES = ["none", "calls", "loops"]
BUILD_SECONDS, RUN_SECONDS = 3600, 300

pytestmark = [pytest.mark.slow, pytest.mark.timeout(BUILD_SECONDS + 2 * RUN_SECONDS)]


def base_images() -> list[str]:
    lines = (ROOT / "docker" / "Dockerfile").read_text().splitlines()
    named = [line.split()[1] for line in lines if line.startswith("FROM ")]
    return [name for name in dict.fromkeys(named) if name != "scratch"]


def compose_commands() -> list[list[str]]:
    """Every docker compose there is: the plugin, and version 1."""
    found = []
    if shutil.which("docker") and subprocess.run(["docker", "compose", "version"], capture_output=True).returncode == 0:
        found.append(["docker", "compose"])
    if shutil.which("docker-compose"):
        found.append(["docker-compose"])
    return found


@pytest.fixture(scope="module")
def engine(pytestconfig: pytest.Config) -> None:
    """Skips, saying why, where the demo cannot run."""
    if not shutil.which("docker"):
        pytest.skip("docker is not installed")
    asked = subprocess.run(["docker", "version", "--format", "{{.Server.Version}}"], capture_output=True, text=True)
    if asked.returncode:
        pytest.skip(f"no Docker engine answers: {asked.stderr.strip()}")
    if not compose_commands():
        pytest.skip("neither `docker compose` nor docker-compose is installed")
    if not pytestconfig.getoption("--full-matrix"):
        pytest.skip("building the images takes minutes: only with --full-matrix")
    for image in base_images():
        here = subprocess.run(["docker", "image", "inspect", image], capture_output=True).returncode == 0
        if not here and subprocess.run(["docker", "pull", "--quiet", image], capture_output=True).returncode:
            pytest.skip(f"{image} is not here and cannot be pulled; tests/e2e/compose/base_images.sh makes a stand-in")


@pytest.fixture(scope="module", params=compose_commands() or [[]], ids=lambda words: "-".join(words) or "none")
def compose(request: pytest.FixtureRequest, engine: None) -> Iterator[list[str]]:
    """A compose command with a project of its own, its images built; everything it started is removed."""
    command = [*request.param, "--project-name", f"farlane{uuid.uuid4().hex[:8]}"]
    subprocess.run([*command, "build"], cwd=ROOT, check=True, timeout=BUILD_SECONDS)
    yield command
    subprocess.run([*command, "down", "--volumes", "--timeout", "5"], cwd=ROOT, check=True, timeout=120)


def test_the_guest_prints_the_comparison(compose: list[str]) -> None:
    up = [*compose, "up", "--abort-on-container-exit", "--exit-code-from", "guest"]
    done = subprocess.run(up, cwd=ROOT, capture_output=True, text=True, timeout=RUN_SECONDS)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "agrees with the CPU's result" in done.stdout
    assert "same output in all modes" in done.stdout
    rows = re.findall(r"(none|calls|loops) +(\d+) +(\d+) +(\d+) +([\d.]+) +[\d.]+x", done.stdout)
    assert [row[0] for row in rows] == MODES * 6
    for none, calls, loops in zip(rows[::3], rows[1::3], rows[2::3], strict=True):
        assert int(loops[1]) <= int(calls[1]) < int(none[1]), (none, calls, loops)


def test_the_guest_holds_programs_shim_and_libraries_only(compose: list[str], tmp_path: Path) -> None:
    """No Python, no shell, nothing of NVIDIA's."""
    name = f"farlane{uuid.uuid4().hex[:8]}"
    subprocess.run(["docker", "create", "--name", name, "farlane-guest"], check=True, capture_output=True)
    try:
        with (tmp_path / "guest.tar").open("wb") as archive:
            subprocess.run(["docker", "export", name], check=True, stdout=archive)
    finally:
        subprocess.run(["docker", "rm", name], check=True, capture_output=True)
    listed = subprocess.run(
        ["tar", "-tf", str(tmp_path / "guest.tar")], check=True, capture_output=True, text=True
    ).stdout
    made_by_docker = re.compile(r"\.dockerenv|dev/|proc/|sys/|etc/")
    files = {line for line in listed.split() if not line.endswith("/") and not made_by_docker.match(line)}
    expected = {"demo/compare", "demo/heat", "demo/loops", "farlane/libcudart.so.13", "farlane/libfarlane_core.so"}
    libraries = files - expected
    assert expected <= files
    assert all(
        re.fullmatch(r"(usr/)?lib(64)?/(.*/)?(ld-linux-.*|lib(c|m|stdc\+\+|gcc_s|dl|pthread|rt)\.so\.\d+)", f)
        for f in libraries
    )


def test_only_the_private_network(compose: list[str]) -> None:
    """The guest and the host share an internal network, which leads nowhere else."""
    network = f"{compose[-1]}_private"
    subprocess.run([*compose, "up", "--no-start"], cwd=ROOT, check=True, capture_output=True, timeout=RUN_SECONDS)
    described = json.loads(
        subprocess.run(["docker", "network", "inspect", network], check=True, capture_output=True).stdout
    )
    assert described[0]["Internal"] is True
