"""What the plane does on a GPU by itself, with the driver's functions: a session's records, and what of them Python has to do with the driver."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from counting_slice import definition, template_of
from driver_options import ask
from farlane.backend.handlers.generated_operations import encode
from farlane.backend.host.greeting import TAPE_VERSION_MAX, Greeting
from farlane.backend.host.host import Host
from farlane.backend.objects.images import digest_of
from farlane.v1 import session_pb2 as pb

from .conftest import IMAGE, QUOTA

MODULE, FUNCTION, EVENT, OTHER_EVENT, STREAM = 16, 16, 16, 17, 16
LEGACY, NON_BLOCKING = 1, 1
NOT_READY = 600


class Guest:
    """A session of a host with the GPU device; its records come without a wire."""

    def __init__(self, bench: Any) -> None:
        self.driver = bench.driver
        self.host = Host(bench.device, quota=QUOTA)
        admission = self.host.admit(Greeting(1, TAPE_VERSION_MAX))
        self.session, self.base = admission.session, admission.window.base
        self.direct = self.session.resources.context.direct
        self._group = 0
        digest = digest_of(IMAGE)
        self.submit(
            encode("ALLOCATE", self.base, 8 << 20),
            encode("MODULE_BEGIN", len(IMAGE), digest),
            encode("MODULE_CHUNK", len(IMAGE), 0, tail=IMAGE),
            encode("MODULE_END", digest),
            encode("MODULE_OPEN", MODULE, 0, digest),
            encode("FUNCTION_OPEN", FUNCTION, MODULE, 3, 0, tail=b"mix"),
            encode("EVENT_CREATE", EVENT, 0),
            encode("EVENT_CREATE", OTHER_EVENT, 0),
            encode("STREAM_CREATE", STREAM, NON_BLOCKING, 0, 0),
        )

    def submit(self, *records: bytes) -> dict[int, tuple[int, bytes]]:
        """The results by their slots: the error, and the bytes. The group's own error has slot 0."""
        self._group += 1
        found: dict[int, tuple[int, bytes]] = {}
        for message in self.session.submit(self._group, b"".join(records), True):
            reply = pb.HostMessage.FromString(message).reply
            if reply.error:
                found[0] = (reply.error, b"")
            at = 0
            while at < len(reply.results):
                length, kind, slot, error = struct.unpack_from("<IH2xIi", reply.results, at)
                data = b""
                if kind == 3:
                    size = struct.unpack_from("<I", reply.results, at + 24)[0]
                    data = reply.results[at + 32 : at + 32 + size]
                elif kind == 2:
                    data = reply.results[at + 16 : at + 24]
                found[slot] = (error, found.get(slot, (0, b""))[1] + data)
                at += length
        return found

    def counted(self, *records: bytes) -> tuple[dict[int, tuple[int, bytes]], dict[str, int], dict[str, int]]:
        """The results; what the plane has done for them; what Python has called of the driver."""
        plane, python = self.direct.counts(), self.driver.counts.copy()
        results = self.submit(*records)
        return (
            results,
            {name: count - plane[name] for name, count in self.direct.counts().items() if count != plane[name]},
            {name: count - python[name] for name, count in self.driver.counts.items() if count != python[name]},
        )

    def launch(self, word: int, value: int, stream: int = LEGACY) -> bytes:
        parameters = struct.pack("<QI", word, value)
        return encode("LAUNCH", FUNCTION, stream, 1, 1, 1, 1, 1, 1, 0, len(parameters), tail=parameters)

    def write(self, address: int, data: bytes, stream: int = LEGACY) -> bytes:
        return encode("WRITE", address, len(data), len(data), 1, stream, len(data), tail=data)

    def read(self, address: int, size: int, slot: int, stream: int = LEGACY) -> bytes:
        return encode("READ", address, size, size, 1, stream, slot)

    def close(self) -> None:
        self.host.end(self.session, "done")


@pytest.fixture
def new_guest(new_bench: Callable[..., Any]) -> Iterator[Callable[..., Guest]]:
    guests: list[Guest] = []

    def make(**options: Any) -> Guest:
        bench = new_bench(**options)
        bench.context.close()
        guests.append(Guest(bench))
        return guests[-1]

    yield make
    ask("impatient")
    for guest in guests:
        guest.close()


@pytest.fixture
def guest(new_guest: Callable[..., Guest]) -> Guest:
    return new_guest()


