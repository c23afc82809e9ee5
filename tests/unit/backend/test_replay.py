"""Results and errors of the replay, by the rules of protos/tape.md."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from farlane.backend.device.base import CudaError
from farlane.backend.errors import ProtocolError
from farlane.backend.handlers.binding import OF_THE_PLANE, TABLE
from farlane.backend.handlers.generated_operations import OPERATIONS, encode
from session_replies import answers

FENCE = encode("FENCE", 7, 0)
VARIABLE_RELATIVE = 1 << 63


def launch(function: int = 16, stream: int = 1, grid: int = 1, block: int = 32, parameters: bytes = bytes(16)) -> bytes:
    return encode("LAUNCH", function, stream, grid, 1, 1, block, 1, 1, 0, len(parameters), tail=parameters)


def raising(error: Exception) -> Any:
    def method(*args: Any, **kwargs: Any) -> Any:
        raise error

    return method


def write(address: int, data: bytes, stream: int = 1) -> bytes:
    return encode("WRITE", address, 0, len(data), 1, stream, len(data), tail=data)


def read(address: int, size: int, slot: int = 9, stream: int = 1) -> bytes:
    return encode("READ", address, 0, size, 1, stream, slot)


def test_every_operation_has_a_handler() -> None:
    by_python = {row.name for row in OPERATIONS.values()} - OF_THE_PLANE
    assert {operation.name for operation in TABLE.values()} == by_python
    assert all(callable(operation.handler) for operation in TABLE.values())


def test_fence_is_answered_in_place(guest: Any) -> None:
    outcome = guest.submit(FENCE, encode("FENCE", 8, 0))
    assert [(result.kind, result.slot, result.error) for result in outcome.results] == [(1, 7, 0), (1, 8, 0)]
    assert (outcome.error, outcome.sticky, outcome.replies) == (0, False, 1)


def test_read_answers_every_byte_once(guest: Any) -> None:
    size = (5 << 20) + 3
    guest.submit(encode("ALLOCATE", guest.base, size))
    outcome = guest.submit(read(guest.base, size), FENCE)
    *pieces, fence = outcome.results
    assert fence.slot == 7
    at = 0
    for piece in pieces:
        assert (piece.kind, piece.slot, piece.error, piece.offset) == (3, 9, 0, at)
        assert len(piece.data) <= 1 << 20
        at += len(piece.data)
    assert at == size
    assert outcome.replies > 1, "large results are passed on as they come"


def test_a_read_that_ends_the_group_travels_with_its_last_reply(guest: Any) -> None:
    guest.submit(encode("ALLOCATE", guest.base, 1 << 20))
    assert guest.submit(read(guest.base, 1 << 20)).replies == 1


def test_pieces_are_passed_on_before_the_device_is_resumed(guest: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A device may reuse one staging buffer for all pieces of a read."""
    piece = 128 << 10

    def pieces(rows: Any, stream: Any) -> Iterator[memoryview]:
        staging = bytearray(piece)
        for number in range(rows.width // piece):
            staging[:] = bytes([number + 1]) * piece
            yield memoryview(staging)
        staging[:] = bytes([255]) * piece  # only after everything was taken

    monkeypatch.setattr(guest.context, "read", pieces)
    for records in ([read(guest.base, 4 * piece)], [read(guest.base, 4 * piece), FENCE]):
        data = b"".join(result.data for result in guest.submit(*records).results)
        assert data == b"".join(bytes([number]) * piece for number in (1, 2, 3, 4))


def test_empty_read_is_answered(guest: Any) -> None:
    (result,) = guest.submit(read(guest.base, 0)).results
    assert (result.kind, result.slot, result.error, result.data) == (3, 9, 0, b"")


def test_values(guest: Any) -> None:
    guest.open_module()
    outcome = guest.submit(
        encode("VARIABLE_OPEN", 20, 16, 64, 1, 0, tail=b"v"),
        encode("VARIABLE_ADDRESS", 20, 3),
        encode("EVENT_CREATE", 16, 0),
        encode("EVENT_CREATE", 17, 0),
        encode("EVENT_RECORD", 16, 1, 0, 0),
        encode("EVENT_RECORD", 17, 1, 0, 0),
        encode("EVENT_ELAPSED", 16, 17, 4, 0),
        encode("MODULE_QUERY", 5, 0, bytes(32)),
    )
    address, elapsed, query = outcome.results
    assert (address.kind, address.slot, address.error) == (2, 3, 0)
    assert address.value > guest.base
    assert (elapsed.kind, elapsed.slot, elapsed.error) == (2, 4, 0)
    assert elapsed.value < 1 << 32
    assert (query.value, query.error) == (0, 0)


class TestDeferredErrors:
    def test_first_one_is_reported_with_the_group(self, guest: Any) -> None:
        outcome = guest.submit(encode("FREE", guest.base), encode("STREAM_DESTROY", 99, 0))
        assert (outcome.error, outcome.sticky) == (1, False)
        assert outcome.message.startswith("FREE: ")
        assert guest.submit().error == 0, "once only"

    def test_its_message_comes_with_the_group_that_tells_it(self, guest: Any) -> None:
        """Also when a result tells the error: nothing else would say to the user why."""
        outcome = guest.submit(encode("FREE", guest.base), FENCE)
        assert outcome.error == 0
        assert outcome.message.startswith("FREE: ")
        assert guest.submit(FENCE).message == "", "once only"

    def test_a_status_reports_it_instead_of_the_group(self, guest: Any) -> None:
        outcome = guest.submit(encode("FREE", guest.base), FENCE, encode("FENCE", 8, 0))
        assert outcome.errors() == [1, 0]
        assert outcome.error == 0

    def test_an_earlier_groups_error_is_gone(self, guest: Any) -> None:
        assert guest.submit(encode("FREE", guest.base)).error == 1
        assert guest.submit(FENCE).errors() == [0]

    def test_a_read_reports_it_and_reads_nothing(self, guest: Any) -> None:
        guest.submit(encode("ALLOCATE", guest.base, 4096))
        outcome = guest.submit(encode("FREE", guest.base + 256), read(guest.base, 64))
        (result,) = outcome.results
        assert (result.kind, result.error, result.data) == (3, 1, b"")
        assert outcome.error == 0

    def test_own_failure_goes_first_and_the_deferred_one_stays(self, guest: Any) -> None:
        outcome = guest.submit(encode("FREE", guest.base), encode("STREAM_SYNCHRONIZE", 99, 7))
        assert outcome.errors() == [400]
        assert outcome.error == 1

    def test_not_ready_is_no_failure(self, guest: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(guest.context, "stream_done", lambda stream: False)
        query = encode("STREAM_QUERY", 1, 7)
        assert guest.submit(query).errors() == [600]
        outcome = guest.submit(encode("FREE", guest.base), query, query)
        assert outcome.errors() == [1, 600]
        assert outcome.error == 0

    def test_a_value_does_not_report_it(self, guest: Any) -> None:
        outcome = guest.submit(encode("FREE", guest.base), encode("MODULE_QUERY", 5, 0, bytes(32)))
        assert outcome.errors() == [0]
        assert outcome.error == 1

    def test_a_failed_value_is_not_repeated(self, guest: Any) -> None:
        outcome = guest.submit(encode("VARIABLE_ADDRESS", 99, 5))
        assert (outcome.results[0].kind, outcome.errors(), outcome.error) == (2, [400], 0)

    def test_a_read_that_breaks_off(self, guest: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        def pieces(rows: Any, stream: Any) -> Iterator[bytes]:
            yield bytes(1 << 20)
            raise CudaError(700, "half way", sticky=True)

        monkeypatch.setattr(guest.context, "read", pieces)
        outcome = guest.submit(read(guest.base, 2 << 20))
        assert [(len(result.data), result.error) for result in outcome.results] == [(1 << 20, 0), (0, 700)]
        assert outcome.sticky

    def test_work_after_an_error_is_done(self, guest: Any) -> None:
        guest.submit(encode("FREE", guest.base), encode("ALLOCATE", guest.base, 256))
        assert guest.context.allocations == 1


class TestStickyErrors:
    def lose(self, guest: Any, monkeypatch: pytest.MonkeyPatch, code: int = 700) -> None:
        guest.open_module()
        guest.open_function()
        with monkeypatch.context() as patch:
            patch.setattr(guest.context, "launch_from", raising(CudaError(code, "illegal address", sticky=True)))
            outcome = guest.submit(launch())
        assert (outcome.error, outcome.sticky) == (code, True)
        assert outcome.message == "LAUNCH: illegal address"

    def test_everything_fails_with_it(self, guest: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        self.lose(guest, monkeypatch)
        launches = guest.context.launches
        outcome = guest.submit(
            launch(), encode("ALLOCATE", guest.base, 256), FENCE, read(guest.base, 4), encode("VARIABLE_ADDRESS", 99, 3)
        )
        assert outcome.errors() == [700, 700, 700]
        assert (outcome.error, outcome.sticky, outcome.message) == (700, True, "")
        assert guest.context.launches == launches
        assert guest.context.allocations == 0

    def test_checks_are_ended_all_the_same(self, guest: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        self.lose(guest, monkeypatch)
        monkeypatch.setattr(guest.context, "finish_checks", lambda: 7)
        (result,) = guest.submit(encode("CHECK_END", 4, 0)).results
        assert (result.slot, result.error, result.value) == (4, 0, 7)

    def test_a_prepared_launch_does_not_slip_through(self, guest: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        guest.open_module()
        guest.open_function()
        guest.submit(launch(), launch())
        fault = raising(CudaError(719, "trap", sticky=True))
        with monkeypatch.context() as patch:
            patch.setattr(guest.context, "write", fault)
            outcome = guest.submit(write(guest.base, b"abcd"), launch(), launch())
        assert guest.context.launches == 2
        assert outcome.error == 719

    def test_told_in_a_result_of_the_same_group(self, guest: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(guest.context, "synchronize", raising(CudaError(700, "fault", sticky=True)))
        outcome = guest.submit(encode("DEVICE_SYNCHRONIZE", 7, 0), FENCE)
        assert outcome.errors() == [700, 700]
        assert (outcome.error, outcome.sticky) == (700, True)

    def test_reset_clears_it(self, guest: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        self.lose(guest, monkeypatch)
        outcome = guest.submit(FENCE, encode("DEVICE_RESET", 8, 0), FENCE, encode("ALLOCATE", guest.base, 256))
        assert outcome.errors() == [700, 0, 0]
        assert (outcome.error, outcome.sticky) == (0, False)
        assert guest.context.allocations == 1

    def test_reset_reports_no_error_that_it_cleared(self, guest: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        self.lose(guest, monkeypatch)
        assert guest.submit(launch(), encode("DEVICE_RESET", 8, 0)).errors() == [0]

    def test_uploads_go_on(self, guest: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        from farlane.backend.objects.images import digest_of

        digest = digest_of(b"late")
        guest.submit(encode("MODULE_BEGIN", 4, digest))
        self_image = encode("MODULE_CHUNK", 4, 0, tail=b"late")
        monkeypatch.setattr(guest.context, "synchronize", raising(CudaError(700, "fault", sticky=True)))
        guest.submit(encode("DEVICE_SYNCHRONIZE", 7, 0), self_image, encode("MODULE_END", digest))
        outcome = guest.submit(encode("DEVICE_RESET", 8, 0), encode("MODULE_QUERY", 9, 0, digest))
        assert [result.value for result in outcome.results] == [0, 1]


class TestBugsOfOurs:
    def test_an_exception_becomes_a_sticky_unknown_error(
        self, guest: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        monkeypatch.setattr(guest.context, "set", raising(ZeroDivisionError("oops")))
        outcome = guest.submit(encode("ALLOCATE", guest.base, 256), encode("MEMSET", guest.base, 0, 8, 1, 0, 1, 1, 0))
        assert (outcome.error, outcome.sticky) == (999, True)
        (record,) = [record for record in caplog.records if record.levelname == "ERROR"]
        assert "MEMSET" in record.message
        assert record.exc_info is not None

    def test_in_a_launch_seen_before(self, guest: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        guest.open_module()
        guest.open_function()
        guest.submit(launch())
        monkeypatch.setattr(guest.context, "launch_from", raising(KeyError("oops")))
        outcome = guest.submit(launch(), FENCE)
        assert (outcome.errors(), outcome.error, outcome.sticky) == ([999], 999, True)

    def test_a_device_that_yields_too_little(self, guest: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(guest.context, "read", lambda rows, stream: iter([b"abc"]))
        outcome = guest.submit(read(guest.base, 8))
        assert outcome.errors() == [0, 999]

    def test_out_of_host_memory_is_not_sticky(self, guest: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(guest.context, "allocate", raising(MemoryError()))
        outcome = guest.submit(encode("ALLOCATE", guest.base, 256))
        assert (outcome.error, outcome.sticky) == (2, False)


class TestLaunches:
    @pytest.fixture(autouse=True)
    def _opened(self, guest: Any) -> None:
        guest.open_module()
        guest.open_function()

    def seen(self, guest: Any, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
        calls: list[Any] = []

        def record(function: Any, shape: Any, message: memoryview, begin: int, end: int, stream: Any) -> None:
            calls.append((function, shape, bytes(message[begin:end]), stream))

        monkeypatch.setattr(guest.context, "launch_from", record)
        return calls

    def test_parameters_and_shape_reach_the_device_each_time(self, guest: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        calls = self.seen(guest, monkeypatch)
        first, second = bytes(range(16)), bytes(range(16, 32))
        guest.submit(launch(parameters=first), launch(parameters=second), launch(grid=5, parameters=first[:3]))
        assert [call[2] for call in calls] == [first, second, first[:3]]
        assert [call[1].grid[0] for call in calls] == [1, 1, 5]
        assert calls[0][0] == "kernel"

    def test_cooperative_flag(self, guest: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        calls = self.seen(guest, monkeypatch)
        record = encode("LAUNCH", 16, 1, 2, 1, 1, 32, 1, 1, 64, 0, flags=1)
        guest.submit(record, record, launch())
        assert [call[1].cooperative for call in calls] == [True, True, False]
        assert calls[0][1].shared_bytes == 64

    @pytest.mark.parametrize(
        ("grid", "block"), [((0, 1, 1), (1, 1, 1)), ((1, 65536, 1), (1, 1, 1)), ((1, 1, 1), (0, 1, 1)),
                            ((1, 1, 1), (1025, 1, 1)), ((1, 1, 1), (33, 32, 1)), ((1, 1, 1), (1, 1, 65))]
    )  # fmt: skip
    def test_impossible_shapes(self, guest: Any, grid: tuple[int, ...], block: tuple[int, ...]) -> None:
        assert guest.submit(encode("LAUNCH", 16, 1, *grid, *block, 0, 0)).error == 9
        assert guest.context.launches == 0

    def test_unknown_function_and_stream(self, guest: Any) -> None:
        assert guest.submit(launch(function=77)).error == 400
        assert guest.submit(launch(stream=77)).error == 400
        assert guest.submit(launch(stream=0)).error == 400
        assert guest.context.launches == 0

    def test_a_closed_modules_kernels_are_gone(self, guest: Any) -> None:
        assert guest.submit(launch(), encode("MODULE_CLOSE", 16, 0), launch()).error == 400
        assert guest.context.launches == 1

    def test_a_destroyed_stream_is_gone(self, guest: Any) -> None:
        outcome = guest.submit(
            encode("STREAM_CREATE", 30, 0, 0, 0), launch(stream=30), encode("STREAM_DESTROY", 30, 0), launch(stream=30)
        )
        assert outcome.error == 400
        assert guest.context.launches == 1

    def test_a_reset_ends_prepared_launches(self, guest: Any) -> None:
        outcome = guest.submit(launch(), encode("DEVICE_RESET", 1, 0), launch())
        assert (outcome.errors(), outcome.error) == ([0], 400)

    def test_many_different_launches(self, guest: Any) -> None:
        records = [launch(grid=number + 1) for number in range(10_000)]
        guest.submit(*records, *records, messages=2)
        assert guest.context.launches == 20_000
        assert guest.session._replay.remembered <= 4096

    def test_a_seen_launch_that_is_cut_off(self, guest: Any) -> None:
        guest.submit(launch())
        record = launch()
        with pytest.raises(ProtocolError):
            list(guest.session.submit(guest.group + 1, record[:-8], True))
        assert guest.context.launches == 1


class TestPoison:
    def test_a_poisoned_stream_fails_its_work(self, guest: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(guest.context, "create_stream", raising(CudaError(2, "no more streams")))
            outcome = guest.submit(encode("STREAM_CREATE", 16, 0, 0, 0))
        assert outcome.error == 2
        guest.submit(encode("ALLOCATE", guest.base, 256))
        outcome = guest.submit(write(guest.base, b"data", stream=16))
        assert outcome.error == 2
        assert "no more streams" in outcome.message
        outcome = guest.submit(encode("STREAM_SYNCHRONIZE", 16, 5), encode("STREAM_QUERY", 16, 6))
        assert outcome.errors() == [2, 2]
        assert guest.submit(encode("STREAM_DESTROY", 16, 0)).error == 0, "reported where it was made"
        assert guest.submit(encode("STREAM_SYNCHRONIZE", 16, 5)).errors() == [400]

    def test_it_spreads_from_module_to_function_to_launch(self, guest: Any) -> None:
        digest = bytes(32)
        outcome = guest.submit(
            encode("MODULE_OPEN", 16, 0, digest),
            encode("FUNCTION_OPEN", 16, 16, 1, 0, tail=b"f"),
            encode("VARIABLE_OPEN", 16, 16, 8, 1, 0, tail=b"v"),
            launch(),
        )
        assert outcome.error == 200
        assert guest.submit(launch()).error == 200
        assert guest.submit(write(VARIABLE_RELATIVE | 16 << 32, b"abcd")).error == 200
        assert guest.context.launches == 0

    def test_an_allocation_that_was_refused(self, guest: Any) -> None:
        size = guest.admission.quota + 256
        assert guest.submit(encode("ALLOCATE", guest.base, size)).error == 2
        inside = guest.base + 4096
        assert guest.submit(write(inside, b"data")).error == 2
        assert guest.submit(read(inside, 4)).errors() == [2]
        assert guest.submit(encode("MEMSET", inside, 0, 4, 1, 0, 1, 1, 0)).error == 2
        assert guest.submit(encode("COPY", inside, 0, inside, 0, 4, 1, 1, 0)).error == 2
        assert guest.submit(write(guest.base + size, b"data")).error == 1, "beside it"
        assert guest.submit(encode("FREE", guest.base)).error == 0, "reported where it was made"
        assert guest.submit(encode("ALLOCATE", guest.base, 256), write(guest.base, b"data")).error == 0

    def test_a_bug_poisons_too(self, guest: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(guest.context, "create_event", raising(ZeroDivisionError()))
        assert guest.submit(encode("EVENT_CREATE", 16, 0)).error == 999


class TestVariables:
    @pytest.fixture(autouse=True)
    def _opened(self, guest: Any) -> None:
        guest.open_module()
        guest.submit(encode("VARIABLE_OPEN", 21, 16, 64, 1, 0, tail=b"v"))

    def test_relative_addresses(self, guest: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        seen = []
        monkeypatch.setattr(guest.context, "write", lambda rows, data, stream: seen.append(rows.address))
        (address,) = guest.submit(encode("VARIABLE_ADDRESS", 21, 3)).results
        assert guest.submit(write(VARIABLE_RELATIVE | 21 << 32 | 60, b"abcd")).error == 0
        assert seen == [address.value + 60]

    @pytest.mark.parametrize("offset", [61, 64, 2**32 - 1])
    def test_beyond_its_end(self, guest: Any, offset: int) -> None:
        assert guest.submit(write(VARIABLE_RELATIVE | 21 << 32 | offset, b"abcd")).error == 1

    def test_unknown(self, guest: Any) -> None:
        assert guest.submit(write(VARIABLE_RELATIVE | 22 << 32, b"abcd")).error == 400
        assert guest.submit(encode("MODULE_CLOSE", 16, 0), write(VARIABLE_RELATIVE | 21 << 32, b"a")).error == 400

    def test_smaller_in_the_image_than_in_the_program(self, guest: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(guest.context, "variable", lambda module, name: (guest.base, 32))
        assert guest.submit(encode("VARIABLE_OPEN", 23, 16, 64, 1, 0, tail=b"w")).error == 13


def test_rows_that_overlap_their_pitch(guest: Any) -> None:
    guest.submit(encode("ALLOCATE", guest.base, 4096))
    assert guest.submit(encode("MEMSET", guest.base, 8, 16, 2, 0, 1, 1, 0)).error == 12
    assert guest.submit(encode("MEMSET", guest.base, 0, 16, 1, 0, 1, 1, 0)).error == 0, "one row has no pitch"


def test_nothing_to_do_needs_no_memory(guest: Any) -> None:
    outcome = guest.submit(
        encode("MEMSET", guest.base, 0, 0, 1, 0, 1, 1, 0),
        write(guest.base, b""),
        encode("COPY", guest.base, 0, guest.base, 0, 0, 1, 1, 0),
    )
    assert outcome.error == 0


def test_an_error_keeps_no_message_alive(guest: Any) -> None:
    """Handles and ranges outlive the message that poisoned them; its megabyte must not live as long."""
    data = encode("ALLOCATE", guest.base, 1 << 40) + encode("MODULE_OPEN", 16, 0, bytes(32))
    before = sys.getrefcount(data)
    guest.group += 1
    (reply,) = answers(guest.session, guest.group, data)
    assert reply.error == 2
    gc.collect()
    assert sys.getrefcount(data) == before
