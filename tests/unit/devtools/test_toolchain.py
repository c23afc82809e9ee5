"""farlane.frontend.devtools: installing a toolchain once, compiling a program once, the registry's checks.

pip and the compilers are replaced by small scripts, so that these tests need neither the network nor a compiler.
"""

from __future__ import annotations

import multiprocessing
import os
import stat
import subprocess
from pathlib import Path

import pytest
from farlane.frontend.devtools import programs, registry, toolchain
from farlane.frontend.devtools.programs import Build, CompileError, compile_program
from farlane.frontend.devtools.toolchain import SPECIFICATIONS, Specification, Toolchain, ToolchainError

FAKE = Specification("13.0", "nvcc", "13.0", ("some-wheel==1",))


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FARLANE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


class FakePip:
    """Stands for subprocess.run: makes the tree that pip would, and counts."""

    def __init__(self, log: Path, fail: bool = False) -> None:
        self._log, self._fail = log, fail

    def __call__(self, command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        with self._log.open("a") as file:
            file.write(" ".join(command[command.index("--target") + 2 :]) + "\n")
        if self._fail:
            return subprocess.CompletedProcess(command, 1, "", "no network here")
        tree = Path(command[command.index("--target") + 1])
        (tree / "nvidia/cu13/lib").mkdir(parents=True)
        return subprocess.CompletedProcess(command, 0, "", "")


def _install(log: Path) -> None:
    toolchain.subprocess.run = FakePip(log)  # type: ignore[assignment,attr-defined]
    toolchain.SPECIFICATIONS["13.0"] = FAKE
    toolchain.install("13.0")


def test_processes_that_install_at_once_install_once(tmp_path: Path) -> None:
    log = tmp_path / "log"
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=_install, args=(log,)) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert [worker.exitcode for worker in workers] == [0] * 4
    assert log.read_text() == "some-wheel==1\n"