def test_launches_copies_and_events_are_the_planes(guest: Guest) -> None:
    """The driver's functions are called for each record, and Python calls none of them."""
    base = guest.base
    guest.submit(
        guest.launch(base, 0), guest.launch(base, 0)
    )  # Python issues the first, and lays it out with the second
    before = {name: int(ask(f"calls {name}")) for name in ("cuLaunchKernel", "cuEventRecord", "cuMemcpyHtoDAsync")}
    results, plane, python = guest.counted(
        encode("MEMSET", base, 0, 64, 1, 0, 1, LEGACY, 0),
        guest.write(base, struct.pack("<I", 5)),
        *[guest.launch(base, value) for value in range(10)],
        encode("COPY", base + 64, 0, base, 0, 4, 1, LEGACY, 0),
        encode("EVENT_RECORD", EVENT, LEGACY, 0, 0),
        encode("STREAM_WAIT_EVENT", STREAM, EVENT),
        encode("EVENT_SYNCHRONIZE", EVENT, 1),
        guest.read(base + 64, 4, 2),
        encode("EVENT_QUERY", EVENT, 3),
        encode("STREAM_QUERY", LEGACY, 4),
        encode("EVENT_RECORD", OTHER_EVENT, LEGACY, 0, 0),
        encode("DEVICE_SYNCHRONIZE", 7, 0),
        encode("EVENT_ELAPSED", EVENT, OTHER_EVENT, 8, 0),
        encode("STREAM_SYNCHRONIZE", LEGACY, 5),
        encode("DEVICE_SYNCHRONIZE", 6, 0),
    )
    word = 5
    for value in range(10):
        word = (3 * word + value) % 2**32
    (milliseconds,) = struct.unpack("<f4x", results.pop(8)[1])
    assert 0 <= milliseconds < 1000
    assert results == dict.fromkeys((1, 3, 4, 5, 6, 7), (0, b"")) | {2: (0, struct.pack("<I", word))}
    assert plane == {
        "sets": 1, "writes": 1, "launches": 10, "copies": 1, "records": 2, "waits": 1, "reads": 1, "queries": 3,
        "synchronizations": 4,
    }  # fmt: skip
    assert python == {}
    after = {name: int(ask(f"calls {name}")) - count for name, count in before.items()}
    assert after["cuLaunchKernel"] == 10
    assert after["cuEventRecord"] >= 1
    assert after["cuMemcpyHtoDAsync"] == 1


def test_without_it_they_are_pythons(guest: Guest) -> None:
    guest.direct.disable()
    base = guest.base
    results, plane, python = guest.counted(guest.write(base, bytes(4)), guest.launch(base, 7), guest.read(base, 4, 1))
    assert results == {1: (0, struct.pack("<I", 7))}
    assert plane == {}
    assert python["launch"] == 1
    assert python["copy"] == 2


def test_a_loop_that_a_slice_decides(guest: Guest) -> None:
    """Its records are the plane's; a READ brings the slice what the launch before it has made, however late streams run."""
    base, count = guest.base, 50
    guest.submit(definition(template_of(56, guest.launch(base, 0), guest.read(base, 4, 0))), guest.launch(base, 0))
    guest.submit(guest.launch(base, 0), guest.write(base, struct.pack("<I", 5)))
    word, words = 5, b""
    for value in range(count, 0, -1):
        word = (3 * word + value) % 2**32
        words += struct.pack("<I", word)
    inputs = struct.pack("<Q", count)
    part = encode("WHILE", 0, 1, 20, 0, len(inputs), tail=inputs)
    rest = encode("WHILE", 0, 2, 0, 0, 0, flags=1)
    results, plane, python = guest.counted(part, rest)
    assert results == {
        1: (0, words[: 4 * 20] + struct.pack("<Q", 20 << 8)),
        2: (0, words[4 * 20 :] + struct.pack("<Q", count << 8 | 1)),
    }
    assert (plane, python) == ({"launches": count, "reads": count}, {})


def test_work_is_issued_and_not_waited_for(guest: Guest) -> None:
    """Streams run late here: what the plane has issued is done when something waits for it, in its own stream."""
    base = guest.base
    ask("patient")
    guest.submit(guest.launch(base, 1, STREAM), guest.launch(base, 1, STREAM), encode("DEVICE_SYNCHRONIZE", 9, 0))
    held = int(ask("held"))
    results, plane, _ = guest.counted(
        guest.launch(base, 1, STREAM), encode("EVENT_RECORD", EVENT, STREAM, 0, 0), encode("EVENT_QUERY", EVENT, 1),
        encode("STREAM_QUERY", STREAM, 2),
    )  # fmt: skip
    assert results == {1: (NOT_READY, b""), 2: (NOT_READY, b"")}
    assert plane == {"launches": 1, "records": 1, "queries": 2}
    assert int(ask("held")) > held
    assert guest.submit(encode("EVENT_SYNCHRONIZE", EVENT, 1), encode("EVENT_QUERY", EVENT, 2)) == {
        1: (0, b""),
        2: (0, b""),
    }


