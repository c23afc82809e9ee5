"""What `make packages` makes: the same bytes twice, as auditwheel and lintian want it, and clean systems run programs with it.

`make test-packages` installs debootstrap and lintian where it may and runs this.
"""

from __future__ import annotations

import hashlib
import os
import resource
import shutil
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import roots
from farlane.frontend import shim_library
from farlane.frontend.devtools.guest import Guest
from farlane.frontend.devtools.packages import guest as guest_package
from farlane.frontend.devtools.packages import host as host_package
from farlane.frontend.devtools.packages import wheels
from farlane.frontend.devtools.packages.host import Release
from farlane.frontend.devtools.registry import Entry
from waiting import eventually

pytestmark = [pytest.mark.packages, pytest.mark.timeout(3600), pytest.mark.xdist_group("packages")]

RELEASES = ("bullseye", "bookworm", "trixie")


def package_index() -> list[str]:
    """Folders of this machine that pip's settings name, for a clean system: certificates and wheels."""
    named = [Path(value) for name, value in os.environ.items() if name.startswith("PIP_") and value.startswith("/")]
    return [
        str(path)
        for path in (*(each.parent if each.is_file() else each for each in named), Path("/etc/ssl"))
        if path.is_dir()
    ]


def test_the_wheel_of_the_sdist_runs_where_its_name_says(wheel: Path) -> None:
    """auditwheel looks at the symbols that its libraries need."""
    assert wheel.name.endswith("-manylinux_2_28_x86_64.whl")
    done = subprocess.run([sys.executable, "-m", "auditwheel", "show", str(wheel)], capture_output=True, text=True)
    assert 'following platform tag: "manylinux_2_28_x86_64"' in done.stdout, done.stdout + done.stderr


def digest(data: bytes) -> str:
    """What is compared in place of megabytes, which pytest would lay side by side for hours."""
    return hashlib.sha256(data).hexdigest()


def digests(wheel: Path) -> dict[str, str]:
    with zipfile.ZipFile(wheel) as archive:
        return {name: digest(archive.read(name)) for name in archive.namelist()}


def test_builds_in_two_folders_give_the_same_bytes(sdist: Path, wheel: Path, tmp_path: Path) -> None:
    """The sdist and the wheel. The second is built in another folder and from nothing: cargo finds nothing that it has built."""
    again = wheels.build_sdist(tmp_path)
    assert digest(again.read_bytes()) == digest(sdist.read_bytes())
    second = wheels.build_wheel(again, tmp_path, tmp_path / "elsewhere", tmp_path / "target")
    assert digests(second) == digests(wheel)  # says which file differs
    assert digest(second.read_bytes()) == digest(wheel.read_bytes())


