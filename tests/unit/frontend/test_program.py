"""farlane.frontend.program: what the launcher reads from a program's ELF headers."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from pathlib import Path

import pytest
from farlane.frontend import program
from farlane.frontend.errors import UserError


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A C program without CUDA."""
    if shutil.which("cc") is None:
        pytest.skip("no C compiler")
    folder = tmp_path_factory.mktemp("plain")
    (folder / "a.c").write_text("int main(void) { return 0; }\n")
    subprocess.run(["cc", "-o", "plain", "a.c"], cwd=folder, check=True)
    return folder / "plain"


def build(folder: Path, source: str, *flags: str) -> Path:
    (folder / "b.c").write_text(source)
    subprocess.run(["cc", "-o", "program", "b.c", *flags], cwd=folder, check=True)
    return folder / "program"


KERNELS = '__attribute__((section(".nv_fatbin"))) int image[4] = {1, 2, 3, 4};\n'


def test_a_plain_program_is_remarked_on(plain: Path) -> None:
    seen = program.inspect(plain)
    assert seen.is_elf
    assert not seen.has_kernels
    assert "not a CUDA program" in program.require_interceptable(seen)


def test_a_stripped_static_runtime_is_refused_with_advice(tmp_path: Path, plain: Path) -> None:
    path = build(tmp_path, KERNELS + "int main(void) { return image[0]; }\n")
    seen = program.inspect(path)
    assert seen.static_runtime
    assert seen.stripped
    with pytest.raises(UserError, match="linked into it") as caught:
        program.require_interceptable(seen)
    assert "-cudart shared" in caught.value.advice
    assert "stripped" in caught.value.message


def test_a_runtime_with_symbols_runs(tmp_path: Path, plain: Path) -> None:
    source = "int __cudaRegisterFatBinary(void) { return 0; } int libcudart_static_ab(void) { return 0; }\n"
    seen = program.inspect(build(tmp_path, KERNELS + source + "int main(void) { return 0; }\n"))
    assert seen.static_runtime
    assert not seen.stripped
    assert program.require_interceptable(seen) == ""


def test_a_fully_static_program_with_cuda_is_refused(tmp_path: Path, plain: Path) -> None:
    source = "int __cudaRegisterFatBinary(void) { return 0; } int libcudart_static_ab(void) { return 0; }\n"
    for flags in (("-static",), ("-static-pie",)):
        seen = program.inspect(build(tmp_path, KERNELS + source + "int main(void) { return 0; }\n", *flags))
        with pytest.raises(UserError, match="fully static"):
            program.require_interceptable(seen)
    remark = program.require_interceptable(
        program.inspect(build(tmp_path, "int main(void) { return 0; }\n", "-static"))
    )
    assert "static executable without CUDA" in remark


def test_a_set_user_id_program_is_refused(tmp_path: Path, plain: Path) -> None:
    if os.getuid() != 0:
        pytest.skip("only root can make a program of another user's")
    path = build(tmp_path, "int main(void) { return 0; }\n")
    os.chown(path, 1, -1)
    path.chmod(0o4755)
    with pytest.raises(UserError, match="set-user-id"):
        program.require_interceptable(program.inspect(path))


def test_a_shared_runtime_is_recognised(tmp_path: Path, plain: Path) -> None:
    (tmp_path / "r.c").write_text("int __cudaRegisterFatBinary(void) { return 0; }\n")
    library = tmp_path / "libcudart.so.13"
    subprocess.run(
        ["cc", "-shared", "-fPIC", "-Wl,-soname,libcudart.so.13", "-o", library, tmp_path / "r.c"], check=True
    )
    path = build(
        tmp_path,
        KERNELS + "int __cudaRegisterFatBinary(void); int main(void) { return __cudaRegisterFatBinary(); }\n",
        str(library),
    )
    seen = program.inspect(path)
    assert seen.runtimes == ("13",)
    assert not seen.static_runtime
    assert program.require_interceptable(seen) == ""


def test_a_script_is_no_elf_file(tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text("#!/bin/sh\nexit 0\n")
    assert not program.inspect(script).is_elf


@pytest.mark.parametrize("name", ["/nowhere/at/all", "no-such-program-anywhere"])
def test_a_missing_program_has_the_shells_status(name: str) -> None:
    with pytest.raises(UserError) as caught:
        program.find(name)
    assert caught.value.status == 127


def test_another_architecture_is_refused(tmp_path: Path, plain: Path) -> None:
    data = bytearray(plain.read_bytes())
    data[18:20] = (8).to_bytes(2, "little")  # EM_MIPS
    (tmp_path / "mips").write_bytes(data)
    with pytest.raises(UserError, match="MIPS"):
        program.inspect(tmp_path / "mips")


def test_damaged_elf_files_never_crash_the_launcher(tmp_path: Path, plain: Path) -> None:
    good = plain.read_bytes()
    rng = random.Random(20261121)
    refused = 0
    for _ in range(400):
        data = bytearray(good)
        for _ in range(rng.randint(1, 12)):
            data[rng.randrange(4, 64) if rng.random() < 0.5 else rng.randrange(len(data))] = rng.randrange(256)
        if rng.random() < 0.3:
            del data[rng.randrange(4, len(data)) :]
        path = tmp_path / "damaged"
        path.write_bytes(data)
        try:
            program.inspect(path)
        except UserError:
            refused += 1
    assert refused > 50
