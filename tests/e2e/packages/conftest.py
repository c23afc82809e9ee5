"""What the tests of the packages share: the packages, which are built once, a program, and clean systems."""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import roots
from farlane.frontend.devtools import debian, registry
from farlane.frontend.devtools.packages import guest as guest_package
from farlane.frontend.devtools.packages import host as host_package
from farlane.frontend.devtools.packages import wheels
from farlane.frontend.devtools.packages.host import Release
from farlane.frontend.devtools.registry import Entry
from farlane.frontend.devtools.toolchain import Toolchain

OLDEST = "bullseye"
ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="session")
def vecadd() -> Entry:
    """The program that clean systems run, as the registry knows it."""
    entries = registry.load(ROOT / "tests/native/registry.toml")
    return next(entry for entry in entries if entry.name == "vecadd")


@pytest.fixture(scope="session")
def compiled(toolchain: Callable[[str], Toolchain], tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Builds a program on the oldest of the systems, so that it runs on all."""

    def made(name: str, sources: Sequence[Path], flags: Sequence[str]) -> Path:
        try:
            oldest = roots.release(OLDEST)
        except debian.Unavailable as reason:
            pytest.skip(str(reason))
        built = tmp_path_factory.mktemp("program") / name
        nvcc = toolchain("13.0").cuda_root / "bin/nvcc"
        every = ("-arch=sm_75", "-std=c++17", "-cudart", "shared")
        command = [str(nvcc), *every, *flags, *map(str, sources), "-o", str(built)]
        done = oldest.run(command, {"PATH": "/usr/bin:/bin"}, timeout=600)
        assert done.returncode == 0, done.stderr
        return built

    return made


@pytest.fixture(scope="session")
def program(vecadd: Entry, compiled: Callable[..., Path]) -> Path:
    return compiled("vecadd", vecadd.sources, vecadd.build.flags)


@pytest.fixture(scope="session")
def demo(compiled: Callable[..., Path]) -> Path:
    """The program of `make demo`, which compares its result with the CPU's."""
    return compiled("heat", [ROOT / "examples/heat.cu"], ["-O3"])


@pytest.fixture(scope="session")
def page_commands() -> Callable[[str], list[str]]:
    """The lines of the first block behind a heading of docs/howto/packages.md, as a reader types them."""
    text = (ROOT / "docs/howto/packages.md").read_text()

    def behind(heading: str) -> list[str]:
        _, found, after = text.partition(f"\n## {heading}\n")
        block = re.search(r"(?:^    .*\n)+", after.partition("\n## ")[0], re.M)
        assert found, heading
        assert block, heading
        return textwrap.dedent(block[0]).splitlines()

    return behind


@pytest.fixture
def system(tmp_path: Path) -> Callable[..., Path]:
    """Makes a minimal system of a release, with some packages, to be changed; skips where that cannot be."""

    def made(release: str, packages: Sequence[str] = ()) -> Path:
        try:
            clean = roots.clean(release, packages)
        except debian.Unavailable as reason:
            pytest.skip(str(reason))
        subprocess.run(["cp", "-a", str(clean), str(tmp_path / "root")], check=True)
        return tmp_path / "root"

    return made


@pytest.fixture(scope="session")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return wheels.build_sdist(tmp_path_factory.mktemp("sdist"))


@pytest.fixture(scope="session")
def wheel(sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    if platform.machine() != "x86_64":
        pytest.skip("the wheel is for this machine's glibc except on x86-64")
    return wheels.build_wheel(sdist, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="session")
def package(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """farlane-guest."""
    if shutil.which("dpkg-deb") is None:
        pytest.skip("dpkg-deb is not installed")
    return guest_package.build(wheel, tmp_path_factory.mktemp("package"))


@pytest.fixture(scope="session", params=host_package.RELEASES, ids=lambda release: release.name)
def host(request: pytest.FixtureRequest, wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Release]:
    """farlane-host of a release."""
    return host_package.build(wheel, request.param, tmp_path_factory.mktemp("host")), request.param


@pytest.fixture(scope="session")
def lintian() -> Callable[[Path], None]:
    """Asserts that lintian finds nothing in a package."""
    if shutil.which("lintian") is None:
        pytest.skip("lintian is not installed")

    def look(package: Path) -> None:
        command = ["lintian", "--allow-root", "--fail-on", "error,warning", str(package)]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr

    return look