def test_what_the_guest_has_copied_is_there_for_every_stream(guest: Guest) -> None:
    """Work of a non-blocking stream waits for copies in the legacy one, whether the plane has issued them or Python."""
    base, variable = guest.base, 16
    guest.submit(encode("VARIABLE_OPEN", variable, MODULE, 4, 7, 0, tail=b"counter"))
    guest.submit(guest.launch(base, 0, STREAM), guest.launch(base, 0, STREAM), encode("DEVICE_SYNCHRONIZE", 9, 0))
    for number in range(1, 5):
        waits = int(ask("calls cuStreamWaitEvent"))
        if number < 4:
            copied = guest.write(base, struct.pack("<I", number))
        else:  # an address that is relative to a variable is Python's to resolve
            copied = guest.write(1 << 63 | variable << 32, b"word")
            guest.submit(
                encode("MEMSET", base, 4, 4, 1, number, 1, STREAM, 0),
                encode("MEMSET", base + 1, 3, 3, 1, 0, 1, STREAM, 0),
            )
        results, plane, _ = guest.counted(
            copied, guest.launch(base, 5, STREAM), guest.launch(base, 6, STREAM), guest.read(base, 4, 1, STREAM)
        )
        assert results == {1: (0, struct.pack("<I", 3 * (3 * number + 5) + 6))}
        assert (plane["launches"], plane.get("writes", 0)) == (2, number < 4)
        assert int(ask("calls cuStreamWaitEvent")) == waits + 1


def test_rows_that_are_apart(guest: Guest) -> None:
    """To the device and within it; more of them than a piece of pinned memory holds."""
    base, width, height = guest.base, 1000, 900
    data = random.Random(7).randbytes(width * height)
    guest.submit(encode("MEMSET", base, 8 << 20, 8 << 20, 1, 0, 1, LEGACY, 0))
    results, plane, python = guest.counted(
        encode("WRITE", base, 1024, width, height, LEGACY, len(data), tail=data),
        encode("COPY", base + (4 << 20), 1003, base, 1024, width, height, LEGACY, 0),
        encode("COPY", base + (7 << 20), 0, base + 1024, 1024, 8, 1, LEGACY, 0),
        guest.read(base + (4 << 20), 1003 * height, 1),
        guest.read(base + (7 << 20), 8, 2),
    )
    rows = [data[at : at + width] for at in range(0, len(data), width)]
    assert results == {1: (0, b"".join(row + bytes(3) for row in rows)), 2: (0, rows[1][:8])}
    assert (plane, python) == ({"writes": 1, "copies": 2, "reads": 2}, {})


def test_large_copies_in_pieces(guest: Guest) -> None:
    data = random.Random(3).randbytes((3 << 20) + 12345)
    step = 1 << 20
    writes = [guest.write(guest.base + at, data[at : at + step]) for at in range(0, len(data), step)]
    for message in writes:
        guest.submit(message)
    results, plane, python = guest.counted(guest.read(guest.base, len(data), 1))
    assert results == {1: (0, data)}
    assert (plane, python) == ({"reads": 1}, {})


def test_what_is_not_plain_is_pythons(guest: Guest) -> None:
    """A read of rows that are apart, a cooperative launch, an address that no allocation holds, an event that was never recorded."""
    base = guest.base
    parameters = struct.pack("<QI", base, 1)
    cooperative = encode("LAUNCH", FUNCTION, LEGACY, 1, 1, 1, 1, 1, 1, 0, len(parameters), tail=parameters, flags=1)
    results, plane, python = guest.counted(
        encode("WRITE", base, 64, 2, 2, LEGACY, 4, tail=b"abcd"),  # the plane's
        encode("READ", base, 64, 2, 2, LEGACY, 1),
        *[cooperative] * 3,
        encode("EVENT_ELAPSED", EVENT, OTHER_EVENT, 2, 0),
        encode("MEMSET", base + (16 << 20), 0, 64, 1, 0, 1, LEGACY, 0),
    )
    assert results == {0: (1, b""), 1: (0, b"abcd"), 2: (400, bytes(8))}
    assert plane == {"writes": 1}
    assert python["launch_with_attributes"] == 3


def test_a_refused_launch_is_told_as_pythons_is(guest: Guest) -> None:
    """An error that is not sticky leaves the session as it was; every later call reports a sticky one, and a reset ends it."""
    base = guest.base
    guest.submit(guest.launch(base, 0), guest.launch(base, 0))
    for code, later in ((2, (0, b"")), (700, (700, b""))):
        ask(f"fail cuLaunchKernel {code}")
        results, plane, _ = guest.counted(guest.launch(base, 1), encode("DEVICE_SYNCHRONIZE", 1, 0))
        assert plane.get("launches") == 1
        assert results[1] == (code, b"")
        assert guest.submit(encode("DEVICE_SYNCHRONIZE", 2, 0))[2] == later
    assert guest.session.resources.context._lost
    assert guest.submit(encode("DEVICE_RESET", 1, 0))[1] == (0, b"")
    assert guest.submit(encode("DEVICE_SYNCHRONIZE", 2, 0)) == {2: (0, b"")}


