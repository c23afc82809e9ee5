"""farlane-guest for AArch64: built here by a cross compiler, run by QEMU against a host that runs on this machine.

The programs are built here as well, for the oldest of the systems, and linked to the package's own libraries.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import aarch64_machines
import aarch64_roots
import pytest
from aarch64_roots import System
from elftools.elf.elffile import ELFFile
from farlane.childhost import ChildHost
from farlane.frontend import shim_library
from farlane.frontend.devtools import debian, registry
from farlane.frontend.devtools.guest import Guest
from farlane.frontend.devtools.packages import cross
from farlane.frontend.devtools.packages import guest as guest_package
from farlane.frontend.devtools.programs import Build
from farlane.frontend.devtools.tls_host import TlsHost
from farlane.frontend.devtools.toolchain import Toolchain

pytestmark = [pytest.mark.packages, pytest.mark.timeout(3600)]

ROOT = Path(__file__).resolve().parents[3]
ENTRIES = {entry.name: entry for entry in registry.load(ROOT / "tests/native/registry.toml")}
# The runtime API and the driver API, threads, a fork, streams, output of kernels.
PROGRAMS = ("vecadd", "driver_matmul", "threads", "fork_child", "streams_events", "device_printf")
# Memory that both sides use, by signals and by second mappings of it: QEMU's emulation of one program makes none.
MEMORY = ("managed", "managed_variables", "pinned_in_kernels")
# Debian's, with pages of so many KiB.
KERNELS = {"linux-image-cloud-arm64": 4, "linux-image-arm64-16k": 16}
COMPILER = "aarch64-linux-gnu-g++"
FLOOR = (2, 28)
CORE_LIMIT = 6_000_000  # bytes
LAUNCHER = "/usr/bin/farlane-run"


@pytest.fixture(scope="session")
def package(sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """farlane-guest for arm64."""
    if shutil.which("dpkg-deb") is None:
        pytest.skip("dpkg-deb is not installed")
    shim_library.require_built()
    command = [shim_library.FOLDER / shim_library.LAUNCHER, "--help"]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    try:
        return guest_package.build_arm64(sdist, said, tmp_path_factory.mktemp("package"))
    except cross.Unavailable as reason:
        pytest.skip(str(reason))


@pytest.fixture(scope="session")
def unpacked(package: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("unpacked")
    subprocess.run(["dpkg-deb", "--extract", str(package), str(folder)], check=True)
    return folder


@pytest.fixture(scope="session")
def libraries(unpacked: Path) -> Path:
    return unpacked / "usr/lib/farlane"


@pytest.fixture(scope="session", params=aarch64_roots.RELEASES)
def system(request: pytest.FixtureRequest, package: Path, tmp_path_factory: pytest.TempPathFactory) -> System:
    """Each release, with the package."""
    try:
        clean = aarch64_roots.system(request.param)
    except debian.Unavailable as reason:
        pytest.skip(str(reason))
    return clean.with_package(package, tmp_path_factory.mktemp("system") / "root")


@pytest.fixture(scope="session")
def compiled(
    libraries: Path, toolchain: Callable[[str], Toolchain], tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], Path]:
    """Builds a program of tests/native for AArch64 by nvcc, which makes the device's code here; each once."""
    if shutil.which(COMPILER) is None:
        pytest.skip(f"{COMPILER} is not installed (apt-get install g++-aarch64-linux-gnu)")
    try:
        oldest = aarch64_roots.system(aarch64_roots.RELEASES[0]).root
    except debian.Unavailable as reason:
        pytest.skip(str(reason))
    folder = tmp_path_factory.mktemp("programs")

    def build(name: str) -> Path:
        built, entry = folder / name, ENTRIES[name]
        if not built.exists():
            command = [str(toolchain("13.0").cuda_root / "bin/nvcc"), "-ccbin", COMPILER, "-cudart", "none"]
            command += ["-O3", "-arch=sm_75", "-std=c++17", *entry.build.flags, *entry.build.nvcc_flags]
            command += [*map(str, entry.sources), "-o", str(built)]
            # The compiler's C++ library is newer than the system's C library, and so are symbols that it needs.
            options = ["--allow-shlib-undefined", f"-rpath-link={libraries}"]
            options += [str(libraries / library) for library in ("libcuda.so.1", "libcudart.so.13")]
            command += [word for option in options for word in ("-Xlinker", option)]
            for option in (f"--sysroot={oldest}", f"-B{oldest}/usr/lib/aarch64-linux-gnu"):
                command += ["-Xcompiler", option]
            done = subprocess.run(command, capture_output=True, text=True)
            assert done.returncode == 0, done.stderr
        return built

    return build


