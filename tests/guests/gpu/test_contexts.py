"""A session on a GPU: its end, its reset, errors that come late, modules, launches without a known layout, interrupts."""

from __future__ import annotations

import json
import struct
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from driver_options import ask, left
from farlane.backend.device.base import LEGACY_STREAM, CudaError, LaunchShape
from farlane.backend.device.generated_attributes import Attribute
from farlane.backend.device.gpu import CupyDevice
from farlane.backend.device.gpu.driver.interface import Missing
from farlane.backend.device.gpu.work.repeats import Choice
from farlane.backend.device.options import DeviceOptions
from farlane.backend.device.plan import Body, Kind, Step
from farlane.backend.fatbin.joined import join

from .conftest import IMAGE, ONE, QUOTA, WatchedDriver


def test_work_of_different_streams_waits_for_nothing_else(bench: Any) -> None:
    """Issued is not done: reading one stream runs that stream's work, no other's."""
    context, base = bench.context, bench.base
    context.allocate(base, 4096)
    bench.write(base, bytes(64))
    context.synchronize()
    first, second = context.create_stream(1, 0), context.create_stream(1, 0)
    function = bench.mix()
    bench.launch(function, base, 5, first)
    bench.launch(function, base + 32, 7, second)
    assert ask("held") == "2"
    assert bench.read(base + 32, 4, second) == struct.pack("<I", 7)
    assert ask("held") == "1"
    assert not context.stream_done(first)
    assert context.stream_done(first)
    bench.launch(function, base, 1, first)
    bench.launch(function, base, 2)  # the legacy stream waits for blocking streams only
    context.synchronize()


def test_what_the_guest_has_copied_is_there_for_every_stream(bench: Any) -> None:
    """A synchronous copy is one in the legacy stream, which work of a non-blocking stream does not wait for by itself."""
    context, base, function = bench.context, bench.base, bench.mix()
    context.allocate(base, 4096)
    first, blocking = context.create_stream(1, 0), context.create_stream(0, 0)
    for number in range(1, 4):
        bench.write(base, struct.pack("<I", number))
        for value in (5, 6):
            bench.launch(function, base, value, first)
        assert bench.read(base, 4, first) == struct.pack("<I", 3 * (3 * number + 5) + 6)
        assert bench.calls("cuStreamWaitEvent") == number
    late = context.create_stream(1, 0)
    assert bench.read(base, 4, late) == struct.pack("<I", 3 * (3 * 3 + 5) + 6)
    bench.launch(function, base, 0, blocking)
    assert bench.calls("cuStreamWaitEvent") == 4


def test_a_loop_behind_a_copy(bench: Any) -> None:
    bench.context.allocate(bench.base, 4096)
    stream = bench.context.create_stream(1, 0)
    step = Step(Kind.LAUNCH, struct.pack("<QI", bench.base, 1), (), stream, bench.mix(), ONE)
    bench.write(bench.base, struct.pack("<I", 7))
    bench.context.repeat(Body((step,)), np.empty((0, 2), np.uint64), np.empty((2, 0), np.uint8))
    assert bench.read(bench.base, 4, stream) == struct.pack("<I", 9 * 7 + 4)


def test_a_fault_is_told_by_what_waits_and_lost_for_good(bench: Any) -> None:
    context, function = bench.context, bench.mix()
    bench.launch(function, 16, 1)
    bench.launch(function, 16, 1)
    for _ in range(2):
        with pytest.raises(CudaError) as caught:
            context.synchronize()
        assert (caught.value.code, caught.value.sticky) == (700, True)
    with pytest.raises(CudaError):
        bench.launch(function, 16, 1)