def test_a_kernels_fault_is_told_by_what_waits(guest: Guest) -> None:
    base = guest.base
    guest.submit(guest.launch(base, 0), guest.launch(base, 0))
    results, plane, python = guest.counted(guest.launch(16, 1), guest.launch(base, 1), guest.read(base, 4, 1))
    assert results[1] == (700, b"")
    assert (plane, python) == ({"launches": 2, "reads": 1}, {"error": 1})  # its words
    assert guest.submit(encode("STREAM_SYNCHRONIZE", LEGACY, 2))[2] == (700, b"")
    assert guest.submit(encode("DEVICE_RESET", 1, 0))[1] == (0, b"")
    guest.submit(encode("ALLOCATE", base, 4096), guest.write(base, b"good"))
    results, plane, _ = guest.counted(guest.read(base, 4, 1))  # in the new CUDA context
    assert (results, plane) == ({1: (0, b"good")}, {"reads": 1})


def test_an_interrupted_session_launches_nothing(guest: Guest) -> None:
    base = guest.base
    guest.submit(*[guest.launch(base, 0)] * 3)
    guest.session.resources.context.interrupt()
    results, plane, _ = guest.counted(guest.launch(base, 1), encode("FENCE", 1, 0))
    assert results[1] == (719, b"")
    assert plane == {}


def test_memory_that_was_freed_goes_back_with_a_synchronization(new_guest: Callable[..., Guest]) -> None:
    """Where there is much of it the synchronization is Python's."""
    guest = new_guest()
    place = guest.base + (1 << 28)
    _, plane, _ = guest.counted(encode("DEVICE_SYNCHRONIZE", 1, 0))
    assert plane == {"synchronizations": 1}
    for _ in range(2):
        guest.submit(encode("ALLOCATE", place, 32 << 20), encode("FREE", place))
        place += 64 << 20
    results, plane, python = guest.counted(encode("DEVICE_SYNCHRONIZE", 1, 0))
    assert (results, plane) == ({1: (0, b"")}, {})
    assert python["unmap"] == 2
    _, plane, _ = guest.counted(encode("DEVICE_SYNCHRONIZE", 1, 0))
    assert plane == {"synchronizations": 1}


@pytest.mark.parametrize("tells_layout", [True, False])
def test_a_driver_that_tells_no_layout(new_guest: Callable[..., Guest], tells_layout: bool) -> None:
    """Before CUDA 12.4: launches are Python's."""
    guest = new_guest(tells_layout=tells_layout)
    guest.submit(guest.write(guest.base, bytes(4)))
    results, plane, _ = guest.counted(*[guest.launch(guest.base, 1)] * 5, guest.read(guest.base, 4, 1))
    assert results == {1: (0, struct.pack("<I", 1 + 3 + 9 + 27 + 81))}
    assert plane.get("launches", 0) == (3 if tells_layout else 0)


def test_output_of_kernels_is_waited_for(guest: Guest) -> None:
    """A launch that may print has been done when its group ends, with the output on its way to the guest."""
    image = IMAGE.replace(
        b".visible .entry", b".extern .func (.param .b32 r) vprintf (.param .b64 f, .param .b64 a);\n.visible .entry"
    )
    digest, base = digest_of(image), guest.base
    guest.submit(
        encode("MODULE_BEGIN", len(image), digest),
        encode("MODULE_CHUNK", len(image), 0, tail=image),
        encode("MODULE_END", digest),
        encode("MODULE_OPEN", MODULE + 1, 0, digest),
        encode("FUNCTION_OPEN", FUNCTION + 1, MODULE + 1, 3, 0, tail=b"mix"),
    )
    ask("patient")
    parameters = struct.pack("<QI", base, 1)
    launch = encode("LAUNCH", FUNCTION + 1, LEGACY, 1, 1, 1, 1, 1, 1, 0, len(parameters), tail=parameters)
    guest.submit(launch, launch)
    held = ask("held")
    _, plane, python = guest.counted(launch)
    assert (plane, python) == ({"launches": 1}, {"synchronize": 1})
    assert ask("held") == held
    _, plane, python = guest.counted(encode("FENCE", 1, 0))
    assert (plane, python) == ({}, {})


def test_attributes_of_a_function_are_minded(guest: Guest) -> None:
    """A launch that was laid out is checked again when one has changed."""
    base = guest.base
    guest.submit(*[guest.launch(base, 0)] * 3)
    guest.submit(encode("FUNCTION_ATTRIBUTE", FUNCTION, 9, 50, 0))
    _, plane, python = guest.counted(*[guest.launch(base, 0)] * 3)
    assert plane == {"launches": 2}
    assert python["launch"] == 1
