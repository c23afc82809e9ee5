"""Kernels that are compiled ahead: which ones, and that they are in the disk cache when they are launched."""

from __future__ import annotations

from collections import OrderedDict
from pathlib import Path

import pytest
from farlane.backend import jit
from farlane.backend.jit.compile import ahead, cache, native
from jit_tools.instructions import HEADER
from waiting import eventually

LINE, TILE = (64, 1, 1), (8, 8, 1)


def kernel(name: str, body: str = "", bounds: str = "") -> str:
    return (
        f".visible .entry {name}(.param .u64 out) {bounds} {{ .reg .b32 %r<3>; .reg .b64 %rd<4>; mov.u32 %r1, %tid.x; "
        f"ld.param.u64 %rd1, [out]; mul.wide.u32 %rd2, %r1, 4; add.s64 %rd1, %rd1, %rd2; {body} "
        "st.global.u32 [%rd1], %r1; ret; }\n"
    )


def module(*kernels: str) -> jit.Module:
    return jit.parse_module(HEADER + "".join(kernels))


def flat(*names: str) -> list[str]:
    return [kernel(name) for name in names]


def test_those_farthest_away_come_first() -> None:
    names = list("abcdefg")
    assert ahead.candidates(module(*flat(*names)), "b", LINE) == ["g", "f", "e", "d", "a", "c"]


def test_shapes_decide() -> None:
    both = module(*flat(*"abcde"), *(kernel(name, "mov.u32 %r2, %tid.y;") for name in "vwxyz"))
    assert sorted(ahead.candidates(both, "a", LINE)) == list("bcde")
    assert sorted(ahead.candidates(both, "v", TILE)) == list("wxyz")


def test_bounds_decide() -> None:
    bounded = module(
        *flat(*"abcde"),
        kernel("small", bounds=".maxntid 32, 1, 1"),
        kernel("large", bounds=".maxntid 128, 1, 1"),
        kernel("other", bounds=".reqntid 32, 1, 1"),
        kernel("same", bounds=".reqntid 64, 1, 1"),
    )
    assert sorted(ahead.candidates(bounded, "a", LINE)) == ["b", "c", "d", "e", "large", "same"]


def test_few_kernels_many_and_long_texts_are_left_alone() -> None:
    assert ahead.candidates(module(*flat("a", "b", "c", "d")), "a", LINE) == []
    assert ahead.candidates(module(*flat(*(f"k{n}" for n in range(66)))), "k0", LINE) == []
    assert ahead.candidates(module(*flat(*"abcdef"), "\n" * ahead.MOST_TEXT), "a", LINE) == []


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FARLANE_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(jit.compile.kernels, "_compiled", OrderedDict())
    return tmp_path


def test_they_are_in_the_cache_when_they_are_launched(folder: Path) -> None:
    options, compiler = jit.Options(), ahead.Ahead()
    broken = kernel("broken", "frobnicate.u32 %r2, %r1;")
    parsed = module(*flat(*"abcde"), broken)
    compiler.begin(parsed, "a", LINE, options)
    compiler.begin(parsed, "b", LINE, options)  # the same shape again asks for nothing

    def there(name: str) -> bool:
        return cache.load(cache.key(parsed.digest, name, LINE, options, native.version())) is not None

    eventually(lambda: all(map(there, "bcde")), 60)
    assert not there("a")
    assert not there("broken")
    eventually(lambda: compiler._threads == 0, 10)  # its processes have ended, too
    found = jit.ready(parsed, "e", LINE, options)
    assert found is not None
    assert found.info.cached == "disk"


def test_without_a_disk_cache_nothing_is_compiled_ahead(folder: Path) -> None:
    compiler = ahead.Ahead()
    compiler.begin(module(*flat(*"abcdef")), "a", LINE, jit.Options(cache=False))
    assert compiler._threads == 0