def test_a_changed_description_is_made_anew(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "log"
    monkeypatch.setattr(toolchain.subprocess, "run", FakePip(log))
    for wheel in ("a==1", "a==1", "a==2"):
        monkeypatch.setitem(SPECIFICATIONS, "13.0", Specification("13.0", "nvcc", "13.0", (wheel,)))
        installed = toolchain.install("13.0")
        assert (installed.library_folder / "libcudart.so").readlink() == Path("libcudart.so.13")
    assert log.read_text() == "a==1\na==2\n"
    assert sorted(path.name for path in (cache / "toolchains").iterdir()) == ["13.0", "13.0.lock"]


def test_a_failed_installation_leaves_nothing(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(toolchain.subprocess, "run", FakePip(tmp_path / "log", fail=True))
    monkeypatch.setitem(SPECIFICATIONS, "13.0", FAKE)
    with pytest.raises(ToolchainError, match="no network here"):
        toolchain.install("13.0")
    assert [path.name for path in (cache / "toolchains").iterdir()] == ["13.0.lock"]


def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ToolchainError, match=r"no toolchain '11.8': there are 13.0, "):
        toolchain.install("11.8")
    monkeypatch.setattr(toolchain.shutil, "which", lambda name: None if "clang" in name else "/usr/bin/g++")
    with pytest.raises(ToolchainError, match="apt-get install clang-19"):
        toolchain.install("clang-12.9")


def test_architectures() -> None:
    nvcc = Toolchain(SPECIFICATIONS["13.0"], Path("/t"))
    assert nvcc.command("compute_75")[-1] == "-arch=compute_75"
    assert nvcc.command("75,sm_90,compute_100")[-3:] == [
        "-gencode=arch=compute_75,code=[sm_75,compute_75]",
        "-gencode=arch=compute_90,code=sm_90",
        "-gencode=arch=compute_100,code=compute_100",
    ]


def test_the_wrapper_translates_clangs_options(tmp_path: Path) -> None:
    fatbinary = tmp_path / "nvidia/cu13/bin/fatbinary"
    fatbinary.parent.mkdir(parents=True)
    fatbinary.write_text('#!/bin/bash\nprintf "%s\\n" "$@"\n')
    wrapper = tmp_path / "cuda/bin/fatbinary"
    wrapper.parent.mkdir(parents=True)
    wrapper.write_text(toolchain.FATBINARY_WRAPPER)
    for path in (fatbinary, wrapper):
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
    arguments = ["-64", "--create", "a b", "--image=profile=sm_75,file=/x y.o", "--image=profile=compute_80,file=p.s"]
    done = subprocess.run([wrapper, *arguments], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [
        "-64",
        "--create",
        "a b",
        "--image3=kind=elf,sm=75,file=/x y.o",
        "--image3=kind=ptx,sm=80,file=p.s",
    ]


@pytest.fixture
def fake_compiler(tmp_path: Path) -> Toolchain:
    """An nvcc that writes its arguments into its output and counts its runs."""
    root = tmp_path / "toolchain"
    nvcc = root / "nvidia/cu13/bin/nvcc"
    nvcc.parent.mkdir(parents=True)
    nvcc.write_text(
        '#!/bin/bash\necho run >> "$(dirname "$0")/runs"\n'
        'for a in "$@"; do case "$a" in *bad.cu) echo "bad.cu(1): error"; exit 2;; esac; last="$a"; done\n'
        'printf "%s\\n" "$@" > "$last"\n'
    )
    nvcc.chmod(0o755)
    return Toolchain(FAKE, root)


def runs(fake: Toolchain) -> int:
    path = fake.root / "nvidia/cu13/bin/runs"
    return len(path.read_text().splitlines()) if path.exists() else 0


def test_a_program_is_compiled_once_and_again_when_anything_changes(fake_compiler: Toolchain, tmp_path: Path) -> None:
    source, header, deeper = tmp_path / "src/a.cu", tmp_path / "h.cuh", tmp_path / "more" / "h.cuh"
    for path, text in ((source, '#include "../h.cuh"'), (header, '# include "more/h.cuh"'), (deeper, "1")):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    first = compile_program(fake_compiler, [source], "a", Build())
    assert compile_program(fake_compiler, [source], "a", Build()) == first
    assert (runs(fake_compiler), first.name) == (1, "a")
    words = first.read_text().split()
    assert words[:4] == ["-cudart", "shared", "-arch=sm_75", "-O3"]

    seen = {first}
    for change in (
        lambda: source.write_text('#include "../h.cuh"\n2'),
        lambda: deeper.write_text("2"),
        lambda: header.write_text('#include "more/h.cuh"\n2'),
        lambda: deeper.unlink(),
    ):
        change()
        seen.add(compile_program(fake_compiler, [source], "a", Build()))
    for build in (Build(optimization=0), Build(flags=("-G",)), Build(architecture="compute_75")):
        seen.add(compile_program(fake_compiler, [source], "a", build))
    assert len(seen) == 8 == runs(fake_compiler)


def test_a_failed_compilation_says_why_and_is_tried_again(fake_compiler: Toolchain, tmp_path: Path) -> None:
    source = tmp_path / "bad.cu"
    source.write_text("")
    for attempt in (1, 2):
        with pytest.raises(CompileError, match=r"bad.cu\(1\): error"):
            compile_program(fake_compiler, [source], "bad", Build())
        assert runs(fake_compiler) == attempt


def test_the_command_line(fake_compiler: Toolchain, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(toolchain, "install", lambda name: fake_compiler)
    assert toolchain.main(["13.0"]) == 0
    assert capsys.readouterr().out == f"{fake_compiler.cuda_root}\n"
    assert toolchain.main(["13.0", "--arch", "compute_80", "--", "--x", "--", str(tmp_path / "out")]) == 0
    assert (tmp_path / "out").read_text().split()[2:] == ["-arch=compute_80", "--x", "--", str(tmp_path / "out")]
    assert toolchain.main(["13.0", "--", "bad.cu"]) == 2


def test_nvccs_environment_variables_do_not_reach_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NVCC_APPEND_FLAGS", "-G")
    environment = Toolchain(FAKE, Path("/t")).environment()
    assert "NVCC_APPEND_FLAGS" not in environment
    assert environment["PATH"] == os.environ["PATH"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('[[program]]\nname = "a"\nflag = []', "unknown keys flag"),
        ('[[program]]\nname = "missing"', "missing.cu"),
        ('[[program]]\nname = "twice"', "have the same name"),
        ('[[program]]\nname = "a"\n[[program]]\nname = "a"', "more than one a"),
        ('[[program]]\nname = "a"\nvariants = [{suffix = "x", optimize = 1}]', "unknown keys optimize"),
    ],
)
def test_a_wrong_registry_is_refused(text: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "a.cu").write_text("")
    if "twice" in text:
        for folder in ("one", "other"):
            (tmp_path / folder).mkdir()
            (tmp_path / folder / "twice.cu").write_text("")
    path = tmp_path / "registry.toml"
    path.write_text(text)
    with pytest.raises(registry.RegistryError, match=words):
        registry.load(path)


def test_variants_add_to_their_program(fake_compiler: Toolchain, tmp_path: Path) -> None:
    (tmp_path / "a.cu").write_text("")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "l.cu").write_text("")
    path = tmp_path / "registry.toml"
    path.write_text(
        '[[program]]\nname = "a"\nflags = ["-DA"]\nlibraries = ["l.cu"]\nexpected = "x"\n'
        'variants = [{suffix = "v", nvcc_flags = ["-G"], architecture = "compute_80"}]\n'
    )
    plain, variant = registry.load(path)
    assert (plain.name, variant.name, variant.expected, variant.variant) == ("a", "a-v", "x", True)
    program, library = variant.compiled(fake_compiler, Build(optimization=0, flags=("-DB",)))
    words = Path(program).read_text().split()
    assert words[2:8] == ["-arch=compute_80", "-O0", "-std=c++17", "-DB", "-DA", "-G"]
    assert "-shared" in Path(library).read_text().split()
    assert Path(library).name == "libl.so"


def test_the_cache_lies_in_the_repository(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FARLANE_CACHE")
    assert programs.cache_folder() == Path(toolchain.__file__).parents[2] / ".cache"
