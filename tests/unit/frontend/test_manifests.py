"""Manifests on first use: which objects, the cache and its bounds, failures and their marks, concurrent runs."""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from farlane.analyzer.manifest import embed, files, reader
from farlane.frontend import manifests, shim_library
from farlane.frontend import program as programs
from farlane.frontend.commands import run as run_module
from farlane.frontend.manifests import Cache, intact, prepare
from farlane.frontend.objects import CudaObject, cuda_objects

CALLER = """
extern "C" int cudaDeviceSynchronize(); extern "C" int cudaMemset(void *, int, unsigned long);
extern "C" __attribute__((visibility("default"))) int FUNCTION(void *memory, int count) {
    for (int i = 0; i < count; i++) cudaMemset(memory, i, 64);
    return cudaDeviceSynchronize();
}
"""
RUNTIME = 'extern "C" int cudaDeviceSynchronize() { return 0; } extern "C" int cudaMemset(void *, int, unsigned long) { return 0; }'


def compiled(source: str, output: Path, *options: str) -> Path:
    output.parent.mkdir(parents=True, exist_ok=True)
    command = ["g++", "-x", "c++", "-", "-x", "none", "-O2", "-o", str(output), *options]
    subprocess.run(command, input=source, text=True, check=True)
    return output


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """bin/app -> lib/libmiddle.so -> lib/deep/libdeep.so, both found by RUNPATH; a plain library; the runtime."""
    base = tmp_path_factory.mktemp("program")
    lib, shared = base / "lib", ("-shared", "-fPIC")
    runtime = compiled(RUNTIME, lib / "libcudart.so.13", *shared, "-Wl,-soname,libcudart.so.13")
    plain = compiled("int plain() { return 1; }", lib / "libplain.so", *shared, "-Wl,-soname,libplain.so")
    origin = "-Wl,--enable-new-dtags,-rpath,$ORIGIN"
    deep = compiled(
        CALLER.replace("FUNCTION", "deep"), lib / "deep" / "libdeep.so", *shared, "-Wl,-soname,libdeep.so", str(runtime)
    )
    middle = compiled(
        CALLER.replace("FUNCTION", "middle") + 'extern "C" int deep(void *, int); int use() { return deep(0, 1); }',
        lib / "libmiddle.so", *shared, "-Wl,-soname,libmiddle.so", origin + "/deep:$ORIGIN", str(deep), str(runtime),
    )  # fmt: skip
    main = 'int plain(); extern "C" int middle(void *, int); int main(int n, char **) { return middle(0, n) + plain() - 1; }'
    options = [str(middle), str(plain), str(runtime), origin + "/../lib", f"-Wl,-rpath-link,{lib}/deep"]
    compiled(CALLER.replace("FUNCTION", "own") + main, base / "bin" / "app", *options)
    return base


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return {"XDG_CACHE_HOME": str(tmp_path / "cache"), "PATH": os.environ["PATH"]}


def made(environment: dict[str, str]) -> dict[str, Path]:
    return {path.stem: path for path in manifests.cache_root(environment).rglob("*.manifest")}


def test_the_programs_own_objects(folder: Path, environment: dict[str, str]) -> None:
    found = cuda_objects(folder / "bin" / "app", environment)
    assert sorted(each.path.name for each in found) == ["app", "libdeep.so", "libmiddle.so"]
    assert len({each.identity for each in found}) == 3
    assert cuda_objects(Path(sys.executable), environment) == []
    assert cuda_objects(folder / "nothing", environment) == []


@pytest.mark.parametrize(("name", "found"), [("cuMemsetD32_v2", True), ("cuInit", True), ("cublasCreate_v2", False)])
def test_programs_of_the_driver_api_call_cuda(name: str, found: bool, tmp_path: Path) -> None:
    library = compiled(f'extern "C" int {name}() {{ return 0; }}', tmp_path / "libsome.so", "-shared", "-fPIC")
    main = f'extern "C" int {name}(); int main() {{ return {name}(); }}'
    program = compiled(main, tmp_path / "app", str(library))
    assert [each.path for each in cuda_objects(program, {})] == ([program] if found else [])