def test_the_wheel_needs_two_commands_in_a_clean_system(
    wheel: Path,
    program: Path,
    demo: Path,
    vecadd: Entry,
    system: Callable[..., Path],
    page_commands: Callable[[str], list[str]],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The page's commands, in Debian with Python and no compiler. Prints how long they take once all is downloaded."""
    root = system("bookworm", ("python3-venv",))
    downloads = tmp_path / "downloads"
    downloads.mkdir()
    shutil.copy(wheel, root / "root")
    shutil.copy(demo, root / "root/app")
    shutil.copy(program, root / "root/program")
    places = ["/proc", "/dev", str(downloads), *package_index()]
    environment = roots.ENVIRONMENT | {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
    offline = roots.ENVIRONMENT | {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(downloads), "HOME": "/root"}
    costs = []

    def run(command: str, variables: Mapping[str, str] = offline) -> str:
        began, used = time.monotonic(), processor_seconds()
        done = roots.enter(root, places, ["sh", "-c", command], variables, 900, Path("/root"))
        costs.append((time.monotonic() - began, processor_seconds() - used))
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    run(f"python3 -m venv /opt/first && /opt/first/bin/pip download --quiet --dest {downloads} *.whl", environment)
    install, start = page_commands("From the wheel")
    run(install)
    output = run(start)
    _, installing, running = costs
    for mode in shim_library.MODES:
        assert run(start.replace("farlane run", f"farlane run --defer {mode}")) == output
        assert run(f"farlane/bin/farlane run --defer {mode} -- ./program") == vecadd.expected
    with capsys.disabled():
        print(
            f"\nin a clean Debian 12, once all is downloaded: {install}\n  {installing[0]:.1f} s, of the processor {installing[1]:.1f} s"
            f"\n{start}    (the program of make demo, the first run)\n  {running[0]:.1f} s, of the processor {running[1]:.1f} s"
            f"\nload {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors"
        )


def processor_seconds() -> float:
    """Of all processes that were started from here and have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def test_two_builds_of_the_debian_packages_give_the_same_bytes(
    package: Path, host: tuple[Path, Release], wheel: Path, tmp_path: Path
) -> None:
    assert digest(guest_package.build(wheel, tmp_path).read_bytes()) == digest(package.read_bytes())
    assert digest(host_package.build(wheel, host[1], tmp_path).read_bytes()) == digest(host[0].read_bytes())


def files(package: Path) -> set[str]:
    listed = subprocess.run(["dpkg-deb", "--contents", str(package)], check=True, capture_output=True, text=True).stdout
    return {line.split()[5].removeprefix("./") for line in listed.splitlines() if not line.startswith("d")}


def test_one_system_can_have_both(package: Path, host: tuple[Path, Release]) -> None:
    assert files(package) & files(host[0]) == set()


def test_it_holds_the_shim_and_the_launcher_and_configures_nothing(package: Path) -> None:
    names = files(package)
    libraries = {f"usr/lib/farlane/{path.name}" for path in shim_library.FOLDER.glob("*.so*")}
    assert {name for name in names if not name.startswith("usr/share/")} == {*libraries, "usr/bin/farlane-run"}


def test_lintian_finds_nothing(package: Path, lintian: Callable[[Path], None]) -> None:
    lintian(package)


def test_lintian_finds_nothing_in_the_host(host: tuple[Path, Release], lintian: Callable[[Path], None]) -> None:
    lintian(host[0])


def test_the_unit_is_one_that_systemd_takes(host: tuple[Path, Release], tmp_path: Path) -> None:
    """And one that leaves the service little: systemd's own measure goes from 0 (nothing) to 10."""
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd is not installed")
    subprocess.run(["dpkg-deb", "--extract", str(host[0]), str(tmp_path)], check=True)
    unit = tmp_path / "usr/lib/systemd/system/farlane-host.service"
    command = ["systemd-analyze", "security", "--offline=true", "--threshold=25", str(unit)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    command = ["systemd-analyze", "verify", "--recursive-errors=no", f"--root={tmp_path}", "farlane-host.service"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert "farlane-host.service:" not in done.stderr, done.stderr


def test_a_clean_system_serves_guests(
    host: tuple[Path, Release], program: Path, vecadd: Entry, system: Callable[..., Path], tmp_path: Path
) -> None:
    """As the service does it: set up by its first start, with TLS, a token and confined processes. Removed without a trace."""
    package, release = host
    root = system(release.name, roots.HOST_NEEDS)
    places = ["/proc", "/dev", str(package.parent), str(tmp_path)]

    def run(*command: str, **variables: str) -> subprocess.CompletedProcess[str]:
        return roots.enter(root, places, command, roots.ENVIRONMENT | variables, 600, Path("/"), users=True)

    installed = run("dpkg", "--install", str(package))
    assert installed.returncode == 0, installed.stdout + installed.stderr
    assert run("id", "--user", "--name", "farlane").stdout == "farlane\n"
    state = {"FARLANE_HOST_FOLDER": "/var/lib/farlane/host", "STATE_DIRECTORY": "/var/lib/farlane"}
    setup = run("/usr/lib/farlane-host/setup", **state)
    assert setup.returncode == 0, setup.stderr
    listed = run("farlane", "token", "list", **state)
    assert listed.returncode == 0, listed.stdout + listed.stderr
    assert "first" in listed.stdout
    script = f"""
        farlane serve --listen farlane+tls://127.0.0.1:0 --ready-fd 3 3>{tmp_path}/ready & host=$!
        while ! [ -s {tmp_path}/ready ] && kill -0 $host; do sleep 0.2; done
        while ! [ -e {tmp_path}/done ]; do sleep 0.2; done
        kill $host; wait $host
    """
    with ThreadPoolExecutor() as pool:
        serving = pool.submit(run, "sh", "-c", script, **state)
        try:
            eventually(lambda: (tmp_path / "ready").exists() and (tmp_path / "ready").read_text(), 120)
            secret = (root / "var/lib/farlane/first-token").read_text().strip()
            variables = {"FARLANE_CA": str(root / "var/lib/farlane/host/ca.pem"), "FARLANE_TOKEN": secret}
            command = [
                str(shim_library.FOLDER / shim_library.LAUNCHER),
                "--host",
                (tmp_path / "ready").read_text().strip(),
            ]
            done = subprocess.run(
                [*command, "--", str(program)], env=os.environ | variables, capture_output=True, text=True, timeout=300
            )
        finally:
            (tmp_path / "done").touch()
        served = serving.result()
    assert (done.returncode, done.stdout) == (0, vecadd.expected), done.stderr + served.stderr
    assert run("dpkg", "--purge", "farlane-host").returncode == 0
    left = [
        path
        for place in ("usr/lib/farlane-host", "var/lib/farlane", "usr/bin/farlane")
        if (path := root / place).exists()
    ]
    assert not left


@pytest.mark.parametrize("release", RELEASES)
def test_a_clean_system_runs_a_program(
    release: str, package: Path, guest: Guest, program: Path, vecadd: Entry, system: Callable[..., Path]
) -> None:
    """Installed and removed by dpkg; programs that are started without the launcher have nothing of it."""
    root = system(release)
    places = ["/proc", "/dev", str(program.parent), str(package.parent), str(Path(guest.url[7:]).parent)]

    def run(*command: str) -> subprocess.CompletedProcess[str]:
        return roots.enter(root, places, command, roots.ENVIRONMENT, 300, Path("/"))

    installed = run("dpkg", "--install", str(package))
    assert installed.returncode == 0, installed.stdout + installed.stderr
    for mode in shim_library.MODES:
        done = run("farlane-run", "--host", guest.url, "--defer", mode, "--", str(program))
        assert (done.returncode, done.stdout) == (0, vecadd.expected), done.stderr
    assert run("sh", "-c", "ldconfig -p | grep -c farlane").stdout == "0\n"
    assert run("dpkg", "--purge", "farlane-guest").returncode == 0
    assert not (root / "usr/lib/farlane").exists()
