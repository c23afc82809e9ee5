"""Sessions of a GPU that are saved and restored: what comes back, at which addresses, what is refused, and that nothing is left."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest
from driver_options import left
from farlane.backend.commands import session as command
from farlane.backend.device.base import CudaError, Device, Rows, Window
from farlane.backend.device.gpu import CupyDevice
from farlane.backend.device.gpu.driver.cuda import CudaDriver
from farlane.backend.device.gpu.work.modules import uses
from farlane.backend.device.objects import ChannelKind, ObjectDescription, Resource, Texels
from farlane.backend.device.saved import SavedContext, Unsaveable
from farlane.backend.handlers.generated_operations import encode
from farlane.backend.objects.images import digest_of
from farlane.v1 import session_pb2 as pb
from kernels import MIX
from saving_host import Guest, save, serving, write
from waiting import eventually

PAGE = 4096
DISABLE_TIMING = 2  # of cudaEventCreateWithFlags
STACK_SIZE = 0  # cudaLimit
MAX_DYNAMIC_SHARED = 8  # cudaFuncAttribute
IMAGE = MIX + b"\0"


def opened() -> Device:
    return CupyDevice(driver=CudaDriver())


def launch(word: int, value: int, stream: int) -> bytes:
    return encode("LAUNCH", 16, 1, 1, 1, 1, 1, 1, stream, 0, 12, tail=struct.pack("<QI", word, value))


def filled(served: Any) -> Guest:
    """A session with memory, a module, a stream that waits for no other, an event, a loop, and a payload."""
    guest = Guest(served)
    base, digest = guest.base, digest_of(IMAGE)
    body = launch(base + PAGE, 7, 16)
    guest.does(
        encode("ALLOCATE", base, 3 * PAGE + 100),
        encode("ALLOCATE", base + (8 << 20), 64),
        encode("ALLOCATE", base + (16 << 20), 3 << 20),
        write(base, bytes(range(256)) * 16),
        write(base + PAGE, struct.pack("<I", 1)),
        write(base + 3 * PAGE, b"x" * 100),
        write(base + (17 << 20), b"far"),
        encode("STREAM_CREATE", 16, 1, 0, 0),
        encode("EVENT_CREATE", 16, DISABLE_TIMING),
        encode("EVENT_CREATE", 17, 0),
        encode("EVENT_RECORD", 16, 16, 0, 0),
        encode("MODULE_BEGIN", len(IMAGE), digest),
        encode("MODULE_CHUNK", len(IMAGE), 0, tail=IMAGE),
        encode("MODULE_END", digest),
        encode("MODULE_OPEN", 16, 0, digest),
        encode("FUNCTION_OPEN", 16, 16, 3, 0, tail=b"mix"),
        encode("PAYLOAD_KEEP", 3, 4, 4, 0, tail=b"kept"),
        encode("TEMPLATE", 5, 0, len(body), 0, tail=body),
        encode("REPEAT", 5, 0, 2),
    )
    return guest


def elapsed(guest: Guest, start: int, end: int) -> float:
    """Milliseconds."""
    results = guest.does(encode("EVENT_ELAPSED", start, end, 1, 0)).results
    assert struct.unpack_from("<i", results, 12) == (0,)
    found: float = struct.unpack_from("<f", results, 16)[0]
    return found


def value_of(guest: Guest) -> int:
    guest.does(encode("STREAM_SYNCHRONIZE", 16, 1))
    found: int = struct.unpack("<I", guest.read(guest.base + PAGE, 4))[0]
    return found


def test_a_restored_session_has_all_that_it_had(baseline: dict[str, int], tmp_path: Path) -> None:
    saved = tmp_path / "saved"
    with serving(tmp_path, "first", open_device=opened) as first:
        guest = filled(first)
        # What was issued last still runs when the session pauses: streams are late.
        guest.does(launch(guest.base + PAGE, 5, 16))
        guest.does(encode("EVENT_CREATE", 18, 0), encode("EVENT_CREATE", 19, 0), encode("EVENT_RECORD", 18, 1, 0, 0))
        guest.does(encode("EVENT_RECORD", 19, 1, 0, 0), encode("EVENT_SYNCHRONIZE", 19, 1))
        between = elapsed(guest, 18, 19)
        figures = save(first, "s1", saved, leave=True)
        assert (figures.pages, figures.sent) == (4, 4), "no page of zeros"
        eventually(lambda: not first.host.sessions)
    assert {
        name: count - baseline.get(name, 0) for name, count in left().items() if count != baseline.get(name, 0)
    } == {}
    with serving(tmp_path, "second", (saved,), open_device=opened) as second:
        guest.comes_again(second)
        assert value_of(guest) == ((1 * 3 + 7) * 3 + 7) * 3 + 5 == 116
        assert guest.read(guest.base, PAGE) == bytes(range(256)) * 16
        assert guest.read(guest.base + 2 * PAGE, PAGE + 100) == bytes(PAGE) + b"x" * 100
        assert guest.read(guest.base + (8 << 20), 64) == bytes(64)
        assert guest.read(guest.base + (17 << 20), 5) == b"far\0\0"
        guest.does(
            encode("EVENT_RECORD", 17, 16, 0, 0),
            encode("STREAM_WAIT_EVENT", 16, 16),
            encode("REPEAT", 5, 0, 1),
            launch(guest.base + PAGE, 1, 16),
            encode("WRITE_KEPT", guest.base + 16, 4, 4, 1, 16, 3),
            encode("FREE", guest.base + (8 << 20)),
            encode("ALLOCATE", guest.base + (8 << 20), 128),
        )
        assert value_of(guest) == (116 * 3 + 7) * 3 + 1
        assert guest.read(guest.base + 16, 4) == b"kept"
        # Two events of before; one of before and one of now; two of now, which the driver knows.
        assert elapsed(guest, 18, 19) == pytest.approx(between, abs=0.1)
        assert 0 < elapsed(guest, 18, 17) < 600_000
        assert elapsed(guest, 17, 18) < 0
        guest.does(encode("EVENT_RECORD", 18, 1, 0, 0), encode("EVENT_SYNCHRONIZE", 18, 1))
        assert 0 <= elapsed(guest, 17, 18) < 600_000
        # The next save writes what has changed: two pages.
        again = save(second, "s1", saved)
        assert (again.pages, again.sent) == (4, 2)
        assert value_of(guest) == 1066
        guest.wire.send(goodbye=pb.Goodbye())
        eventually(lambda: not second.host.sessions)


def test_a_session_is_not_restored_where_its_addresses_are_in_use(baseline: dict[str, int], tmp_path: Path) -> None:
    saved = tmp_path / "saved"
    with serving(tmp_path, "first", open_device=opened) as first:
        guest = filled(first)
        save(first, "s1", saved, leave=True)
        eventually(lambda: not first.host.sessions)
        other = Guest(first)
        assert other.base == guest.base
        with pytest.raises(command.Failed, match=f"addresses, from {guest.base:#x} on, are in use at this host"):
            command.restore(first.url, saved)
        other.does(encode("ALLOCATE", other.base, 64))
        other.wire.send(goodbye=pb.Goodbye())
        eventually(lambda: not first.host.sessions)
        command.restore(first.url, saved)
        guest.comes_again(first)
        assert value_of(guest) == (1 * 3 + 7) * 3 + 7
        guest.wire.send(goodbye=pb.Goodbye())
        eventually(lambda: not first.host.sessions)


def test_a_session_goes_to_no_device_of_another_kind(baseline: dict[str, int], tmp_path: Path) -> None:
    with serving(tmp_path, "first", open_device=opened) as first:
        filled(first)
        save(first, "s1", tmp_path / "saved", leave=True)
    with (
        pytest.raises(Unsaveable, match="its device is of the kind 'cupy', and this host's of the kind 'sim'"),
        serving(tmp_path, "second", (tmp_path / "saved",)),
    ):
        pass


def test_what_the_driver_keeps_is_refused(bench: Any) -> None:
    context = bench.context
    assert context.save().allocations == []
    module = context.load_module(IMAGE.replace(b"// word", b".global .u32 counter = 40;\n// word"))
    with pytest.raises(Unsaveable, match="variables, or kernels that allocate memory"):
        context.save()
    context.unload_module(module)
    context.set_limit(STACK_SIZE, 2048)
    assert context.save().limits == {STACK_SIZE: 2048}
    function = context.function(context.load_module(IMAGE), "mix")
    context.set_function_attribute(function, MAX_DYNAMIC_SHARED, 4096)
    assert function.max_dynamic_shared == 4096
    context.allocate(bench.base, 512 * 6)
    texels = Texels(Resource.ARRAY, bench.base, (20, 6, 1), 512, 512 * 6, 4, 1, ChannelKind.FLOAT, (20, 6, 0), 2)
    surface = context.create_object(ObjectDescription(texels, None))
    with pytest.raises(Unsaveable, match="arrays, textures or surfaces"):
        context.save()
    context.destroy_object(surface, surface=True)
    with pytest.raises(Unsaveable, match="arrays, textures or surfaces"):
        context.save()
    context.free(bench.base)
    assert context.save().allocations == []


def test_an_error_that_comes_late_is_refused_and_stays_the_session_s(bench: Any) -> None:
    function = bench.context.function(bench.context.load_module(IMAGE), "mix")
    bench.launch(function, bench.base + (1 << 30), 1)
    with pytest.raises(Unsaveable, match="its context is lost by an error"):
        bench.context.save()
    with pytest.raises(CudaError) as caught:
        bench.context.synchronize()
    assert (caught.value.code, caught.value.sticky) == (700, True)


@pytest.mark.parametrize(
    ("code", "keeps"),
    [
        (IMAGE, False),
        (b"\t.global .u32 counter = 40;\n" + IMAGE, True),
        (b".visible .const .align 4 .b8 table[16];" + IMAGE, True),
        (IMAGE + b".extern .func (.param .b64 f) malloc (.param .b64 size);", True),
        (IMAGE.replace(b"// word", b"\t// .globl mix\n.extern .shared .align 4 .b8 tile[];\n// word"), False),
        (b"\x7fELF....text.mix\0.nv.constant0.mix\0", False),
        (b"\x7fELF....nv.global.init\0", True),
        (b"\x7fELF....nv.constant3\0", True),
    ],
)  # fmt: skip
def test_which_code_keeps_what_its_kernels_write(code: bytes, keeps: bool) -> None:
    assert uses(code).keeps == keeps


def test_a_window_that_maps_nothing_is_refused(new_bench: Any) -> None:
    bench = new_bench(maps=False)
    with pytest.raises(Unsaveable, match="cannot map memory at given addresses"):
        bench.context.save()
    with pytest.raises(Unsaveable, match="cannot map memory at given addresses"):
        bench.device.reopen_context(1 << 20, saved_at(bench.context.window))


def saved_at(window: Window, *allocations: tuple[int, int]) -> SavedContext:
    return SavedContext(window, allocations, {}, {}, None, 0, 0, 0)


def test_what_was_saved_is_believed_nothing(bench: Any) -> None:
    window, quota = bench.context.window, bench.context.quota
    bench.context.close()
    reopen = bench.device.reopen_context
    for wrong in (
        Window(window.base, window.size // 2),
        Window(window.base + 4096, window.size),
        Window(0, window.size),
    ):
        with pytest.raises(Unsaveable, match="those of a GPU with other memory"):
            reopen(quota, saved_at(wrong))
    for allocation in (
        (window.base - PAGE, PAGE),
        (window.base, quota + 1),
        (window.base + window.size - 4, 8),
        (window.base, 0),
    ):
        with pytest.raises(Unsaveable, match="no room for its memory"):
            reopen(quota, saved_at(window, allocation))
    with pytest.raises(Unsaveable, match="memory of its host's"):
        reopen(quota, SavedContext(window, (), {window.base: []}, {}, None, 0, 0, 0))
    context = reopen(quota, saved_at(window, (window.base + PAGE, 10)))
    for address, size in ((window.base, PAGE), (window.base + PAGE, 2 * PAGE), (window.base + PAGE + 8, PAGE)):
        with pytest.raises(Unsaveable, match="where the session has no memory"):
            context.write_pages(address, bytes(size))
    context.write_pages(window.base + PAGE, b"a" * PAGE)
    with pytest.raises(Unsaveable, match="a module of it has variables"):
        context.restore_module(IMAGE, 4096)
    rows = Rows(window.base + PAGE, 10, 10, 1)
    assert b"".join(map(bytes, context.read(rows, context.default_stream(1)))) == b"a" * 10
    with pytest.raises(CudaError):
        context.read(Rows(window.base + PAGE, 11, 11, 1), context.default_stream(1))
    context.close()