def test_libraries_that_the_environment_names(folder: Path, environment: dict[str, str], tmp_path: Path) -> None:
    lost = shutil.copy(folder / "bin" / "app", tmp_path / "app")
    assert [each.path.name for each in cuda_objects(Path(lost), environment)] == ["app"]
    environment["LD_LIBRARY_PATH"] = f"/nowhere::{folder}/lib"
    assert len(cuda_objects(Path(lost), environment)) == 3


def test_manifests_are_made_once(folder: Path, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    remarks: list[str] = []
    where = prepare(folder / "bin" / "app", environment, 60, remarks.append)
    assert remarks == []
    paths = made(environment)
    assert where == next(iter(paths.values())).parent
    assert len(paths) == 3
    for identity, path in paths.items():
        manifest = reader.read(path.read_bytes())
        assert manifest.identity.hex() == identity
        assert [site.name for site in manifest.sites] == ["cudaMemset"]
    monkeypatch.setattr(manifests, "_analyze", lambda *_: pytest.fail("analyzed again"))
    assert prepare(folder / "bin" / "app", environment, 60, remarks.append) == where
    # One that is damaged is made again.
    victim = next(iter(paths.values()))
    victim.write_bytes(victim.read_bytes()[:-1])
    with pytest.raises(pytest.fail.Exception):
        prepare(folder / "bin" / "app", environment, 60, remarks.append)


def test_the_folder_is_the_analyzers_own(environment: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The two may not import each other, so each has its own words for it."""
    monkeypatch.setenv("XDG_CACHE_HOME", environment["XDG_CACHE_HOME"])
    sources = Path(files.__file__).resolve().parents[1]
    assert manifests.cache_root(environment) / manifests.revision(sources) == files.cache_folder()


def test_a_program_with_a_manifest_inside_needs_none(folder: Path, environment: dict[str, str], tmp_path: Path) -> None:
    program = tmp_path / "app"
    program.write_bytes(embed.embed((folder / "bin" / "app").read_bytes(), b"manifest"))
    (own,) = cuda_objects(program, environment)
    assert own.embedded
    assert prepare(program, environment, 60, pytest.fail) is None
    assert made(environment) == {}


def test_too_little_time_is_marked(folder: Path, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    app, remarks = folder / "lib" / "deep" / "libdeep.so", list[str]()
    assert prepare(app, environment, 0.05, remarks.append) is not None
    assert len(remarks) == 1
    assert "time" in remarks[0]
    assert made(environment) == {}
    # Not tried again with as little; tried with more.
    prepare(app, environment, 0.05, pytest.fail)
    prepare(app, environment, 0, pytest.fail)
    prepare(app, environment, 60, pytest.fail)
    assert len(made(environment)) == 1
    assert not list(manifests.cache_root(environment).rglob("*.none"))


@pytest.mark.parametrize("status", [1, 70, -9])
def test_a_failure_is_marked_for_good(
    status: int, folder: Path, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    app, remarks = folder / "lib" / "deep" / "libdeep.so", list[str]()
    run = subprocess.run

    def failing(command: list[str], **options: Any) -> object:
        if manifests.ANALYZE_MODULE not in command:  # the dynamic linker is asked
            return run(command, **options)
        return subprocess.CompletedProcess(
            command, status, b"", b"Traceback\nfarlane: too strange\n" if status > 0 else b""
        )

    monkeypatch.setattr(subprocess, "run", failing)
    prepare(app, environment, 5, remarks.append)
    assert ("too strange" if status > 0 else "status -9") in remarks[0]
    prepare(app, environment, 500, pytest.fail)


def test_a_cache_that_cannot_be_written(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    remarks: list[str] = []
    assert prepare(folder / "bin" / "app", {"XDG_CACHE_HOME": str(tmp_path / "file")}, 60, remarks.append) is None
    assert len(remarks) == 1
    assert "cannot be kept" in remarks[0]


def test_concurrent_runs_analyze_once(
    folder: Path, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    app, runs = folder / "lib" / "deep" / "libdeep.so", list[float]()
    analyze = manifests._analyze

    def counted(wanted: CudaObject, output: Path, deadline: float) -> Any:
        runs.append(time.monotonic())
        return analyze(wanted, output, deadline)

    monkeypatch.setattr(manifests, "_analyze", counted)
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: prepare(app, environment, 60, pytest.fail), range(4)))
    assert len(set(found)) == 1
    assert len(runs) == 1
    assert len(made(environment)) == 1


def test_the_cache_is_bounded(folder: Path, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifests, "CACHE_FILES", 3)
    old = manifests.cache_root(environment) / "an older analyzer"
    old.mkdir(parents=True)
    for number in range(6):
        (old / f"{number}.manifest").write_bytes(b"old")
        os.utime(old / f"{number}.manifest", (number, number))
    (old / ".killed.new").write_bytes(b"")
    os.utime(old / ".killed.new", (1, 1))
    prepare(folder / "lib" / "deep" / "libdeep.so", environment, 60, pytest.fail)
    assert len([path for path in old.parent.rglob("*") if path.is_file() and not path.name.startswith(".")]) <= 3
    assert not (old / ".killed.new").exists()
    assert len([path for path in made(environment).values() if path.parent != old]) == 1


def test_damaged_manifests_are_seen(folder: Path, environment: dict[str, str]) -> None:
    prepare(folder / "lib" / "deep" / "libdeep.so", environment, 60, pytest.fail)
    ((identity, path),) = made(environment).items()
    whole = path.read_bytes()
    assert intact(path, identity)
    assert not intact(path, "00" + identity[2:])
    assert not intact(path.with_name("nothing"), identity)
    for place in range(len(whole)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        assert not intact(path, identity)
    cache = Cache(path.parent)
    assert not cache.holds(identity)
    assert not path.exists()


def words(*options: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    run_module.command.add_arguments(parser)
    return parser.parse_args([*options, "--", "x"])


def test_when_run_makes_manifests(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = programs.Program(folder / "bin" / "app", is_elf=True)
    asked: list[float] = []
    monkeypatch.setattr(
        manifests, "prepare", lambda path, environment, seconds, remark: asked.append(seconds) or tmp_path
    )
    monkeypatch.delenv("FARLANE_MANIFESTS", raising=False)
    monkeypatch.delenv("FARLANE_ANALYZE_SECONDS", raising=False)
    chosen = run_module._manifests
    assert chosen(words(), "loops", program) == str(tmp_path)
    assert chosen(words("--analyze-seconds", "3"), "loops", program) == str(tmp_path)
    monkeypatch.setenv("FARLANE_ANALYZE_SECONDS", "4")
    assert chosen(words(), "loops", program) == str(tmp_path)
    assert asked == [manifests.SECONDS, 3, 4]
    assert chosen(words(), "calls", program) is None
    assert chosen(words("--no-manifest"), "loops", program) == "off"
    assert chosen(words(), "loops", programs.Program(Path("script"), is_elf=False)) is None
    monkeypatch.setenv("FARLANE_MANIFESTS", "/mine")
    assert chosen(words(), "loops", program) is None
    assert len(asked) == 3


def test_the_guest_is_told() -> None:
    seen = shim_library.guest_environment(
        {"FARLANE_MANIFESTS": "/mine"},
        host="unix:///s",
        mode="loops",
        runtimes=("13",),
        report=None,
        timing="throughput",
        guards=True,
    )
    assert (seen["FARLANE_MANIFESTS"], seen["FARLANE_TIMING"]) == ("/mine", "throughput")
    assert seen["FARLANE_GUARDS"] == "on"
    seen = shim_library.guest_environment(
        {}, host="unix:///s", mode="loops", runtimes=("13",), report=None, manifests="/folder"
    )
    assert seen["FARLANE_MANIFESTS"] == "/folder"
    assert not {"FARLANE_TIMING", "FARLANE_GUARDS"} & set(seen)
