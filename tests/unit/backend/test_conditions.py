"""CONDITIONAL by the rules of protos/tape.md, "Conditions": on the simulated device's memory, which copies change instead of kernels."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from farlane.backend.device.sim import SimDevice
from farlane.backend.errors import ProtocolError
from farlane.backend.handlers.generated_operations import encode
from farlane.backend.host.host import Host

IF, WHILE, SWITCH = range(3)
NOTHING = 0xFFFF_FFFF
LEGACY = 1
CELLS = 512  # from the base: what the bodies count in


@pytest.fixture
def host() -> Iterator[Host]:
    host = Host(SimDevice())
    yield host
    host.close()


@pytest.fixture
def guest(new_guest: Callable[[], Any]) -> Any:
    guest = new_guest()
    guest.submit(encode("ALLOCATE", guest.base, 1024))
    return guest


def template(number: int, *body: bytes) -> bytes:
    content = b"".join(body)
    return encode("TEMPLATE", number, 0, len(content), 0, tail=content)


def conditional(condition: int, kind: int, *templates: int) -> bytes:
    tail = struct.pack(f"<{len(templates)}I", *templates)
    return encode("CONDITIONAL", condition, LEGACY, kind, 0, len(tail), tail=tail)


def write(guest: Any, offset: int, *values: int) -> bytes:
    data = struct.pack(f"<{len(values)}I", *values)
    return encode("WRITE", guest.base + offset, len(data), len(data), 1, LEGACY, len(data), tail=data)


def shift(guest: Any, offset: int, words: int) -> bytes:
    """Moves words one place towards the front."""
    start, size = guest.base + offset, 4 * words
    return encode("COPY", start, size, start + 4, size, size, 1, LEGACY, 0)


def word(guest: Any, offset: int) -> int:
    outcome = guest.submit(encode("READ", guest.base + offset, 4, 4, 1, LEGACY, 9))
    return int.from_bytes(outcome.results[0].data, "little")


def test_a_loop_goes_on_as_long_as_its_condition_says(guest: Any) -> None:
    numbers = list(range(100))
    records = (
        write(guest, 0, 5, 1, 9, 0, 4),
        write(guest, CELLS, *numbers),
        template(3072, shift(guest, 0, 4), shift(guest, CELLS, 99)),
        conditional(guest.base, WHILE, 3072),
    )
    assert guest.submit(*records).error == 0
    assert (word(guest, 0), word(guest, CELLS)) == (0, 3)
    guest.submit(conditional(guest.base, WHILE, 3072))
    assert word(guest, CELLS) == 3


@pytest.mark.parametrize(
    ("kind", "templates", "condition", "expected"),
    [
        (IF, (1,), 7, 1),
        (IF, (1,), 0, 0),
        (IF, (1, 2), 0, 2),
        (IF, (1, 2), 9, 1),
        (IF, (NOTHING, 2), 9, 0),
        (SWITCH, (1, 2, NOTHING, 3), 0, 1),
        (SWITCH, (1, 2, NOTHING, 3), 3, 3),
        (SWITCH, (1, 2, NOTHING, 3), 2, 0),
        (SWITCH, (1, 2, NOTHING, 3), 4, 0),
        (SWITCH, (1, 2, NOTHING, 3), 0xFFFF_FFFF, 0),
    ],
)
def test_what_is_done(guest: Any, kind: int, templates: tuple[int, ...], condition: int, expected: int) -> None:
    # A body changes the condition, which was read before.
    bodies = [template(number, write(guest, CELLS, number), write(guest, 0, 1)) for number in (1, 2, 3)]
    assert guest.submit(write(guest, 0, condition), *bodies, conditional(guest.base, kind, *templates)).error == 0
    assert word(guest, CELLS) == expected


def test_nested(guest: Any) -> None:
    inner = template(1, shift(guest, 64, 8), shift(guest, CELLS, 99))
    outer = template(2, write(guest, 64, 1, 1, 1, 0), conditional(guest.base + 64, WHILE, 1), shift(guest, 0, 8))
    records = (write(guest, 0, 1, 1, 0), write(guest, CELLS, *range(100)), inner, outer)
    assert guest.submit(*records, conditional(guest.base, WHILE, 2)).error == 0
    assert word(guest, CELLS) == 6
    # Within a loop, too, and in one of the tape's.
    guest.submit(write(guest, 64, 1, 0), template(3, conditional(guest.base + 64, IF, 1)), encode("REPEAT", 3, 0, 5))
    assert word(guest, CELLS) == 7


def test_a_failure_ends_the_loop(guest: Any) -> None:
    beyond = guest.base + (1 << 20)
    body = encode("MEMSET", beyond, 4, 4, 1, 0, 4, LEGACY, 0)
    outcome = guest.submit(write(guest, 0, 1), template(1, body), conditional(guest.base, WHILE, 1))
    assert outcome.error == 1
    assert guest.submit(conditional(beyond, WHILE, 1)).error == 1


@pytest.mark.parametrize(
    ("kind", "templates"),
    [(3, (1,)), (IF, ()), (IF, (1, 1, 1)), (WHILE, (1, 1)), (SWITCH, ()), (WHILE, (77,))],
)
def test_malformed(guest: Any, kind: int, templates: tuple[int, ...]) -> None:
    with pytest.raises(ProtocolError):
        guest.submit(write(guest, 0, 1), template(1, shift(guest, 0, 1)), conditional(guest.base, kind, *templates))


def test_depth_is_bounded(guest: Any) -> None:
    with pytest.raises(ProtocolError, match="8 deep"):
        guest.submit(write(guest, 0, 1), template(1, conditional(guest.base, WHILE, 1)), conditional(guest.base, IF, 1))
