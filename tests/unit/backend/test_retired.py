"""RUN_AHEAD and KEEP_AHEAD, which earlier guests send: the host does nothing for them (protos/tape.md, "Retired operations")."""

from __future__ import annotations

from typing import Any

import pytest
from farlane.backend.errors import ProtocolError
from farlane.backend.handlers.generated_operations import encode

COLUMNS = bytes(64)


def run_ahead(slot: int = 9) -> bytes:
    return encode("RUN_AHEAD", 0, len(COLUMNS), 100, 1_000_000, slot, 0, tail=COLUMNS)


def keep_ahead(reads: int) -> bytes:
    return encode("KEEP_AHEAD", reads, 0)


def test_nothing_is_done_and_the_session_goes_on(guest: Any) -> None:
    """An earlier guest takes a group without rows for a run of no iterations."""
    guest.submit(encode("ALLOCATE", guest.base, 256))
    read = encode("READ", guest.base, 4, 4, 1, 1, 8)
    assert len(guest.submit(read).results) == 1
    ran = guest.submit(run_ahead())
    assert (ran.results, ran.error) == ([], 0)
    again = guest.submit(keep_ahead(0), read)
    assert ([result.slot for result in again.results], again.error) == ([8], 0)


def test_what_was_not_done_cannot_be_kept(guest: Any) -> None:
    guest.submit(run_ahead())
    with pytest.raises(ProtocolError, match="KEEP_AHEAD of 1 reads"):
        guest.submit(keep_ahead(1))


@pytest.mark.parametrize("record", [run_ahead(), keep_ahead(0)], ids=["RUN_AHEAD", "KEEP_AHEAD"])
def test_no_body_holds_them(guest: Any, record: bytes) -> None:
    with pytest.raises(ProtocolError):
        guest.submit(encode("TEMPLATE", 0, 0, len(record), 0, tail=record))
