"""The null device keeps the books that the contract asks for; registry; attributes."""

from __future__ import annotations

import itertools
import sys
import types

import pytest
from farlane.backend.device import registry
from farlane.backend.device.base import CudaError, LaunchShape, Rows
from farlane.backend.device.generated_attributes import Attribute
from farlane.backend.device.null import NullContext, NullDevice
from farlane.backend.device.specification import Specification, attributes

KIB = 1 << 10


@pytest.fixture
def context() -> NullContext:
    return NullDevice().open_context(1 << 20)


def code(error: pytest.ExceptionInfo[CudaError]) -> int:
    assert not error.value.sticky
    return error.value.code


class TestAllocations:
    def test_disjoint(self, context: NullContext) -> None:
        base = context.window.base
        context.allocate(base + 4 * KIB, 4 * KIB)
        for address, size in [(4, 4), (0, 5), (7, 1), (4, 1), (0, 64), (5, 1)]:
            with pytest.raises(CudaError) as error:
                context.allocate(base + address * KIB, size * KIB)
            assert code(error) == 1
        context.allocate(base, 4 * KIB)
        context.allocate(base + 8 * KIB, 4 * KIB)
        context.free(base + 4 * KIB)
        context.allocate(base + 5 * KIB, KIB)
        assert context.allocations == 3

    def test_outside_the_window(self, context: NullContext) -> None:
        end = context.window.base + context.window.size
        for address, size in [(context.window.base - 256, 256), (end, 256), (end - 256, 512), (0, 256), (2**63, 256)]:
            with pytest.raises(CudaError) as error:
                context.allocate(address, size)
            assert code(error) == 1
        context.allocate(end - 256, 256)

    @pytest.mark.parametrize(("offset", "size"), [(0, 0), (1, 256), (128, 256)])
    def test_malformed(self, context: NullContext, offset: int, size: int) -> None:
        with pytest.raises(CudaError) as error:
            context.allocate(context.window.base + offset, size)
        assert code(error) == 1

    def test_quota(self, context: NullContext) -> None:
        base = context.window.base
        context.allocate(base, 1 << 20)
        with pytest.raises(CudaError) as error:
            context.allocate(base + (1 << 20), 1)
        assert code(error) == 2
        context.free(base)
        context.allocate(base + (1 << 20), 1 << 20)

    def test_free_needs_the_start(self, context: NullContext) -> None:
        context.allocate(context.window.base, KIB)
        for address in (context.window.base + 256, context.window.base - 256, 0):
            with pytest.raises(CudaError) as error:
                context.free(address)
            assert code(error) == 1
        context.free(context.window.base)
        with pytest.raises(CudaError):
            context.free(context.window.base)

    def test_reset(self, context: NullContext) -> None:
        context.allocate(context.window.base, 1 << 20)
        context.reset()
        context.allocate(context.window.base, 1 << 20)


class TestRanges:
    def test_reads_are_zeros_of_the_right_length(self, context: NullContext) -> None:
        context.room.set_quota(1 << 30)
        context.allocate(context.window.base, 3 << 20)
        pieces = list(context.read(Rows(context.window.base + 5, 0, (5 << 19) + 1, 1), None))
        assert all(len(piece) <= 1 << 20 for piece in pieces)
        assert b"".join(pieces) == bytes((5 << 19) + 1)

    def test_all_of_it_must_be_allocated(self, context: NullContext) -> None:
        base = context.window.base
        context.allocate(base, KIB)
        context.allocate(base + KIB, KIB)
        inside = Rows(base, 100, 24, 11)
        outside = [
            Rows(base, 100, 24, 12),
            Rows(base + KIB - 1, 0, 2, 1),
            Rows(base - 1, 0, 1, 1),
            Rows(7, 0, 1, 1),
        ]
        context.set(inside, 0, 1, None)
        context.write(inside, memoryview(bytes(24 * 11)), None)
        context.copy(inside, inside, None)
        for rows in outside:
            for use in (
                lambda rows: context.set(rows, 0, 1, None),
                lambda rows: context.write(rows, memoryview(b""), None),
                lambda rows: context.read(rows, None),
                lambda rows: context.copy(rows, inside, None),
                lambda rows: context.copy(inside, rows, None),
            ):
                with pytest.raises(CudaError) as error:
                    use(rows)
                assert code(error) == 1


