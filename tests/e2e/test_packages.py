"""The Debian package farlane-guest: what is in it, that lintian finds nothing, and that clean systems run programs with it. And the wheel.

`make test-packages` installs debootstrap and lintian where it may and runs this. The host runs outside, on this machine.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import roots
from farlane.frontend import shim_library
from farlane.frontend.devtools import debian, guest_package, registry
from farlane.frontend.devtools.guest import Guest
from farlane.frontend.devtools.toolchain import Toolchain, cache_folder, locked

pytestmark = [pytest.mark.packages, pytest.mark.timeout(1800), pytest.mark.xdist_group("packages")]

ROOT = Path(__file__).resolve().parents[2]
ENTRIES = {entry.name: entry for entry in registry.load(Path(__file__).parents[1] / "native/registry.toml")}
RELEASES = ("bullseye", "bookworm", "trixie")
ENVIRONMENT = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C"}


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if platform.machine() != "x86_64":
        pytest.skip(f"farlane-guest is made for x86-64 only, this machine is {platform.machine()}")
    if shutil.which("dpkg-deb") is None:
        pytest.skip("dpkg-deb is not installed")
    return guest_package.build(tmp_path_factory.mktemp("package"))


@pytest.fixture(scope="module")
def program(toolchain: Callable[[str], Toolchain], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program that is built on the oldest of the systems, so that it runs on all."""
    folder = tmp_path_factory.mktemp("program")
    try:
        oldest = roots.release(RELEASES[0])
    except debian.Unavailable as reason:
        pytest.skip(str(reason))
    nvcc = toolchain("13.0").cuda_root / "bin/nvcc"
    flags = ("-arch=sm_75", "-std=c++17", "-cudart", "shared", *ENTRIES["vecadd"].build.flags)
    command = [str(nvcc), *flags, *map(str, ENTRIES["vecadd"].sources), "-o", str(folder / "vecadd")]
    done = oldest.run(command, {"PATH": "/usr/bin:/bin"}, timeout=600)
    assert done.returncode == 0, done.stderr
    return folder / "vecadd"


def clean_root(release: str) -> Path:
    """A minimal system of the release, as debootstrap makes it; skips where that cannot be."""
    if shutil.which("debootstrap") is None:
        pytest.skip("debootstrap is not installed")
    if os.geteuid() != 0:
        pytest.skip("debootstrap needs root's rights")
    root = cache_folder() / "roots" / f"clean-{release}"
    root.parent.mkdir(parents=True, exist_ok=True)
    with locked(root.with_suffix(".lock")):
        if not root.exists():
            partial = root.with_suffix(".new")
            shutil.rmtree(partial, ignore_errors=True)
            command = ["debootstrap", "--variant=minbase", release, str(partial), debian.MIRROR]
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode:
                pytest.skip(f"debootstrap cannot make Debian {release} here: {done.stdout[-300:]}{done.stderr[-300:]}")
            partial.rename(root)
    return root


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the wheel is for this machine's glibc except on x86-64")
def test_the_wheel_runs_where_its_name_says(tmp_path: Path) -> None:
    """auditwheel looks at the symbols that its libraries need. They are built already."""
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(tmp_path), str(ROOT)]
    subprocess.run(command, check=True)
    (wheel,) = tmp_path.glob("*.whl")
    assert wheel.name.endswith("-manylinux_2_28_x86_64.whl")
    done = subprocess.run([sys.executable, "-m", "auditwheel", "show", str(wheel)], capture_output=True, text=True)
    assert 'following platform tag: "manylinux_2_28_x86_64"' in done.stdout, done.stdout + done.stderr


def test_two_builds_give_the_same_bytes(package: Path, tmp_path: Path) -> None:
    assert guest_package.build(tmp_path).read_bytes() == package.read_bytes()


def test_it_holds_the_shim_and_the_launcher_and_configures_nothing(package: Path) -> None:
    listed = subprocess.run(["dpkg-deb", "--contents", str(package)], check=True, capture_output=True, text=True).stdout
    names = {line.split()[5].removeprefix("./") for line in listed.splitlines() if not line.startswith("d")}
    libraries = {f"usr/lib/farlane/{path.name}" for path in shim_library.FOLDER.glob("*.so*")}
    assert {name for name in names if not name.startswith("usr/share/")} == {*libraries, "usr/bin/farlane-run"}


def test_lintian_finds_nothing(package: Path) -> None:
    if shutil.which("lintian") is None:
        pytest.skip("lintian is not installed")
    command = ["lintian", "--allow-root", "--fail-on", "error,warning", str(package)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("release", RELEASES)
def test_a_clean_system_runs_a_program(
    release: str, package: Path, guest: Guest, program: Path, tmp_path: Path
) -> None:
    """Installed and removed by dpkg; programs that are started without the launcher have nothing of it."""
    root = tmp_path / "root"
    subprocess.run(["cp", "-a", str(clean_root(release)), str(root)], check=True)
    places = ["/proc", "/dev", str(program.parent), str(package.parent), str(Path(guest.url[7:]).parent)]

    def run(*command: str) -> subprocess.CompletedProcess[str]:
        return roots.enter(root, places, command, ENVIRONMENT, 300, Path("/"))

    installed = run("dpkg", "--install", str(package))
    assert installed.returncode == 0, installed.stdout + installed.stderr
    for mode in shim_library.MODES:
        done = run("farlane-run", "--host", guest.url, "--defer", mode, "--", str(program))
        assert (done.returncode, done.stdout) == (0, ENTRIES["vecadd"].expected), done.stderr
    assert run("sh", "-c", "ldconfig -p | grep -c farlane").stdout == "0\n"
    assert run("dpkg", "--purge", "farlane-guest").returncode == 0
    assert not (root / "usr/lib/farlane").exists()
