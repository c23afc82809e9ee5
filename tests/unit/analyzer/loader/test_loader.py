"""Loading executables: names, bounds, imports, landing pads, identity; damaged files."""

from __future__ import annotations

import random
import subprocess
from collections.abc import Callable
from pathlib import Path

import fuzzing
import pytest
from farlane.analyzer.limits import AnalysisError
from farlane.analyzer.loader import elf, lines

SOURCE = r"""
#include <cstdio>
#include <stdexcept>
extern "C" __attribute__((noinline)) int work(int n) { if (n > 5) throw std::runtime_error("no"); return n * 3; }
extern "C" __attribute__((noinline)) int guarded(int n) { try { return work(n); } catch (const std::exception &e) { puts(e.what()); return -1; } }
int main(int argc, char **) { printf("%d\n", guarded(argc)); return 0; }
"""

OPTIONS = [
    ("-O2",),
    ("-O0",),
    ("-O2", "-no-pie"),
    ("-O2", "-fno-plt"),
    ("-O2", "-fcf-protection=full", "-Wl,-z,ibtplt"),
    ("-O2", "-shared", "-fPIC"),
]


@pytest.mark.parametrize("options", OPTIONS, ids=" ".join)
def test_functions_and_imports(build: Callable[..., Path], options: tuple[str, ...]) -> None:
    image = elf.load(build(SOURCE, *options))
    names = {function.name for function in image.functions}
    assert {"work", "guarded", "main"} <= names
    imported = set(image.stubs.values()) | set(image.slots.values())
    assert {"puts", "printf", "__cxa_throw"} <= imported
    if "-fno-plt" not in options:
        assert {"puts", "printf"} <= set(image.stubs.values())
    pads = [pad for function in image.functions for pad in function.landing_pads if function.name.startswith("guarded")]
    assert pads
    assert all(image.function_at(pad) is not None and start < end for start, end, pad in pads)
    for earlier, later in zip(image.functions, image.functions[1:], strict=False):
        assert earlier.end <= later.start


def test_stripped_has_the_same_bounds(build: Callable[..., Path], tmp_path: Path) -> None:
    program = build(SOURCE, "-O2")
    stripped = tmp_path / "stripped"
    subprocess.run(["strip", "-o", stripped, program], check=True)
    whole, bare = elf.load(program), elf.load(stripped)
    assert bare.stripped
    assert not whole.stripped
    assert whole.identity == bare.identity
    bounds = {(function.start, function.end, function.landing_pads) for function in whole.functions}
    assert {(function.start, function.end, function.landing_pads) for function in bare.functions} <= bounds
    assert {"work", "guarded", "main"} <= {
        function.name for function in whole.functions if bare.function_at(function.start) is not None
    }


def test_a_content_hash_stands_in_for_a_missing_build_id(build: Callable[..., Path]) -> None:
    with_id = elf.load(build(SOURCE, "-O2", "-Wl,--build-id=0x0123456789abcdef"))
    assert with_id.identity == "0123456789abcdef"
    first = elf.load(build(SOURCE, "-O2", "-Wl,--build-id=none"))
    second = elf.load(build(SOURCE, "-O1", "-Wl,--build-id=none"))
    assert first.identity.startswith("sha256-")
    assert first.identity != second.identity


def test_constants_and_strings(build: Callable[..., Path]) -> None:
    source = 'extern "C" { extern const int table[3]; const int table[3] = {7, 8, 9}; int changing = 5; } int main() { return changing; }'
    image = elf.load(build(source, "-O0"))
    rodata = next(segment for segment in image.segments if segment.name == ".rodata")
    at = rodata.start + rodata.data.index((7).to_bytes(4, "little"))
    assert image.constant(at + 4, 4) == 8
    data = next(segment for segment in image.segments if segment.name == ".data")
    at = data.start + data.data.index((5).to_bytes(4, "little"))
    assert image.constant(at, 4) is None
    assert image.constant(rodata.end - 1, 4) is None


def test_lines(build: Callable[..., Path]) -> None:
    program = build(SOURCE, "-O0", "-g")
    main = next(function for function in elf.load(program).functions if function.name == "main")
    assert lines.read(program).at(main.start).endswith(":6")
    assert lines.read(build(SOURCE, "-O0")).at(main.start) == ""


@pytest.mark.parametrize("content", [b"", b"\x7fELF", b"#!/bin/sh\n", b"\x7fELF\x01" + bytes(60), bytes(4096)])
def test_what_is_no_executable_is_refused(content: bytes) -> None:
    with pytest.raises(AnalysisError):
        elf.load_bytes(content, "file")


def test_a_missing_file_and_a_folder_are_refused(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "nothing"):
        with pytest.raises(AnalysisError, match="not a file"):
            elf.load(path)


def test_damaged_files_raise_nothing_else(build: Callable[..., Path]) -> None:
    content = build(SOURCE, "-O2").read_bytes()
    image = elf.load_bytes(content, "whole")
    headers = int.from_bytes(content[0x28:0x30], "little")
    chance = random.Random(20)
    tables = [segment.name for segment in image.segments if segment.name in (".eh_frame", ".gcc_except_table")]
    assert len(tables) == 2
    refused = 0
    rounds = fuzzing.inputs(160)
    for round_ in range(rounds):
        damaged = bytearray(content)
        for _ in range(chance.randint(1, 8)):
            place = chance.choice([range(64), range(headers, len(content)), range(len(content))])
            damaged[chance.choice(place)] = chance.choice([0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)])
        if round_ % 4 == 0:
            del damaged[chance.randrange(len(damaged)) :]
        try:
            elf.load_bytes(bytes(damaged), "damaged")
        except AnalysisError:
            refused += 1
    assert refused > rounds // 8