class TestModules:
    def test_variables_have_addresses_of_their_own(self, context: NullContext) -> None:
        first, second = context.load_module(b"a"), context.load_module(b"a")
        places = [context.variable(module, name) for module in (first, second) for name in ("x", "y")]
        starts = sorted(address for address, _ in places)
        assert all(high - low >= 1 << 32 for low, high in itertools.pairwise(starts))
        assert starts[0] >= context.window.base + context.window.size
        assert context.variable(first, "x") == places[0]
        context.set(Rows(starts[0] + (1 << 32) - 8, 0, 8, 1), 0, 1, None)
        context.unload_module(first)
        with pytest.raises(CudaError):
            context.set(Rows(places[0][0], 0, 8, 1), 0, 1, None)
        context.set(Rows(places[2][0], 0, 8, 1), 0, 1, None)

    def test_launches_are_counted(self, context: NullContext) -> None:
        function = context.function(context.load_module(b"a"), "k")
        shape = LaunchShape((1, 1, 1), (1, 1, 1), 0)
        context.launch(function, shape, memoryview(b""), None)
        context.launch_from(function, shape, memoryview(b"abc"), 0, 3, None)
        assert context.launches == 2


def test_events(context: NullContext) -> None:
    start, end, untimed = context.create_event(0), context.create_event(0), context.create_event(2)
    with pytest.raises(CudaError) as error:
        context.elapsed_ms(start, end)
    assert code(error) == 400
    for event in (start, end, untimed):
        context.record_event(event, context.default_stream(1), 0)
    assert 0 <= context.elapsed_ms(start, end) < 60_000
    with pytest.raises(CudaError):
        context.elapsed_ms(start, untimed)


def test_windows_of_sessions_are_apart() -> None:
    device = NullDevice()
    windows = sorted(device.open_context(1).window.base for _ in range(100))
    size = device.open_context(1).window.size
    assert all(high - low >= 2 * size for low, high in itertools.pairwise(windows))
    assert windows[0] >= 1 << 47, "above every host pointer"
    assert windows[-1] + 2 * size < 1 << 63


class TestAttributes:
    def test_every_one_has_a_value(self) -> None:
        values = attributes(Specification())
        assert set(values) == {int(attribute) for attribute in Attribute}
        assert all(type(key) is int and -(2**31) <= value < 2**31 for key, value in values.items())

    def test_the_ones_that_programs_ask_for(self) -> None:
        values = attributes(Specification(multiprocessors=12, compute_capability=(8, 6)))
        assert values[Attribute.MULTIPROCESSOR_COUNT] == 12
        assert (values[75], values[76]) == (8, 6)
        assert (values[1], values[10], values[8], values[97]) == (1024, 32, 49152, 99 << 10)

    def test_agrees_with_the_description(self) -> None:
        description = NullDevice().describe()
        assert len(description.uuid) == 16
        assert description.compute_capability == (description.attributes[75], description.attributes[76])


class TestRegistry:
    def test_null(self) -> None:
        assert isinstance(registry.open_device("null"), NullDevice)

    def test_unknown(self) -> None:
        with pytest.raises(registry.DeviceUnavailable, match=r"no device 'gpu'.*null, sim, cupy"):
            registry.open_device("gpu")

    def test_missing_package(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(registry.ENTRIES, "other", registry.Entry("no_such_package.device", "Device", ""))
        with pytest.raises(registry.DeviceUnavailable, match="no_such_package"):
            registry.open_device("other")

    @pytest.mark.parametrize(
        ("content", "message"),
        [({}, "not in this installation"), ({"Device": lambda: 1 // 0}, "cannot be opened"), ({"Device": list}, "is not a device")],
    )  # fmt: skip
    def test_broken(self, monkeypatch: pytest.MonkeyPatch, content: dict[str, object], message: str) -> None:
        module = types.ModuleType("broken_device")
        vars(module).update(content)
        monkeypatch.setitem(sys.modules, "broken_device", module)
        monkeypatch.setitem(registry.ENTRIES, "broken", registry.Entry("broken_device", "Device", ""))
        with pytest.raises(registry.DeviceUnavailable, match=message):
            registry.open_device("broken")
