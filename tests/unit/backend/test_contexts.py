"""Contexts on the tape: the sticky error of one leaves the others alone (protos/tape.md, "Contexts")."""

from __future__ import annotations

from typing import Any

import pytest
from farlane.backend.device.base import CudaError
from farlane.backend.errors import ProtocolError
from farlane.backend.handlers.generated_operations import encode

FENCE = encode("FENCE", 7, 0)
LAUNCH = encode("LAUNCH", 16, 1, 1, 1, 1, 32, 1, 1, 0, 16, tail=bytes(16))


def context(number: int, *, anew: bool = False) -> bytes:
    return encode("CONTEXT", number, 0, flags=int(anew))


@pytest.fixture
def lost(guest: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A guest whose context 17 is lost."""

    def fault(*args: Any) -> None:
        raise CudaError(700, "illegal address", sticky=True)

    guest.open_module()
    guest.open_function()
    with monkeypatch.context() as patch:
        patch.setattr(guest.context, "launch_from", fault)
        outcome = guest.submit(context(17), LAUNCH)
    assert (outcome.error, outcome.sticky) == (700, True)
    return guest


def test_others_go_on_and_it_stays_lost(lost: Any) -> None:
    before = lost.context.launches
    for other in (0, 18):
        outcome = lost.submit(context(other), LAUNCH, FENCE)
        assert (outcome.errors(), outcome.error, outcome.sticky) == ([0], 0, False)
    assert lost.context.launches == before + 2
    outcome = lost.submit(context(17), LAUNCH, FENCE)
    assert (outcome.errors(), outcome.error, outcome.sticky) == ([700], 700, True)
    assert lost.context.launches == before + 2
    assert lost.submit(FENCE).errors() == [700], "without a name the context stays"


def test_a_prepared_launch_does_not_slip_through(lost: Any) -> None:
    lost.submit(context(18), LAUNCH)
    before = lost.context.launches
    lost.submit(context(17), LAUNCH, LAUNCH)
    assert lost.context.launches == before


def test_what_there_is_stays_as_the_guest_thinks(lost: Any) -> None:
    lost.submit(context(17), encode("ALLOCATE", lost.base, 256), encode("EVENT_CREATE", 40, 0))
    outcome = lost.submit(context(0), encode("STREAM_WAIT_EVENT", 1, 40), encode("READ", lost.base, 0, 4, 1, 1, 9))
    assert (outcome.errors(), outcome.error) == ([0], 0)
    lost.submit(context(17), encode("FREE", lost.base))
    assert lost.submit(context(0), encode("ALLOCATE", lost.base, 256), FENCE).errors() == [0]


def test_it_begins_anew(lost: Any) -> None:
    assert lost.submit(context(17, anew=True), LAUNCH, FENCE).errors() == [0]
    lost.submit(context(0))
    assert lost.submit(context(17), FENCE).errors() == [0]


def test_a_reset_ends_all_errors(lost: Any) -> None:
    assert lost.submit(context(0), encode("DEVICE_RESET", 8, 0)).errors() == [0]
    assert lost.submit(context(17), FENCE).errors() == [0]


@pytest.mark.parametrize("records", [[FENCE, context(17)], [context(17), context(18)]])
def test_it_stands_first_in_its_group(guest: Any, records: list[bytes]) -> None:
    with pytest.raises(ProtocolError, match="first record"):
        guest.submit(*records)


def test_not_in_a_later_message_of_the_group(guest: Any) -> None:
    with pytest.raises(ProtocolError, match="first record"):
        guest.submit(FENCE, context(17), messages=2)


@pytest.mark.parametrize("number", [1, 15, 2**31, 2**32 - 1])
def test_numbers_are_those_that_a_guest_may_mint(guest: Any, number: int) -> None:
    with pytest.raises(ProtocolError, match="outside the range"):
        guest.submit(context(number))


def test_not_in_a_template(guest: Any) -> None:
    body = context(17)
    with pytest.raises(ProtocolError):
        guest.submit(encode("TEMPLATE", 0, 0, len(body), 0, tail=body))
