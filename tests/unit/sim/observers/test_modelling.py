"""Sessions under the model of the memory system: what the device tells it, and the files at the end."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from farlane.backend.device.base import CudaError
from farlane.backend.device.options import DeviceOptions
from farlane.backend.device.sim import SimDevice
from farlane.backend.device.sim.options import Oversubscription, Settings
from farlane.backend.memory.config import ConfigError
from farlane.backend.memory.cores.trace import TraceReader
from sim_program import Program, pack

SMALL = """
[tlb]
cores = 4
[tlb.network]
columns = 2
"""


@pytest.fixture
def open_session(tmp_path: Path) -> Iterator[Callable[..., Program]]:
    """Sessions on a device of their own; `threads` and fields of Settings may be given."""
    devices = []

    def make(threads: int = 2, **wanted: Any) -> Program:
        (tmp_path / "memory.toml").write_text(SMALL)
        settings = Settings(str(tmp_path / "memory.toml"), str(tmp_path / "report.json"), **wanted)
        device = SimDevice(threads=threads, model=settings)
        devices.append(device)
        return Program(device)

    yield make
    for device in devices:
        device.close()


def report(path: Path, name: str = "report.json") -> dict[str, Any]:
    found: dict[str, Any] = json.loads((path / name).read_text())
    return found


def work(program: Program, blocks: int = 64) -> None:
    """Doubles an array, block by block of 64 threads, and reads it back."""
    values = np.arange(blocks * 64, dtype="f4")
    data = program.allocate(values.nbytes, values.tobytes())
    function = program.context.function(program.module, "scale")
    for _ in range(2):
        program.launch("scale", data.to_bytes(8, "little") + values.size.to_bytes(4, "little"), grid=blocks, block=64)
    assert function.name == "scale"
    program.read(data, values.nbytes)


@pytest.mark.parametrize("tlb", [False])
def test_what_kernels_touch_is_counted(open_session: Callable[..., Program], tmp_path: Path, tlb: bool) -> None:
    program = open_session(tlb=tlb, trace=str(tmp_path / "t.zip"), accesses=str(tmp_path / "a.json"))
    work(program)
    program.context.close()
    found = report(tmp_path)
    (kernel,) = found["kernels"]
    # Each warp loads and stores 32 floats: 128 warps, two requests each, two launches.
    assert (kernel["name"], kernel["launches"], kernel["blocks"], kernel["requests"]) == ("scale", 2, 128, 512)
    assert found["pages"] == 4
    assert len(found["groups"]) == 2
    with TraceReader(tmp_path / "t.zip") as reader:
        assert [group.requests for group in reader.groups] == [256, 256]
        stream = next(reader.windows(0))
        pages, counts = np.unique(stream.page, return_counts=True)
        assert counts.tolist() == [64] * 4
        assert np.array_equal(np.diff(pages), [1, 1, 1])
    plan = report(tmp_path, "a.json")
    assert [item["bytes"] for item in plan["objects"]] == [64 * 64 * 4]
    assert plan["steps"] == [[[0, "w"]], [[0, "rw"]], [[0, "rw"]], [[0, "r"]]]


def test_any_number_of_threads_gives_the_same(open_session: Callable[..., Program], tmp_path: Path) -> None:
    found = []
    for threads in (1, 2):
        program = open_session(threads, trace=str(tmp_path / f"{threads}.zip"))
        work(program, 256)
        program.context.close()
        values = report(tmp_path)
        del values["seconds"]
        found.append(values)
    assert found[0] == found[1]
    assert found[0]["total"]["requests"] == 2048
    assert found[0]["total"]["faults"] == 0  # the walkers read the session's own page table
    first, second = (TraceReader(tmp_path / f"{threads}.zip") for threads in (1, 2))
    for group in range(2):
        for one, other in zip(first.windows(group), second.windows(group), strict=True):
            base = one.page.min() - other.page.min()  # each session has a window of its own
            assert np.array_equal(one.page - base, other.page)
            assert np.array_equal(one.gap, other.gap)
            assert np.array_equal(one.offsets, other.offsets)
    first.close()
    second.close()


def test_what_moves_is_in_the_report(tmp_path: Path) -> None:
    """With less device memory than the data the model sees the same requests, and the report says what has moved."""
    found, outputs = [], []
    for memory in (None, 4 << 20):
        wanted = Settings(str(tmp_path / "memory.toml"), str(tmp_path / "report.json"), tlb=False)
        (tmp_path / "memory.toml").write_text(SMALL)
        managed = None if memory is None else Oversubscription(memory)
        device = SimDevice(threads=1, model=wanted, oversubscription=managed)
        program = Program(device)
        values = np.arange(1 << 19, dtype="f4")  # 2 MiB each
        arrays = [program.allocate(values.nbytes, values.tobytes()) for _ in range(3)]
        for data in arrays * 2:
            program.launch("scale", pack("QI", data, values.size), grid=values.size // 256, block=256)
        outputs.append([program.read(data, values.nbytes) for data in arrays])
        program.context.close()
        device.close()
        found.append(report(tmp_path))
    plain, moved = found
    assert outputs[0] == outputs[1]
    assert plain["migration"] == {}
    (counts,) = moved["migration"].values()
    assert counts["bytes_in"] > 0
    assert [row["requests"] for row in moved["groups"]] == [row["requests"] for row in plain["groups"]]


def test_a_launch_that_fails_is_left_out(open_session: Callable[..., Program], tmp_path: Path) -> None:
    program = open_session(tlb=False)
    with pytest.raises(CudaError):
        program.launch("scale", (8).to_bytes(8, "little") + (64).to_bytes(4, "little"), block=64)
    program.context.close()
    assert report(tmp_path)["groups"] == []


def test_every_session_has_its_files(open_session: Callable[..., Program], tmp_path: Path) -> None:
    program = open_session(tlb=False)
    other = Program(program_device(program))
    work(other, 1)
    program.context.close()
    other.context.close()
    assert report(tmp_path)["groups"] == []
    assert len(report(tmp_path, "report.2.json")["groups"]) == 2


def program_device(program: Program) -> SimDevice:
    device = program.context._on_close.__self__  # type: ignore[attr-defined]
    assert isinstance(device, SimDevice)
    return device


def test_wrong_settings_are_errors(tmp_path: Path) -> None:
    path = tmp_path / "wrong.toml"
    path.write_text("[tlb.private]\nentires = 1\n")
    with pytest.raises(ConfigError, match="entires"):
        SimDevice(model=Settings(str(path), ""))
    (tmp_path / "settings.json").write_text('{"memory": "mgpusim"}')
    with pytest.raises(ValueError, match=r"settings\.json"):
        SimDevice(DeviceOptions(model=str(tmp_path / "settings.json")))
