"""Executables with a manifest inside: they run, strip and read as before, and give the manifest back."""

from __future__ import annotations

import ctypes
import os
import random
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from farlane.analyzer.commands import analyze
from farlane.analyzer.limits import AnalysisError
from farlane.analyzer.loader import elf
from farlane.analyzer.manifest import embed, reader
from farlane.terminal import statuses

SOURCE = r"""
#include <cstdio>
#include <stdexcept>
extern "C" int answer() { return 42; }
int main(int argc, char **argv) {
    try { if (argc > 1) throw std::runtime_error(argv[1]); } catch (const std::exception &e) { puts(e.what()); }
    printf("%d\n", answer());
    return argc;
}
"""
BUILDS = {
    "pie": ("-O2",),
    "fixed": ("-O2", "-no-pie"),
    "static": ("-O2", "-static"),
    "debug": ("-O0", "-g"),
    "stripped": ("-O2", "-s"),
    "without build-id": ("-O2", "-Wl,--build-id=none"),
}


def run(arguments: list[str]) -> int:
    import argparse

    parser = argparse.ArgumentParser()
    analyze.command.add_arguments(parser)
    return analyze.command.run(parser.parse_args(arguments))


@pytest.mark.parametrize("kind", BUILDS)
def test_the_copy_is_the_same_program(kind: str, build: Callable[..., Path], tmp_path: Path) -> None:
    program, copy = build(SOURCE, *BUILDS[kind]), tmp_path / "copy"
    assert run(["--embed", str(copy), str(program)]) == 0
    assert stat.S_IMODE(copy.stat().st_mode) == stat.S_IMODE(program.stat().st_mode)
    for words in ([], ["thrown"]):
        was, now = (subprocess.run([path, *words], capture_output=True, check=False) for path in (program, copy))
        assert (was.returncode, was.stdout) == (now.returncode, now.stdout)
    old, new = program.read_bytes(), copy.read_bytes()
    assert old[:40] + old[48:60] + old[62:] == new[:40] + new[48:60] + new[62 : len(old)]
    manifest = embed.extract(new)
    assert manifest is not None
    assert f"{reader.read(manifest).identity.hex()}" == elf.load(program).identity.removeprefix("sha256-")
    assert elf.load(copy).identity == elf.load(program).identity
    headers = subprocess.run(["readelf", "-SWn", copy], capture_output=True, text=True, check=True)
    assert headers.stderr == ""
    assert ".note.farlane" in headers.stdout
    assert "FARLANE" in headers.stdout


@pytest.mark.parametrize("kind", ["pie", "debug"])
def test_strip_keeps_the_note(kind: str, build: Callable[..., Path], tmp_path: Path) -> None:
    program, copy = build(SOURCE, *BUILDS[kind]), tmp_path / "copy"
    assert run(["--embed", str(copy), str(program)]) == 0
    before = embed.extract(copy.read_bytes())
    done = subprocess.run(["strip", copy], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    assert embed.extract(copy.read_bytes()) == before
    assert subprocess.run([copy], capture_output=True, check=False).stdout == b"42\n"
    again = tmp_path / "again"
    assert run(["--embed", str(again), str(copy)]) == 0
    assert embed.extract(again.read_bytes()) == before
    assert subprocess.run([again], capture_output=True, check=False).stdout == b"42\n"


def test_a_shared_object(build: Callable[..., Path], tmp_path: Path) -> None:
    copy = tmp_path / "libcopy.so"
    assert run(["--embed", str(copy), str(build(SOURCE, "-O2", "-shared", "-fPIC"))]) == 0
    assert ctypes.CDLL(str(copy)).answer() == 42


def test_a_note_is_replaced(build: Callable[..., Path]) -> None:
    content = build(SOURCE, "-O2").read_bytes()
    once = embed.embed(content, b"first" * 40)
    twice = embed.embed(once, b"second")
    assert embed.extract(twice) == b"second"
    assert twice == embed.embed(content, b"second"), "nothing of the first is left"
    assert embed.embed(twice, b"first" * 40) == once
    assert embed.extract(content) is None


def test_what_cannot_be_done_is_refused(
    build: Callable[..., Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program = build(SOURCE, "-O2")
    content = bytearray(program.read_bytes())
    with pytest.raises(AnalysisError, match="appended"):
        embed.embed(bytes(content) + b"an archive", b"")
    for place, value, message in [
        (0, b"\x7fELG", "not a 64-bit"),
        (4, b"\x01", "not a 64-bit"),
        (16, b"\x01\0", "neither an executable"),
        (18, b"\x03\0", "neither an executable"),
        (40, bytes(8), "no section headers"),
        (40, b"\xff" * 7 + b"\0", "outside"),
        (58, b"\x41", "unusual"),
        (60, b"\0\0", "no section headers"),
        (60, b"\0\xff", "unusual"),
        (62, b"\xff\xff", "unusual"),
        (54, b"\x01", "unusual"),
    ]:
        damaged = content[:place] + value + content[place + len(value) :]
        with pytest.raises(AnalysisError, match=message):
            embed.embed(bytes(damaged), b"")
    assert run(["--embed", str(program), str(program)]) == 1
    assert "the program itself" in capsys.readouterr().err
    assert run(["--embed", str(tmp_path / "nowhere" / "\0"[:0] / "x"), str(tmp_path)]) == 1
    assert run(["--embed", "/proc/none/x", str(program)]) == 1
    assert "cannot write" in capsys.readouterr().err


def test_damaged_files_raise_nothing_else(build: Callable[..., Path]) -> None:
    content = embed.embed(build(SOURCE, "-O2").read_bytes(), b"manifest")
    headers = int.from_bytes(content[40:48], "little")
    chance = random.Random(4)
    refused = 0
    for _ in range(400):
        damaged = bytearray(content)
        for _ in range(chance.randint(1, 6)):
            place = chance.choice([range(64), range(64, 800), range(headers, len(content)), range(len(content))])
            damaged[chance.choice(place)] = chance.choice([0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)])
        if chance.random() < 0.2:
            del damaged[chance.randrange(len(damaged)) :]
        try:
            embed.extract(bytes(damaged))
            assert len(embed.embed(bytes(damaged), b"other")) < 2 * len(content)
        except AnalysisError:
            refused += 1
    assert refused > 100


def test_the_manifest_goes_to_a_file_or_to_the_cache(
    build: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    program = build(SOURCE, "-O2")
    assert run(["--manifest", str(tmp_path / "out"), str(program)]) == 0
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert run(["--manifest", str(program)]) == 0
    (path,) = (tmp_path / "cache").rglob("*.manifest")
    assert capsys.readouterr().out == f"{path}\n"
    assert path.read_bytes() == (tmp_path / "out").read_bytes()
    assert path.stem == elf.load(program).identity
    assert run(["--manifest", str(tmp_path / "late"), "--seconds", "0", str(program)]) == statuses.OUT_OF_TIME
    assert not (tmp_path / "late").exists()
    assert run([]) == 2
    assert os.listdir(tmp_path / "cache" / "farlane" / "manifests" / path.parent.name) == [path.name]
