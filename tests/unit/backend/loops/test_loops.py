"""Loops of the tape, replayed record by record: by the rules of protos/tape.md, "Loops"."""

from __future__ import annotations

import struct
import threading
from typing import Any

import pytest
from farlane.backend.errors import DeadTransport, ProtocolError
from farlane.backend.handlers.generated_operations import encode
from session_replies import answers

Holes = list[tuple[int, int]]


def template(number: int, holes: Holes, *body: bytes) -> bytes:
    content = b"".join(struct.pack("<IB3x", *hole) for hole in holes) + b"".join(body)
    return encode("TEMPLATE", number, len(holes), len(content), 0, tail=content)


def repeat(number: int, count: int, *columns: bytes, continued: bool = False) -> bytes:
    whole = b"".join(columns)
    return encode("REPEAT", number, len(whole), count, tail=whole, flags=int(continued))


def column(kind: int, number: int, values: bytes = b"", lag: int = 0) -> bytes:
    return struct.pack("<BBHI", kind, lag, 0, number) + values + bytes(-len(values) % 8)


def affine(start: int, step: int) -> bytes:
    return column(0, 0, struct.pack("<QQ", start % 2**64, step % 2**64))


FENCE = encode("FENCE", 0, 0)
SLOT = 8  # the offset of FENCE's slot


def slots(outcome: Any) -> list[int]:
    return [result.slot for result in outcome.results]


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ([affine(5, 3)], [5, 8, 11, 14, 17, 20]),
        ([affine(2, -1)], [2, 1, 0, 2**32 - 1, 2**32 - 2, 2**32 - 3]),
        ([column(1, 6, struct.pack("<6I", 9, 1, 8, 2, 7, 3))], [9, 1, 8, 2, 7, 3]),
        ([column(2, 3, struct.pack("<3I", 9, 1, 8))], [9, 1, 8, 9, 1, 8]),
        ([column(3, 0, struct.pack("<2I", 4, 5), lag=2)], [4, 5, 4, 5, 4, 5]),
    ],
)
def test_columns(guest: Any, columns: list[bytes], expected: list[int]) -> None:
    assert slots(guest.submit(template(0, [(SLOT, 4)], FENCE), repeat(0, 6, *columns))) == expected


def test_columns_that_follow_others(guest: Any) -> None:
    body = [FENCE] * 4
    holes = [(16 * record + SLOT, 4) for record in range(4)]
    columns = [
        column(3, 1, struct.pack("<I", 1), lag=1),  # a rotation of the first three
        column(3, 2, struct.pack("<I", 2), lag=1),
        column(3, 0, struct.pack("<I", 3), lag=1),
        column(3, 0, struct.pack("<2I", 8, 9), lag=2),  # leads to it
    ]
    outcome = guest.submit(template(0, holes, *body), repeat(0, 5, *columns))
    assert slots(outcome) == [1, 2, 3, 8, 2, 3, 1, 9, 3, 1, 2, 1, 1, 2, 3, 2, 2, 3, 1, 3]


def test_a_loop_goes_on(guest: Any) -> None:
    guest.submit(template(3, [(SLOT, 4)], FENCE))
    columns = column(3, 0, struct.pack("<3I", 7, 8, 9), lag=3)
    assert slots(guest.submit(repeat(3, 2, columns))) == [7, 8]
    assert slots(guest.submit(repeat(3, 2, continued=True), repeat(3, 3, continued=True))) == [9, 7, 8, 9, 7]
    assert slots(guest.submit(repeat(3, 1, columns))) == [7]


def test_more_columns_than_can_be_continued(guest: Any) -> None:
    guest.submit(template(3, [(SLOT, 4)], FENCE), repeat(3, 1, column(2, 1023, bytes(4092))))
    with pytest.raises(ProtocolError, match="continued"):
        guest.submit(repeat(3, 1, continued=True))


