"""Damaged executables: `farlane analyze --manifest` ends in bounded time with a manifest or an error, never with our
fault."""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from farlane.analyzer.commands import analyze
from farlane.analyzer.manifest import reader
from farlane.terminal import statuses

SOURCE = r"""
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
extern "C" int cudaMemset(void *, int, unsigned long); extern "C" int cudaMemcpy(void *, const void *, unsigned long, int);
extern "C" int cudaDeviceSynchronize();
int chosen(int n, char *memory) {
    switch (n) {
    case 0: return cudaMemset(memory, 1, 1); case 1: return n + 4; case 2: return cudaMemset(memory, 2, 2); case 3: return 9;
    case 4: return cudaMemset(memory, 4, 1); case 5: return n * 4; case 6: return cudaMemset(memory, 6, 2); case 7: return 7;
    }
    throw std::runtime_error("no");
}
int main(int argc, char **argv) {
    char memory[64], back[64];
    for (int i = 0; i < argc; i++) {
        try { chosen(atoi(argv[i]), memory); } catch (const std::exception &e) { puts(e.what()); }
        for (char *at = memory; at < memory + 64; at += 8) if (cudaMemset(at, i, 8)) return 1;
        if (cudaMemcpy(back, memory, 64, 2) || cudaDeviceSynchronize()) exit(1);
    }
    return back[argc];
}
"""
ROUNDS, SECONDS = 120, 2.0


@pytest.fixture(scope="module", params=["-O0", "-O2"])
def content(request: pytest.FixtureRequest, build: Callable[..., Path]) -> bytes:
    names = ("cudaMemset", "cudaMemcpy", "cudaDeviceSynchronize")
    runtime = "".join(f'extern "C" int {name}() {{ return 0; }}\n' for name in names)
    return build(SOURCE, request.param, runtime=runtime).read_bytes()


def places(content: bytes) -> list[range]:
    """The header, the table of sections, code and tables, anything."""
    headers = int.from_bytes(content[0x28:0x30], "little")
    return [range(64), range(headers, len(content)), range(0x1000, 0x3000), range(len(content)), range(0x1000, 0x3000)]


def run(*words: str) -> int:
    parser = argparse.ArgumentParser()
    analyze.command.add_arguments(parser)
    return analyze.command.run(parser.parse_args([*words]))


def test_damaged_programs(content: bytes, tmp_path: Path) -> None:
    chance = random.Random(31)
    program, output = tmp_path / "program", tmp_path / "manifest"
    made = refused = 0
    for round_ in range(ROUNDS):
        damaged = bytearray(content)
        for _ in range(chance.randint(1, 12)):
            place = chance.choice(chance.choice(places(content)))
            damaged[min(place, len(damaged) - 1)] = chance.choice(
                [0, 1, 0x7F, 0x80, 0xE8, 0xEB, 0xFF, chance.randrange(256)]
            )
        if round_ % 8 == 0:
            del damaged[chance.randrange(1, len(damaged)) :]
        program.write_bytes(damaged)
        output.unlink(missing_ok=True)
        started = time.monotonic()
        status = run("--manifest", str(output), "--seconds", str(SECONDS), str(program))
        assert status in (0, statuses.FAILED, statuses.OUT_OF_TIME), (round_, status)
        assert time.monotonic() - started < 20 * SECONDS  # generous: the machine is shared
        assert output.exists() == (status == 0)
        if status == 0:
            reader.read(output.read_bytes())
            made += 1
        else:
            refused += 1
    assert made > ROUNDS // 5
    assert refused > ROUNDS // 20


def test_memory_and_time_are_bounded(content: bytes, tmp_path: Path) -> None:
    program, output = tmp_path / "program", tmp_path / "manifest"
    command = [sys.executable, "-m", "farlane.analyzer.commands.analyze", "--manifest", str(output)]
    program.write_bytes(content + bytes(64 << 20))
    small = subprocess.run([*command, "--memory", "1", str(program)], capture_output=True, text=True, check=False)
    assert small.returncode == statuses.FAILED
    assert "too large" in small.stderr
    assert "Traceback" not in small.stderr
    program.write_bytes(content)
    late = subprocess.run(
        [*command, "--seconds", "0.0001", "--memory", "2048", str(program)], capture_output=True, check=False
    )
    assert late.returncode == statuses.OUT_OF_TIME
    assert not output.exists()
    whole = subprocess.run([*command, "--memory", "2048", str(program)], capture_output=True, text=True, check=False)
    assert (whole.returncode, whole.stderr) == (0, "")
