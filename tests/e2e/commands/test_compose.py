"""The docker-compose demo, really run: images are built, host and guest start on a private network, the guest compares the modes.

Runs where a Docker engine answers and the base images are there or can be pulled (tests/e2e/commands/compose/base_images.sh makes stand-ins
where no registry can be reached), with every docker compose that is installed; elsewhere it skips and says why. Building takes minutes
the first time. Only the recipe's own names are checked everywhere.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[3]
MODES = ["none", "calls", "loops"]
BUILD_SECONDS, RUN_SECONDS, PULL_SECONDS = 3600, 300, 600
IMAGES = ("farlane-host", "farlane-guest")

# One group: several workers would build the same images at once.
pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(BUILD_SECONDS + 2 * RUN_SECONDS + PULL_SECONDS),
    pytest.mark.xdist_group("compose"),
]


def instructions(name: str) -> list[list[str]]:
    """The arguments of every such instruction of the Dockerfile."""
    text = (ROOT / "docker" / "Dockerfile").read_text().replace("\\\n", " ")
    return [line.split()[1:] for line in text.splitlines() if line.startswith(f"{name} ")]


def base_images() -> list[str]:
    """What the Dockerfile starts from, less its own stages."""
    stages = {"scratch"} | {words[2] for words in instructions("FROM") if len(words) == 3}
    return [name for name in dict.fromkeys(words[0] for words in instructions("FROM")) if name not in stages]


def pulled(image: str) -> bool:
    """Whether the image is here, or comes from a registry."""
    if subprocess.run(["docker", "image", "inspect", image], capture_output=True).returncode == 0:
        return True
    try:
        done = subprocess.run(["docker", "pull", "--quiet", image], capture_output=True, timeout=PULL_SECONDS)
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


def installed(compose_command: list[str]) -> bool:
    """Whether the plugin, or version 1, is there."""
    if len(compose_command) == 1:
        return shutil.which(*compose_command) is not None
    return subprocess.run([*compose_command, "version"], capture_output=True).returncode == 0


@pytest.fixture(scope="module")
def engine() -> None:
    """Skips, saying why, where the demo cannot run."""
    if not shutil.which("docker"):
        pytest.skip("docker is not installed")
    asked = subprocess.run(["docker", "version", "--format", "{{.Server.Version}}"], capture_output=True, text=True)
    if asked.returncode:
        pytest.skip(f"no Docker engine answers: {asked.stderr.strip()}")
    for image in base_images():
        if not pulled(image):
            pytest.skip(
                f"{image} is not here and cannot be pulled; tests/e2e/commands/compose/base_images.sh makes a stand-in"
            )


@pytest.fixture(scope="module", params=[["docker", "compose"], ["docker-compose"]], ids=" ".join)
def compose(request: pytest.FixtureRequest, engine: None) -> Iterator[list[str]]:
    """A compose command with a project of its own, its images built; everything it started is removed."""
    if not installed(request.param):
        pytest.skip(f"{' '.join(request.param)} is not installed")
    command = [*request.param, "--project-name", f"farlane{uuid.uuid4().hex[:8]}"]
    subprocess.run([*command, "build"], cwd=ROOT, check=True, timeout=BUILD_SECONDS)
    yield command
    subprocess.run([*command, "down", "--volumes", "--timeout", "5"], cwd=ROOT, check=True, timeout=120)


def test_the_recipe_names_what_is_there() -> None:
    """Files that are copied exist, and so do the stages that are built and copied from: checked without Docker."""
    stages = {words[2] for words in instructions("FROM") if len(words) == 3}
    copies = instructions("COPY")
    assert copies
    for words in copies:
        if words[0].startswith("--from="):
            assert words[0].removeprefix("--from=") in stages, words
        else:
            assert all((ROOT / source).exists() for source in words[:-1]), words
    targets = re.findall(r"^ +target: (\S+)$", (ROOT / "docker-compose.yml").read_text(), re.MULTILINE)
    assert targets == ["host", "guest"]
    assert stages >= set(targets)
    assert base_images() == ["debian:bookworm-slim", "rust:1-slim-bookworm"]
    script = (ROOT / "tests" / "e2e" / "commands" / "compose" / "base_images.sh").read_text()
    assert all(f"={image}\n" in script for image in base_images())


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
        assert int(loops[2]) < int(calls[2]) < int(none[2]), (none, calls, loops)


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
    libraries = (
        "farlane_core.so",
        "farlane_redirect.so",
        "cudart.so.12",
        "cudart.so.13",
        "cuda.so.1",
        "nvidia-ml.so.1",
    )
    shim = {"farlane/farlane-run", *(f"farlane/lib{name}" for name in libraries)}
    expected = {"demo/compare", "demo/heat", "demo/loops"} | shim
    assert expected <= files
    assert all(
        re.fullmatch(r"(usr/)?lib(64)?/(.*/)?(ld-linux-.*|lib(c|m|stdc\+\+|gcc_s|dl|pthread|rt)\.so\.\d+)", f)
        for f in files - expected
    )


def test_only_the_private_network(compose: list[str]) -> None:
    """The guest and the host share an internal network, which leads nowhere else, and have no other; no port is published."""
    network = f"{compose[-1]}_private"
    subprocess.run([*compose, "up", "--no-start"], cwd=ROOT, check=True, capture_output=True, timeout=RUN_SECONDS)
    assert inspected("network", network)["Internal"] is True
    listed = subprocess.run([*compose, "ps", "--all", "--quiet"], cwd=ROOT, check=True, capture_output=True, text=True)
    containers = [inspected("container", identifier) for identifier in listed.stdout.split()]
    assert sorted(container["Config"]["Image"] for container in containers) == sorted(IMAGES)
    for container in containers:
        assert list(container["NetworkSettings"]["Networks"]) == [network]
        assert not container["HostConfig"]["PortBindings"]


def inspected(kind: str, name: str) -> dict[str, Any]:
    """What the engine says of a network or a container."""
    done = subprocess.run(["docker", kind, "inspect", name], check=True, capture_output=True)
    described: list[dict[str, Any]] = json.loads(done.stdout)
    return described[0]