def test_lags_add_up(guest: Any) -> None:
    records = [FENCE] * 33
    holes = [(16 * record + SLOT, 4) for record in range(33)]
    columns = [affine(0, 1)] + [column(3, index, bytes(64), lag=16) for index in range(32)]
    guest.submit(template(0, holes[:17], *records[:17]), repeat(0, 1, *columns[:17]))
    with pytest.raises(ProtocolError, match="272 iterations before"):
        guest.submit(template(0, holes[:18], *records[:18]), repeat(0, 1, *columns[:18]))


def test_nested_loops(guest: Any) -> None:
    inner_columns = affine(0, 1)
    inner = template(0, [(SLOT, 4)], FENCE)
    loop = repeat(0, 0, inner_columns)  # the count and the start are holes
    outer = template(1, [(16, 8), (32, 8)], loop, FENCE)
    outcome = guest.submit(inner, outer, repeat(1, 3, affine(1, 1), affine(10, 10)))
    assert slots(outcome) == [10, 0, 20, 21, 0, 30, 31, 32, 0]


def test_an_inner_loop_without_iterations_is_refused_when_it_comes(guest: Any) -> None:
    guest.submit(template(0, [], FENCE), template(1, [(16, 8)], repeat(0, 0)))
    replies = []
    record = repeat(1, 3, affine(1, -1))
    with pytest.raises(ProtocolError, match="0 iterations"):
        replies.extend(guest.session.submit(guest.group + 1, record, True))
    assert not replies


def test_errors_are_those_of_the_records(guest: Any) -> None:
    """The first of a loop's failures is kept, told by the next status, and the loop goes on."""
    free = encode("FREE", 0)
    guest.submit(template(0, [(8, 8)], free), template(1, [(8, 8), (24, 4)], free, FENCE))
    outcome = guest.submit(repeat(0, 5, affine(guest.base, 256)))
    assert outcome.error == 1
    assert f"{guest.base:#x}" in outcome.message
    guest.submit(encode("ALLOCATE", guest.base + 256, 256))
    outcome = guest.submit(repeat(1, 3, affine(guest.base, 256), affine(1, 1)))
    assert [(result.slot, result.error) for result in outcome.results] == [(1, 1), (2, 0), (3, 1)]


def test_results_stream_out(guest: Any) -> None:
    guest.submit(template(0, [(SLOT, 4)], FENCE))
    record = repeat(0, 100_000, affine(1, 1))
    count = 0
    for reply in answers(guest.session, guest.group + 1, record):
        size = len(reply.results)
        assert size <= 1 << 20
        count += size // 16
    assert count == 100_000


