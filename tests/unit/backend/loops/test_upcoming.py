"""What the replay tells a device of the launches to come: always the ones that come, however the tape says them."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from farlane.analyzer.slices import encode as forms
from farlane.analyzer.slices.form import Argument, Block, Call, Called, Input, Origin, Slice
from farlane.backend.device.null import NullContext
from farlane.backend.handlers.generated_operations import encode
from tape_client.loops import content, slice_content

FUNCTION, STREAM = 16, 1
MOST = 256  # launches that are looked at


def launch(*parameters: int) -> bytes:
    tail = struct.pack(f"<{len(parameters)}Q", *parameters)
    return encode("LAUNCH", FUNCTION, STREAM, 1, 1, 1, 32, 1, 1, 0, len(tail), tail=tail)


PARAMETERS = len(launch(0)) - 8  # where they begin


def template(number: int, holes: list[tuple[int, int]], *body: bytes) -> bytes:
    content = b"".join(struct.pack("<IB3x", *hole) for hole in holes) + b"".join(body)
    return encode("TEMPLATE", number, len(holes), len(content), 0, tail=content)


def repeat(number: int, count: int, *starts_and_steps: int) -> bytes:
    columns = b"".join(
        struct.pack("<BBHIQQ", 0, 0, 0, 0, *starts_and_steps[at : at + 2]) for at in range(0, len(starts_and_steps), 2)
    )
    return encode("REPEAT", number, len(columns), count, tail=columns)


class Listening:
    """Takes the place of a context's methods; checks that what was expected is what comes."""

    def __init__(self, guest: Any) -> None:
        self.context = guest.context
        self.context.direct.disable()
        self.context.expect = self.expect
        self.context.launch_from = self.launch_from
        self.context.repeat = lambda body, columns, results: None
        self.expected: list[int] = []
        self.seen: list[int] = []
        self.told = 0
        self.unexpected = 0

    def expect(self, launches: Sequence[bytes]) -> None:
        self.told += 1
        assert 0 < len(launches) <= MOST
        self.expected = [struct.unpack("<Q", each)[0] for each in launches]

    def launch_from(self, function: Any, shape: Any, message: memoryview, begin: int, end: int, stream: Any) -> None:
        (value,) = struct.unpack("<Q", message[begin:end])
        if self.expected:
            assert value == self.expected.pop(0)
        else:
            self.unexpected += 1
        self.seen.append(value)


@pytest.fixture
def listening(new_guest: Callable[[], Any], monkeypatch: pytest.MonkeyPatch) -> tuple[Any, Listening]:
    monkeypatch.setattr(NullContext, "looks_ahead", True)
    guest = new_guest()
    guest.open_module()
    guest.open_function()
    return guest, Listening(guest)


def test_a_message_and_a_loop_in_it(listening: tuple[Any, Listening]) -> None:
    guest, device = listening
    one = template(0, [(PARAMETERS, 8)], launch(0))
    guest.submit(one, launch(5), encode("FENCE", 1, 0), launch(6), repeat(0, 4, 100, 3), launch(7))
    assert device.seen == [5, 6, 100, 103, 106, 109, 7]
    assert device.unexpected == 0


def test_long_and_nested_loops(listening: tuple[Any, Listening]) -> None:
    guest, device = listening
    inner = template(0, [(PARAMETERS, 8)], launch(0))
    body = repeat(0, 5, 0, 2)
    # The inner column's start is the outer loop's hole: its header, then start and step.
    start = len(body) - 16
    guest.submit(inner, template(1, [(start, 8)], body, launch(9)), repeat(1, 120, 1000, 10))
    expected = [value for k in range(120) for value in (*range(1000 + 10 * k, 1010 + 10 * k, 2), 9)]
    assert device.seen == expected
    assert device.unexpected == 0
    assert device.told < 20, "not for each iteration"


def test_a_loop_that_is_longer_than_can_be_seen(listening: tuple[Any, Listening]) -> None:
    guest, device = listening
    inner = template(0, [(PARAMETERS, 8)], launch(0))
    guest.submit(inner, template(1, [], repeat(0, 700, 0, 1)), repeat(1, 2))
    assert device.seen == [*range(700), *range(700)]
    assert device.unexpected == 0, "the inner loop looks for itself"


def test_nobody_asks_devices_that_do_not_want_to_know(new_guest: Callable[[], Any]) -> None:
    guest = new_guest()
    guest.open_module()
    guest.open_function()
    device = Listening(guest)
    guest.submit(launch(5), launch(6))
    assert (device.told, device.seen) == (0, [5, 6])


def test_a_loop_that_a_slice_decides(listening: tuple[Any, Listening]) -> None:
    """Its launches are taken to be those of the iteration before: right where nothing changes, advice where it does."""
    guest, device = listening
    values = (Input(Origin.REGISTER, 3, 0),)
    blocks = (Block((), Called(0, 1)), Block((), Called(1, 0)))
    calls = (Call(0x1000, "launch", (Argument(8, 8, 0),)), Call(0x1000, "launch"))
    data = forms.write(Slice(0x1000, 1, 0, values, blocks, calls))
    made = slice_content(data, [0, 1], [(0, 0, 0, 0)])
    whole = content([(PARAMETERS, 8)], launch(0), launch(9))
    records = (
        encode("TEMPLATE", 0, 1, len(whole), 0, tail=whole),
        encode("SLICE", 0, 0, len(data), len(made), tail=made),
        encode("WHILE", 0, 5, 500, 0, 8, tail=struct.pack("<Q", 7)),
        launch(8),
    )
    guest.submit(*records[:-1])
    assert device.seen == [7, 9] * 500
    assert device.unexpected == 2, "the first iteration's"
    assert device.told < 12, "not for each iteration"
    guest.submit(*records[2:])
    assert device.seen[1000:] == [*[7, 9] * 500, 8]
