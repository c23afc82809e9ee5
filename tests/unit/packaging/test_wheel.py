"""The wheel that `pip install` makes: it holds the shim, every package, and what the packages read at run time."""

from __future__ import annotations

import io
import platform
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile
from farlane.frontend.devtools.packages import wheels

ROOT = Path(__file__).resolve().parents[3]


CORE_LIMIT = 6_000_000  # bytes


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """A wheel built from a copy of the tracked files (the build leaves folders behind in its source tree)."""
    source = tmp_path_factory.mktemp("source")
    target = tmp_path_factory.mktemp("wheel")
    wheels.copy_tracked(source)
    # The shim's own build is what `make install` did; here its libraries are only to arrive in the wheel.
    (source / "frontend" / "shim" / "build.py").write_text("")
    (source / "backend" / "plane" / "build.py").write_text("")
    plane = ROOT / "backend" / "plane" / "farlane_plane.abi3.so"
    (source / "backend" / "plane" / plane.name).write_bytes(plane.read_bytes())
    (source / "frontend" / "lib").mkdir()
    for library in (ROOT / "frontend" / "lib").iterdir():
        shutil.copy(library, source / "frontend" / "lib" / library.name)
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(target), str(source)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (wheel,) = target.glob("*.whl")
    expected = "manylinux_2_28_x86_64" if platform.machine() == "x86_64" else f"linux_{platform.machine()}"
    assert wheel.name.endswith(f"-py3-none-{expected}.whl")  # native libraries, any Python
    return zipfile.ZipFile(wheel)


@pytest.fixture(scope="module")
def files(archive: zipfile.ZipFile) -> list[zipfile.ZipInfo]:
    return archive.infolist()


@pytest.fixture(scope="module")
def modes(files: list[zipfile.ZipInfo]) -> dict[str, int]:
    """Of the wheel's files."""
    return {item.filename: item.external_attr >> 16 for item in files}


@pytest.fixture(scope="module")
def names(modes: dict[str, int]) -> set[str]:
    return set(modes)


def test_the_stand_in_for_ptxas_can_be_executed(modes: dict[str, int]) -> None:
    assert modes["farlane/frontend/cuda/bin/ptxas"] & 0o111 == 0o111


def test_the_shim_is_in_the_wheel(names: set[str]) -> None:
    for library in ("libfarlane_core.so", "libcudart.so.12", "libcudart.so.13", "libcuda.so.1", "libnvidia-ml.so.1"):
        assert f"farlane/frontend/lib/{library}" in names


def test_the_core_library_is_small(files: list[zipfile.ZipInfo]) -> None:
    """As it is installed: stripped. Profiles of Cargo.toml keep it so."""
    (core,) = (item for item in files if item.filename == "farlane/frontend/lib/libfarlane_core.so")
    assert core.file_size <= CORE_LIMIT


def test_stripped_libraries_keep_read_only_data_and_have_no_number_of_the_build(
    archive: zipfile.ZipFile, names: set[str]
) -> None:
    """strip takes the mark of read-only data (RELRO) away with the number, which the linker must not have made."""
    libraries = {name for name in names if ".so" in name}
    assert len(libraries) >= 7
    for name in libraries:
        library = ELFFile(io.BytesIO(archive.read(name)))
        assert "PT_GNU_RELRO" in {segment["p_type"] for segment in library.iter_segments()}, name
        assert library.get_section_by_name(".note.gnu.build-id") is None, name


@pytest.mark.skipif(platform.machine() != "x86_64", reason="AVX-512 is of x86-64")
def test_the_hosts_ciphers_have_code_for_avx_512() -> None:
    """AWS-LC has none of it where its profile in Cargo.toml is one for size."""
    assert b"aes_gcm_encrypt_avx512" in (ROOT / "backend" / "plane" / "farlane_plane.abi3.so").read_bytes()


def test_the_launcher_is_in_the_wheel_and_can_be_executed(modes: dict[str, int]) -> None:
    assert modes["farlane/frontend/lib/farlane-run"] & 0o111 == 0o111


def test_the_manual_pages_are_in_the_wheel(names: set[str]) -> None:
    pages = {name for name in names if "/share/man/man1/" in name}
    assert {Path(name).name for name in pages} == {path.name for path in (ROOT / "frontend/man/generated").iterdir()}
    assert all(".data/data/share/man/man1/" in name for name in pages)  # installed beside `bin`, where man looks


def test_the_plane_is_in_the_wheel(names: set[str]) -> None:
    assert "farlane/backend/plane/farlane_plane.abi3.so" in names


def test_every_module_is_in_the_wheel(names: set[str]) -> None:
    tracked = subprocess.run(
        ["git", "ls-files", "frontend/*.py", "backend/*.py", "protos/farlane/v1/*.py"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    expected = {
        f"farlane/{name.removeprefix('protos/farlane/')}" for name in tracked if not name.startswith("frontend/shim/")
    }
    assert (expected | {"farlane/__init__.py"}) - names == set()


def test_the_compilers_runtime_is_in_the_wheel(names: set[str]) -> None:
    assert any(name.startswith("farlane/backend/jit/") and name.endswith(".ll") for name in names)


def test_nothing_else_is_in_the_wheel(names: set[str]) -> None:
    rest = {name for name in names if "/share/man/man1/" not in name}
    assert {name.split("/")[0] for name in rest} == {"farlane", "farlane-0.1.0.dist-info"}
    assert not any("/shim/" in name or "/tests/" in name for name in names)