@pytest.fixture(scope="module")
def tcp_host() -> Iterator[str]:
    """The address of a host with the simulated device, to which guests come over TCP."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"grpc://127.0.0.1:{free.getsockname()[1]}"
    host = ChildHost("sim", url, [], os.environ)
    try:
        host.wait_ready()
        yield url
        assert host.process.poll() is None, "the host ended during the tests"
    finally:
        host.process.terminate()
        host.process.wait(60)


def elf_files(unpacked: Path) -> dict[str, Path]:
    files = [*(unpacked / "usr/lib/farlane").iterdir(), unpacked / LAUNCHER[1:]]
    return {file.name: file for file in files}


def test_it_holds_the_shim_without_the_redirecting_library(unpacked: Path) -> None:
    native = {path.name for path in shim_library.FOLDER.iterdir()}
    assert set(elf_files(unpacked)) == native - {shim_library.REDIRECT}
    for path in elf_files(unpacked).values():
        with path.open("rb") as file:
            elf = ELFFile(file)
            assert elf.header["e_machine"] == "EM_AARCH64", path.name
            # Kernels with pages of up to 64 KiB can load it.
            assert {each["p_align"] for each in elf.iter_segments("PT_LOAD")} == {64 << 10}, path.name


def test_no_newer_glibc_is_needed(unpacked: Path) -> None:
    for path in elf_files(unpacked).values():
        with path.open("rb") as file:
            elf = ELFFile(file)
            section = elf.get_section_by_name(".gnu.version_r")
            names = [version.name for _, all_ in section.iter_versions() for version in all_] if section else []
            assert path.name != LAUNCHER[9:] or elf.get_section_by_name(".interp") is None
        numbers = [tuple(map(int, name[6:].split("."))) for name in names if name.startswith("GLIBC_2")]
        assert max(numbers, default=FLOOR) <= FLOOR, path.name
        assert numbers or path.name != shim_library.CORE


def test_the_core_library_is_small(libraries: Path) -> None:
    core = libraries / shim_library.CORE
    assert core.stat().st_size <= CORE_LIMIT
    with core.open("rb") as file:
        assert ELFFile(file).get_section_by_name(".symtab") is None


def test_lintian_finds_nothing(package: Path, lintian: Callable[[Path], None]) -> None:
    lintian(package)


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_print_what_they_print_elsewhere(
    name: str, system: System, compiled: Callable[[str], Path], tcp_host: str
) -> None:
    program = str(compiled(name))
    for mode in shim_library.MODES:
        done = system.run([LAUNCHER, "--host", tcp_host, "--defer", mode, "--", program], {})
        assert (done.returncode, done.stdout, done.stderr) == (0, ENTRIES[name].expected, ""), mode


@pytest.mark.native
@pytest.mark.parametrize("mode", ["none", "calls"])
@pytest.mark.parametrize("name", ["vecadd", "driver_matmul"])
def test_a_program_costs_the_round_trips_of_x86_64(
    name: str,
    mode: str,
    system: System,
    compiled: Callable[[str], Path],
    tcp_host: str,
    toolchain: Callable[[str], Toolchain],
    tmp_path: Path,
) -> None:
    native = ENTRIES[name].compiled(toolchain("13.0"), Build(architecture="sm_75"))[0]
    here = Guest(tcp_host)
    here.run([native], mode)  # the host has the program's modules from now on
    expected = here.run([native], mode)
    file = tmp_path / "report.json"
    launched = [LAUNCHER, "--host", tcp_host, "--defer", mode, "--report", f"json:{file}", "--", str(compiled(name))]
    for _ in range(2):
        done = system.run(launched, {})
        assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads(file.read_text())
    assert report["round_trips"] == expected.report.round_trips
    assert report["calls"] == expected.report.calls


def test_tls_with_a_token(system: System, compiled: Callable[[str], Path], tmp_path: Path) -> None:
    program = str(compiled("vecadd"))
    with TlsHost(tmp_path, []) as host:
        done = system.run([LAUNCHER, "--host", host.url(), "--", program], host.access())
        assert (done.returncode, done.stdout, done.stderr) == (0, ENTRIES["vecadd"].expected, "")
        wrong = host.access() | {"FARLANE_TOKEN_FILE": "", "FARLANE_TOKEN": "farlane-wrong"}
        done = system.run([LAUNCHER, "--host", host.url(), "--", program], wrong)
        assert (done.returncode, done.stdout.splitlines()[-1]) == (1, "FAIL")
        assert "token" in done.stderr


def test_no_host_is_said(system: System, compiled: Callable[[str], Path]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and nothing listens
        host = f"grpc://127.0.0.1:{taken.getsockname()[1]}"
        done = system.run([LAUNCHER, "--host", host, "--", str(compiled("vecadd"))], {})
    assert done.returncode == 1
    assert f"cannot connect to {host}: no host listens there" in done.stderr


def test_a_program_of_another_processor_is_refused(system: System, tmp_path: Path) -> None:
    program = tmp_path / "program"
    shutil.copy("/bin/true", program)
    done = system.run([LAUNCHER, "--host", "grpc://127.0.0.1:1", "--", str(program)], {})
    assert done.returncode == 126
    assert "is built for another processor" in done.stderr


@pytest.mark.parametrize("kernel", KERNELS)
def test_memory_of_both_sides_in_a_machine(
    kernel: str, unpacked: Path, compiled: Callable[[str], Path], tcp_host: str
) -> None:
    """A kernel for AArch64 in a virtual machine, with small and with larger pages."""
    host = f"grpc://{aarch64_machines.HOST}:{tcp_host.rpartition(':')[2]}"
    files = {str(path.relative_to(unpacked)): path for path in elf_files(unpacked).values()}
    files |= {f"programs/{name}": compiled(name) for name in MEMORY}
    script, expected = "grep -m 1 KernelPageSize /proc/self/smaps\n", f"KernelPageSize: {KERNELS[kernel]:>8} kB\n"
    for name in MEMORY:
        for mode in shim_library.MODES:
            script += f"echo {name} {mode}\n{LAUNCHER} --host {host} --defer {mode} -- /programs/{name}\necho $?\n"
            expected += f"{name} {mode}\n{ENTRIES[name].expected}0\n"
    try:
        printed = aarch64_machines.run(kernel, files, script, timeout=900)
    except debian.Unavailable as reason:
        pytest.skip(str(reason))
    assert printed.replace("\r\n", "\n").partition("KernelPageSize")[1:] == ("KernelPageSize", expected[14:])
