"""`farlane doctor PROGRAM`: small programs of the C compiler, each with one thing that stops it or its kernels."""

from __future__ import annotations

import os
import struct
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from farlane.frontend.doctor.finding import FAILED, OK, Finding
from farlane.frontend.doctor.program import check_program

PTX, MACHINE_CODE = 1, 2
Only = Callable[[Iterator[Finding]], Finding]


def image(kind: int, arch: int) -> bytes:
    """A fat binary with one entry, stored as it is."""
    payload = b".version 9.0\n.target sm_75\n" if kind == PTX else b"\x7fELF" + bytes(60)
    payload += bytes(-len(payload) % 8)
    header = 0x50 if kind == PTX else 0x40
    entry = struct.pack("<HHIQIIHHIIIQQQ", kind, 0x101, header, len(payload), 0, 0, 0, 9, arch, 0, 0, 0x11, 0, 0)
    entry += bytes(header - len(entry)) + payload
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(entry)) + entry


@pytest.fixture
def compiled(tmp_path: Path) -> Callable[..., str]:
    """A program that is linked to a CUDA runtime of its own, with an image in it."""

    def make(*options: str, held: bytes = b"", runtime: str = "13") -> str:
        soname = f"libcudart.so.{runtime}"
        (tmp_path / "runtime.c").write_text("void __cudaRegisterFatBinary(void) {}")
        (tmp_path / "main.c").write_text(
            "void __cudaRegisterFatBinary(void); int main(void) { __cudaRegisterFatBinary(); }"
        )
        library, program = tmp_path / soname, tmp_path / "program"
        if "-static" in options:
            sources = ["main.c", "runtime.c"]
        else:
            run("cc", "-shared", "-fPIC", f"-Wl,-soname,{soname}", "-o", str(library), "runtime.c")
            sources = ["main.c", str(library)]
        run("cc", "-o", str(program), *options, *sources)
        if held:
            (tmp_path / "image").write_bytes(held)
            run("objcopy", "--add-section", ".nv_fatbin=image", str(program))
        return str(program)

    def run(*command: str) -> None:
        subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)

    return make


def test_a_program_with_ptx_is_fine(compiled: Callable[..., str]) -> None:
    kernels, libraries = check_program(compiled(held=image(PTX, 75) + image(MACHINE_CODE, 90)))
    assert (kernels.state, kernels.check) == (OK, "kernels")
    assert "compute_75" in kernels.text
    assert (libraries.state, libraries.check) == (OK, "libraries")


def test_machine_code_alone(compiled: Callable[..., str], problem: Only) -> None:
    found = problem(check_program(compiled(held=image(MACHINE_CODE, 90))))
    assert (found.state, found.check) == (FAILED, "kernels")
    assert "machine code alone (sm_90)" in found.text
    assert "code=compute_75" in found.advice


def test_a_damaged_image(compiled: Callable[..., str], problem: Only) -> None:
    found = problem(check_program(compiled(held=image(PTX, 75)[:-40])))
    assert (found.state, found.check) == (FAILED, "kernels")
    assert "cannot be read" in found.text


def test_a_runtime_that_is_too_old(compiled: Callable[..., str], problem: Only) -> None:
    found = problem(check_program(compiled(held=image(PTX, 75), runtime="11.0")))
    assert (found.state, found.check) == (FAILED, "runtime")
    assert "libcudart.so.11" in found.text
    assert "12 and 13" in found.advice


def test_a_static_executable(compiled: Callable[..., str], problem: Only) -> None:
    found = problem(check_program(compiled("-static", held=image(PTX, 75))))
    assert (found.state, found.check) == (FAILED, "interception")
    assert "fully static" in found.text


def test_a_stripped_program_with_the_runtime_in_it(tmp_path: Path, problem: Only) -> None:
    (tmp_path / "main.c").write_text("int main(void) { return 0; }")
    (tmp_path / "image").write_bytes(image(PTX, 75))
    subprocess.run(["cc", "-s", "-o", "program", "main.c"], cwd=tmp_path, check=True)
    subprocess.run(["objcopy", "--add-section", ".nv_fatbin=image", "program"], cwd=tmp_path, check=True)
    found = problem(check_program(str(tmp_path / "program")))
    assert (found.state, found.check) == (FAILED, "interception")
    assert "is stripped" in found.text
    assert "farlane setup --interop" in found.advice


def test_a_set_user_id_program(compiled: Callable[..., str], problem: Only, monkeypatch: pytest.MonkeyPatch) -> None:
    program = compiled(held=image(PTX, 75))
    os.chmod(program, 0o4755)
    uid = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: uid + 1)
    found = problem(check_program(program))
    assert (found.state, found.check) == (FAILED, "interception")
    assert "set-user-id" in found.text


def test_a_program_that_is_not_there(problem: Only) -> None:
    found = problem(check_program("/no/such/program"))
    assert (found.state, found.check) == (FAILED, "program")