def test_reset_after_a_fault_is_a_new_cuda_context_and_the_same_window(bench: Any) -> None:
    context = bench.context
    context.allocate(bench.base, 8 << 20)
    bench.launch(bench.mix(), 16, 1)
    with pytest.raises(CudaError):
        context.synchronize()
    context.reset()
    assert bench.driver.counts["reset"] == 1
    assert context.window.base == bench.base
    assert {name: bench.left().get(name, 0) for name in ("windows", "memory", "modules", "pinned")} == {
        "windows": 1, "memory": 0, "modules": 0, "pinned": 0,
    }  # fmt: skip
    bench.stream = context.default_stream(1)
    context.allocate(bench.base, 4096)
    bench.write(bench.base, bytes(4))
    bench.launch(bench.mix(), bench.base, 9)
    assert bench.read(bench.base, 4) == struct.pack("<I", 9)


def test_reset_without_a_fault_keeps_the_cuda_context(bench: Any) -> None:
    bench.context.allocate(bench.base, 4096)
    bench.context.create_stream(0, 0)
    bench.mix()
    bench.context.reset()
    assert bench.driver.counts["reset"] == 0
    assert (bench.left(), bench.driver.retained) == ({"windows": 1}, 1)


def test_no_reset_where_others_use_the_cuda_context(bench: Any) -> None:
    other = bench.device.open_context(1 << 20)
    bench.launch(bench.mix(), 16, 1)
    with pytest.raises(CudaError):
        bench.context.synchronize()
    with pytest.raises(CudaError, match="other sessions use it") as caught:
        bench.context.reset()
    assert caught.value.sticky
    other.close()


def test_an_interrupted_session_launches_nothing(bench: Any) -> None:
    function = bench.mix()
    bench.context.interrupt()
    with pytest.raises(CudaError, match="interrupted"):
        bench.launch(function, 16, 1)


def test_parameters_without_a_known_layout(new_bench: Callable[..., Any]) -> None:
    """An old driver: parameters go as a buffer, whose size it checks itself."""
    bench = new_bench(tells_layout=False)
    bench.context.allocate(bench.base, 256)
    bench.write(bench.base, bytes(8))
    function = bench.mix()
    bench.launch(function, bench.base, 5)
    bench.launch(function, bench.base, 6)
    assert bench.read(bench.base, 4) == struct.pack("<I", 21)
    with pytest.raises(CudaError) as caught:
        bench.context.launch(function, ONE, memoryview(bytes(8)), bench.stream)
    assert (caught.value.code, caught.value.sticky) == (1, False)
    parameters = memoryview(struct.pack("<QI", bench.base, 1))
    bench.context.launch(function, LaunchShape((1, 1, 1), (1, 1, 1), 0, True), parameters, bench.stream)
    assert bench.read(bench.base, 4) == struct.pack("<I", 64)


def test_joined_images_are_linked_by_the_driver(bench: Any) -> None:
    other = b".version 7.5\n.target sm_75\n.address_size 64\n.visible .global .align 4 .u32 second = 7;\n"
    module = bench.context.load_module(join([IMAGE, other]))
    assert bench.driver.counts["link"] == 1
    bench.context.function(module, "mix")
    assert bench.read(*bench.context.variable(module, "second")) == struct.pack("<I", 7)


@pytest.mark.parametrize(
    "image",
    [
        b"\x7fELF" + bytes(20),
        b"\x7fELF\x02\x01" + bytes(34) + struct.pack("<QQIHHHHHH", 0, 1 << 40, 0, 64, 56, 0, 64, 9, 0)[8:],
        struct.pack("<16sHHIQQQIHHHHHH", b"\x7fELF\2\1", 2, 190, 1, 0, 0, 1 << 40, 0, 64, 56, 0, 64, 9, 0),
        struct.pack("<16sHHIQQQIHHHHHH", b"\x7fELF\2\1", 2, 190, 1, 0, 0, 64, 0, 64, 56, 0, 64, 1, 0)
        + struct.pack("<IIQQQQIIQQ", 0, 1, 0, 0, 100, 1 << 40, 0, 0, 0, 0),
        struct.pack("<IHHQ", 0xBA55ED50, 1, 16, 1 << 40) + bytes(64),
        b"FARLANEJ" + struct.pack("<IIQ", 1, 1, 1 << 40),
    ],
    ids=["short", "tables", "sections", "section", "container", "joined"],
)
def test_what_claims_more_than_is_there_never_reaches_the_driver(bench: Any, image: bytes) -> None:
    with pytest.raises(CudaError) as caught:
        bench.context.load_module(image)
    assert (caught.value.code, caught.value.sticky) == (200, False)
    assert bench.driver.counts["load_module"] == bench.driver.counts["link"] == 0


