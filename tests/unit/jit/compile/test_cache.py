"""The disk cache and the interface's structures."""

from __future__ import annotations

import platform
import struct
import subprocess
import sys
from collections import OrderedDict
from pathlib import Path

import numpy as np
import pytest
from farlane.backend import jit
from farlane.backend.jit.compile import cache, kernels
from farlane.backend.system import files, flat
from jit_tools.device import TinyDevice
from jit_tools.instructions import HEADER

TEXT = (
    HEADER
    + """
.visible .entry k(.param .u64 out) { .reg .b32 %r<3>; .reg .b64 %rd<4>; mov.u32 %r1, %tid.x; ld.param.u64 %rd1, [out]; mul.wide.u32 %rd2, %r1, 4;
add.s64 %rd1, %rd1, %rd2; add.u32 %r1, %r1, NUMBER; st.global.u32 [%rd1], %r1; ret; }
"""
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FARLANE_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(kernels, "_compiled", OrderedDict())
    return tmp_path / "jit"


def forget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "_compiled", OrderedDict())


def launch(device: TinyDevice, number: int, block: int = 32) -> str:
    module = device.load(TEXT.replace("NUMBER", str(number)))
    out = device.allocate(4 * block)
    assert device.launch(module, "k", 1, block, [out], options=jit.Options()) == 0
    assert np.array_equal(device.download(out, "u4", block), np.arange(block) + number)
    return device.kernel.info.cached


def test_second_process_finds_the_kernel(device: TinyDevice, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert launch(device, 1) == "no"
    assert len(list(folder.iterdir())) == 1
    assert folder.stat().st_mode & 0o777 == 0o700
    first = device.kernel
    launch(device, 1)
    assert device.kernel is first
    forget(monkeypatch)
    assert launch(device, 1) == "disk"
    assert launch(device, 1, 64) == "no"
    assert launch(device, 2) == "no"


def test_loaded_kernels_are_bounded(device: TinyDevice, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "MAX_LOADED", 2)
    for number in (1, 2, 3, 1):
        launch(device, number)
    assert device.kernel.info.cached == "disk", "the oldest was dropped"
    reloaded = device.kernel
    launch(device, 3)
    launch(device, 1)
    assert device.kernel is reloaded, "two are kept"


def test_damaged_entries_are_recompiled(device: TinyDevice, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    launch(device, 3)
    (entry,) = folder.iterdir()
    good = entry.read_bytes()
    for bad in (
        b"",
        good[:20],
        good[:-1],
        good[:60] + b"\xff" + good[61:],
        good[:-5] + bytes([good[-5] ^ 1]) + good[-4:],
        good + b"x",
    ):
        entry.write_bytes(bad)
        forget(monkeypatch)
        assert launch(device, 3) == "no"
        forget(monkeypatch)
        assert launch(device, 3) == "disk"


def test_code_is_kept_linked(device: TinyDevice, folder: Path) -> None:
    launch(device, 5)
    (entry,) = folder.iterdir()
    stored = cache.load(entry.name)
    assert stored is not None
    assert stored[1].startswith(flat.MAGIC if platform.machine() == "x86_64" else b"\x7fELF")


def test_images_that_cannot_be_loaded_are_recompiled(
    device: TinyDevice, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whose checksum is right: written by something else, or naming a function that this process does not have."""
    launch(device, 6)
    (entry,) = folder.iterdir()
    stored = cache.load(entry.name)
    assert stored is not None
    missing = struct.pack("<8sIIIII", flat.MAGIC, 64, 0, 0, 1, 7) + struct.pack("<I", 8) + b"no_such" + bytes(64)
    for image in (flat.MAGIC, flat.MAGIC + bytes(20), flat.MAGIC + b"\xff" * 40, stored[1][:-1], missing):
        cache.save(entry.name, stored[0], image)
        forget(monkeypatch)
        assert launch(device, 6) == "no"
        forget(monkeypatch)
        assert launch(device, 6) == "disk"


def test_an_unusable_folder_is_no_error(device: TinyDevice, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("FARLANE_CACHE_DIR", str(tmp_path / "file"))
    forget(monkeypatch)
    assert launch(device, 4) == "no"


def test_pruning_removes_the_oldest(tmp_path: Path) -> None:
    import os

    for index in range(6):
        path = tmp_path / str(index)
        path.write_bytes(bytes(100))
        os.utime(path, (index, index))
    files.prune(tmp_path, 250)
    assert sorted(item.name for item in tmp_path.iterdir()) == ["4", "5"]


def test_a_process_whose_sources_were_replaced_keeps_nothing(
    device: TinyDevice, folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    cache.unchanged.cache_clear()
    monkeypatch.setattr(cache, "_digest", lambda: b"of an upgrade")
    try:
        assert (launch(device, 21), launch(device, 22)) == ("no", "no")
        assert not folder.exists()
        assert [record.getMessage() for record in caplog.records] == [
            "Farlane's files have changed since this process started: what it compiles is not kept on disk"
        ]
    finally:
        cache.unchanged.cache_clear()


def test_the_translator_is_not_loaded_before_a_kernel_is_compiled(folder: Path) -> None:
    """It is a third of what a host would import, and the cache may know all kernels."""
    program = """
import sys
from pathlib import Path
from farlane.backend import jit
module = jit.parse_module(Path(sys.argv[1]).read_text())
before = sorted(name for name in sys.modules if ".families" in name)
jit.compile_kernel(module, "k", (32, 1, 1))
print(before, sorted(name for name in sys.modules if ".families" in name) != [])
"""
    source = folder.parent / "k.ptx"
    source.write_text(TEXT.replace("NUMBER", "1"))
    done = subprocess.run([sys.executable, "-c", program, source], capture_output=True, text=True, check=True)
    assert done.stdout == "[] True\n"