def test_a_lost_session_is_answered_too(guest: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Templates are taken, and every result of a loop tells the sticky error; a loop without results costs nothing."""
    from farlane.backend.device.base import CudaError

    def fault(*args: Any, **kwargs: Any) -> None:
        raise CudaError(700, "fault", sticky=True)

    monkeypatch.setattr(guest.context, "synchronize", fault)
    assert guest.submit(encode("DEVICE_SYNCHRONIZE", 1, 0)).errors() == [700]
    monkeypatch.undo()
    free = encode("FREE", 0)
    outcome = guest.submit(
        template(0, [(SLOT, 4)], FENCE),
        repeat(0, 2, affine(1, 1)),
        template(1, [], free),
        repeat(1, 1 << 40),
        encode("DEVICE_RESET", 9, 0),
        repeat(0, 2, continued=True),
    )
    assert [(result.slot, result.error) for result in outcome.results] == [(1, 700), (2, 700), (9, 0), (3, 0), (4, 0)]


def test_an_endless_loop_is_interrupted(guest: Any) -> None:
    guest.submit(template(0, [(SLOT, 4)], FENCE))
    record = repeat(0, 1 << 40, affine(1, 1))
    interrupt = threading.Timer(0.2, guest.session.interrupt)
    interrupt.start()
    with pytest.raises(DeadTransport):
        list(guest.session.submit(guest.group + 1, record, True))
    interrupt.join()


def test_version_1_knows_no_loops(host: Any) -> None:
    from farlane.backend.host.greeting import Greeting

    for record in (
        template(0, [], FENCE),
        encode("PAYLOAD_DROP", 0, 0),
        encode("WRITE", 0, 0, 1, 1, 1, 1, tail=b"a", flags=1),
    ):
        session = host.admit(Greeting(1, 1)).session
        with pytest.raises(ProtocolError, match="version 1"):
            list(session.submit(1, record, True))
        host.end(session, "test")


@pytest.mark.usefixtures("early_plans")
def test_a_plan_outlives_what_is_made_beside_it(guest: Any) -> None:
    """Programs that give one template after the other would have each loop planned anew."""
    plans = guest.session._replay.plans
    body = encode("MEMSET", guest.base, 0, 64, 1, 0, 1, 1, 0)
    guest.submit(encode("ALLOCATE", guest.base, 4096), template(1, [], body), repeat(1, 1000))
    (first,) = plans(1)
    made = encode("STREAM_CREATE", 16, 0, 0, 0) + encode("EVENT_CREATE", 16, 0)
    guest.submit(template(2, [], body), repeat(2, 1000), made, repeat(1, 1000))
    assert plans(1) == [first]
    (second,) = plans(2)
    guest.submit(template(1, [], body), repeat(1, 1000))
    assert plans(1) != [first], "the template is another one"
    assert plans(2) == [second]
    guest.submit(encode("EVENT_DESTROY", 16, 0))
    assert not plans(1) + plans(2), "an object that they may hold has ended"


@pytest.mark.usefixtures("early_plans")
def test_what_could_not_be_planned_may_be_possible_later(guest: Any) -> None:
    plans = guest.session._replay.plans
    body = encode("MEMSET", guest.base, 0, 64, 1, 0, 1, 16, 0)
    guest.submit(encode("ALLOCATE", guest.base, 4096), template(1, [], body), repeat(1, 1000))
    assert not plans(1), "there is no such stream"
    guest.submit(encode("STREAM_CREATE", 16, 0, 0, 0), repeat(1, 1000))
    assert len(plans(1)) == 1


@pytest.mark.usefixtures("early_plans")
def test_a_loop_entered_with_other_handles_has_a_plan_for_each(guest: Any) -> None:
    plans = guest.session._replay.plans
    body = encode("MEMSET", 0, 0, 64, 1, 0, 1, 0, 0)
    streams = b"".join(encode("STREAM_CREATE", 16 + number, 0, 0, 0) for number in range(20))
    guest.submit(encode("ALLOCATE", guest.base, 4096), streams, template(1, [(8, 8), (48, 4)], body))

    def enter(stream: int, count: int = 60, step: int = 0) -> int:
        """Sets bytes of iterations one behind the other, in the stream."""
        guest.submit(repeat(1, count, affine(guest.base, 8), affine(stream, step)))
        return len(plans(1))

    assert enter(16) == 1
    assert enter(17) == 2
    assert (enter(16), enter(17, 4)) == (2, 2)
    assert enter(16, 3, 1) == 2, "the stream changes in the loop: it is walked"
    assert enter(18, 19) == 2, "not yet worth it"
    assert enter(18, 1) == 3
    assert [enter(16 + number) for number in range(20)][-1] == 16, "so many are kept"


@pytest.mark.usefixtures("early_plans")
def test_a_plan_is_worth_more_for_a_longer_body(guest: Any) -> None:
    """Each record of a body takes its time to plan: a body of 16 is planned later than one of one record, counted in records."""
    plans = guest.session._replay.plans
    guest.submit(encode("ALLOCATE", guest.base, 4096))
    walked = {}
    for number, records in enumerate((1, 16), 1):
        body = b"".join(encode("MEMSET", guest.base if k else 0, 64, 64, 1, 0, 1, 1, 0) for k in range(records))
        guest.submit(template(number, [(8, 8)], body))
        for iteration in range(1, 30):
            guest.submit(repeat(number, 1, affine(guest.base, 0)))
            if plans(number):
                walked[records] = iteration * records
                break
    assert walked == {1: 20, 16: 80}