def test_unloading_ends_what_was_had_of_a_module(bench: Any) -> None:
    module = bench.context.load_module(IMAGE)
    function, (address, size) = bench.context.function(module, "mix"), bench.context.variable(module, "counter")
    assert bench.read(address, size) == struct.pack("<I", 41)
    bench.launch(function, address, 1)
    bench.context.unload_module(module)  # waits for the kernel
    for call in (lambda: bench.launch(function, 0, 0), lambda: bench.read(address, size)):
        with pytest.raises(CudaError):
            call()


def test_the_description_costs_no_context_and_what_takes_long_is_done_ahead(baseline: dict[str, int]) -> None:
    driver = WatchedDriver()
    device = CupyDevice(driver=driver)
    description = device.describe()
    assert driver.counts["retain"] == driver.counts["set_current"] == 0
    device.prepare()
    assert driver.retained == 1
    context = device.open_context(QUOTA)
    assert driver.retained == 1  # handed over, so that a reset is a reset
    context.close()
    assert driver.retained == 0
    device.prepare()
    device.close()
    assert driver.retained == 0
    assert left() == baseline
    assert not description.takes_machine_code  # Farlane's own driver takes PTX alone
    assert description.attributes[Attribute.MANAGED_MEMORY] == 0  # not forwarded


def test_a_gpu_that_is_not_there() -> None:
    with pytest.raises(Missing, match="no GPU 2: the driver shows 1"):
        CupyDevice(gpu=2, driver=WatchedDriver())


def test_output_of_kernels_is_taken_from_where_the_driver_puts_it(baseline: dict[str, int]) -> None:
    texts = [b"hello", b""]
    device = CupyDevice(driver=WatchedDriver(), output=lambda: texts.pop(0), complaints=lambda: b"Assertion")
    context = device.open_context(QUOTA)
    assert context.take_output() == (b"hello", b"Assertion")
    device.close()
    assert left() == baseline


def test_what_is_counted_is_in_the_sessions_report(new_bench: Callable[..., Any], tmp_path: Path) -> None:
    """Resets included."""
    bench = new_bench(options=DeviceOptions(reports=str(tmp_path)))
    for _ in range(2):
        bench.context.allocate(bench.base, 6 << 20)
        bench.context.repeater._choice = Choice.ON
        body = Body((Step(Kind.LAUNCH, struct.pack("<QI", bench.base, 1), (), bench.stream, bench.mix(), ONE),))
        bench.write(bench.base, bytes(4))
        bench.context.repeat(body, np.empty((0, 128), np.uint64), np.empty((128, 0), np.uint8))
        bench.context.reset()
        bench.stream = bench.context.default_stream(LEGACY_STREAM)
    bench.context.close()
    (report,) = tmp_path.iterdir()
    assert json.loads(report.read_text()) == {
        "gpu": {
            "graph_launches": 4, "graph_iterations": 256, "graphs_given_up": 0,
            "window_hints_refused": bench.context._space.hints_refused, "mapped_bytes_at_most": 6 << 20,
        },
        "plane": bench.context.direct.counts(),
    }  # fmt: skip


def test_a_thread_whose_number_was_used_before_enters_the_context(bench: Any) -> None:
    """Threads' numbers are given again; the CUDA context is each thread's own business."""
    entered = bench.driver.counts["set_current"]
    for round_ in range(1, 4):
        thread = threading.Thread(target=bench.context.synchronize)
        thread.start()
        thread.join()
        assert bench.driver.counts["set_current"] == entered + round_
    bench.context.synchronize()
    assert bench.driver.counts["set_current"] == entered + 3
