"""Compiled code that the host keeps for guests: each finds its own alone, within bounds."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from farlane.backend.workers import code
from farlane.backend.workers.code import GuestCode
from farlane.hosturl.variables import CACHE

NAME, OTHER = "a" * 64, "b" * 64


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(CACHE, str(tmp_path))
    return tmp_path / "guests"


def test_a_guest_finds_its_own_alone() -> None:
    GuestCode("bob").keep(NAME, b"code")
    assert GuestCode("bob").find(NAME) == b"code"
    assert GuestCode("bob").find(OTHER) is None
    assert GuestCode("eve").find(NAME) is None
    GuestCode("eve").keep(NAME, b"poison")
    assert GuestCode("bob").find(NAME) == b"code"


@pytest.mark.parametrize("name", ["", "a", f"../{'a' * 61}", "A" * 64, f"{NAME}\n", "../eve/" + NAME])
def test_names_that_are_none(name: str) -> None:
    with pytest.raises(ValueError, match="is no name"):
        GuestCode("bob").find(name)
    with pytest.raises(ValueError, match="is no name"):
        GuestCode("bob").keep(name, b"code")


def test_bounds(monkeypatch: pytest.MonkeyPatch, root: Path) -> None:
    monkeypatch.setattr(code, "ENTRY_BYTES", 100)
    monkeypatch.setattr(code, "SESSION_BYTES", 150)
    monkeypatch.setattr(code, "GUEST_BYTES", 250)
    with pytest.raises(ValueError, match="101 bytes"):
        GuestCode("bob").keep(NAME, bytes(101))
    session = GuestCode("bob")
    session.keep(NAME, bytes(100))
    session.keep(OTHER, bytes(100))
    assert session.find(OTHER) is None, "it has given what it may"
    for index in range(4):
        GuestCode("bob").keep(f"{index:064x}", bytes(100))
    assert sum(each.stat().st_size for each in (root / "bob").iterdir()) <= 250


def test_one_session_of_a_guest_compiles(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second, stranger = GuestCode("bob"), GuestCode("bob"), GuestCode("eve")
    assert first.claim(NAME)
    assert first.claim(NAME)
    assert not second.claim(NAME)
    assert second.claim(OTHER)
    assert stranger.claim(NAME), "what others compile is nothing to it"
    first.keep(NAME, b"code")
    assert second.claim(NAME), "it is there: who asks nevertheless may"
    second.close()
    assert first.claim(OTHER), "a session that has ended compiles nothing"
    assert first.claim(NAME)
    monkeypatch.setattr(code, "CLAIM_SECONDS", -1.0)
    assert first.claim(NAME)
    third = GuestCode("bob")
    assert third.claim(NAME), "the first one has taken too long"
    for session in (first, stranger, third):
        session.close()
    with pytest.raises(ValueError, match="is no name"):
        first.claim("../eve/" + NAME)


def test_claims_are_bounded() -> None:
    first, second = GuestCode("bob"), GuestCode("bob")
    names = [f"{number:064x}" for number in range(code.MOST_CLAIMS + 1)]
    assert all(map(first.claim, names))
    assert [second.claim(name) for name in names] == [False] * code.MOST_CLAIMS + [True]
    first.close()
    assert first.claim(names[0])
    assert second.claim(names[0]), "it had ended"
    second.close()
    assert not code._claims


def test_what_has_not_been_used_for_long_goes(root: Path) -> None:
    for guest in ("bob", "eve"):
        GuestCode(guest).keep(NAME, b"code")
    old = time.time() - code.FORGOTTEN_SECONDS - 1
    for guest in ("bob", "eve"):
        os.utime(root / guest, (old, old))
    GuestCode("eve")  # it comes again
    code.forget_old()
    assert [each.name for each in root.iterdir()] == ["eve"]
