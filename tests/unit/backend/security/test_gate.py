"""Who comes through the gate: by token, by certificate, and when not; what is logged of them."""

from __future__ import annotations

import contextlib
import json
import queue
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from farlane.backend.host.greeting import Reason, Refused
from farlane.backend.security import gate as gates
from farlane.backend.security import tokens
from farlane.backend.security.folder import Folder, SecurityError
from farlane.backend.security.gate import Gate


@dataclass
class Caller:
    peer: str = "tls:192.0.2.1:5000"
    authorization: str | None = None
    certificate: bytes | None = None


class Clock:
    def __init__(self) -> None:
        self.now = time.time()

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    made = Folder(tmp_path / "host")
    made.create()
    tokens.initialize(made)
    return made


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def gate(folder: Folder, clock: Clock) -> Iterator[Gate]:
    made = Gate(folder, ["sim"], clock)
    yield made
    made.close()


@pytest.fixture
def known(folder: Folder) -> Callable[..., Caller]:
    def make(name: str = "bob", **limits: Any) -> Caller:
        token = tokens.new_token()
        tokens.create(folder, tokens.Entry(name, tokens.digest_of(token.encode()), "token", time.time(), **limits))
        return Caller(authorization=f"Bearer {token}")

    return make


def unended(why: str) -> None:
    raise AssertionError(why)


class Stays:
    """Open sessions, and why the gate has ended them."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate
        self.ended: queue.SimpleQueue[tuple[str, str]] = queue.SimpleQueue()

    def open(self, name: str, caller: Caller) -> None:
        self._gate.opened(self._gate.enter(caller), lambda why: self.ended.put((name, why)), session=name)

    def next(self) -> tuple[str, str]:
        return self.ended.get(timeout=5)

    def are_left_alone(self) -> bool:
        time.sleep(4 * gates.WATCH_SECONDS)
        return self.ended.empty()


def test_a_revoked_token_ends_its_sessions(gate: Gate, known: Callable[..., Caller], folder: Folder) -> None:
    stays, bob = Stays(gate), known()
    stays.open("s1", bob)
    stays.open("s2", known("eve"))
    stays.open("s3", bob)
    gate.left("s3")
    assert stays.are_left_alone()
    tokens.revoke(folder, "bob")
    why = "the guest's token (bob) was revoked"
    assert stays.next() == ("s1", why)
    assert stays.are_left_alone()
    assert (gate.left("s1"), gate.left("s1"), gate.left("s2")) == (why, "", "")


def test_a_token_whose_name_another_one_has_ends_its_sessions(
    gate: Gate, known: Callable[..., Caller], folder: Folder
) -> None:
    stays = Stays(gate)
    stays.open("s1", known())
    tokens.revoke(folder, "bob")
    stays.open("s2", known())
    assert stays.next() == ("s1", "the guest's token (bob) was revoked")
    assert stays.are_left_alone()


def test_an_expired_token_ends_its_sessions(gate: Gate, known: Callable[..., Caller], clock: Clock) -> None:
    stays = Stays(gate)
    stays.open("s1", known(expires=clock.now + 10))
    clock.now += 9
    assert stays.are_left_alone()
    clock.now += 1
    assert stays.next() == ("s1", "the guest's token (bob) has expired")


def test_a_list_that_cannot_be_read_ends_only_what_expires(
    gate: Gate, known: Callable[..., Caller], folder: Folder, clock: Clock
) -> None:
    stays = Stays(gate)
    stays.open("s1", known(expires=clock.now + 10))
    folder.tokens.write_text("nothing")
    assert stays.are_left_alone()
    clock.now += 10
    assert stays.next() == ("s1", "the guest's token (bob) has expired")


def refusal(gate: Gate, caller: Caller) -> str:
    with pytest.raises(Refused) as caught:
        gate.enter(caller)
    assert caught.value.reason is Reason.UNAUTHORIZED
    return caught.value.message


def events(folder: Folder) -> list[dict[str, Any]]:
    return [json.loads(line) for line in folder.audit.read_text().splitlines()]


def test_a_token_that_was_made_after_the_start_lets_in(gate: Gate, known: Callable[..., Caller]) -> None:
    entry = gate.enter(known(memory=1 << 20)).entry
    assert entry is not None
    assert (entry.name, entry.memory) == ("bob", 1 << 20)


@pytest.mark.parametrize("peer", ["unix:", "tcp:127.0.0.1:5"])
def test_other_endpoints_ask_for_nothing(gate: Gate, folder: Folder, peer: str) -> None:
    grant = gate.enter(Caller(peer))
    assert (grant.entry, grant.memory) == (None, None)
    with gate.session(grant):
        gate.opened(grant, unended, session="s1")
        assert gate.left("s1") == ""
        gate.ended(grant)
    assert events(folder) == []


@pytest.mark.parametrize("shown", [None, "", "Basic Ym9i", "bearer x"])
def test_nothing_shown(gate: Gate, shown: str | None) -> None:
    assert "shows no token" in refusal(gate, Caller(authorization=shown))


@pytest.mark.parametrize("shown", ["Bearer ", "Bearer farlane-guess", "Bearer \u00fc", f"Bearer {'x' * 500}"])
def test_a_wrong_token(gate: Gate, known: Callable[..., Caller], shown: str) -> None:
    known()
    assert "does not know the guest's token" in refusal(gate, Caller(authorization=shown))


def test_the_digest_is_no_token(gate: Gate, known: Callable[..., Caller], folder: Folder) -> None:
    known()
    stored = tokens.read(folder)[0].digest
    assert "does not know" in refusal(gate, Caller(authorization=f"Bearer {stored}"))


def test_an_expired_token(gate: Gate, known: Callable[..., Caller], clock: Clock) -> None:
    caller = known(expires=clock.now + 10)
    gate.enter(caller)
    clock.now += 10
    assert "has expired" in refusal(gate, caller)


def test_a_revoked_token(gate: Gate, known: Callable[..., Caller], folder: Folder) -> None:
    caller = known()
    gate.enter(caller)
    tokens.revoke(folder, "bob")
    assert "was revoked" in refusal(gate, caller)


def test_a_certificate_is_no_token_and_a_token_no_certificate(gate: Gate, folder: Folder) -> None:
    secret = b"a certificate"
    tokens.create(folder, tokens.Entry("carol", tokens.digest_of(secret), "certificate", time.time()))
    entry = gate.enter(Caller(certificate=secret)).entry
    assert entry is not None
    assert entry.name == "carol"
    assert "token" in refusal(gate, Caller(authorization=f"Bearer {secret.decode()}"))
    assert "client certificate" in refusal(gate, Caller(certificate=b"another"))


def test_tokens_that_cannot_be_read_let_no_guest_in(gate: Gate, known: Callable[..., Caller], folder: Folder) -> None:
    caller = known()
    gate.enter(caller)
    folder.tokens.write_text("{")
    assert "does not know" in refusal(gate, caller)


def test_who_fails_too_often_waits(gate: Gate, known: Callable[..., Caller], clock: Clock, folder: Folder) -> None:
    caller = known()
    for _ in range(gates.FAILURES):
        refusal(gate, Caller(authorization="Bearer guess"))
    assert "try again in 60 seconds" in refusal(gate, caller), "from the same address not even the right one"
    gate.enter(Caller("tls:192.0.2.2:5000", caller.authorization))
    clock.now += gates.FAILURE_SECONDS
    gate.enter(caller)
    assert [each["waits"] for each in events(folder)] == [*[False] * (gates.FAILURES - 1), True]


def test_addresses_of_one_ipv6_network_fail_together(gate: Gate) -> None:
    for number in range(gates.FAILURES):
        refusal(gate, Caller(f"tls:[2001:db8::{number:x}]:5000"))
    assert "try again" in refusal(gate, Caller("tls:[2001:db8::ffff:1]:6000"))
    assert "shows no token" in refusal(gate, Caller("tls:[2001:db8:0:1::1]:5000"))


def test_addresses_are_remembered_within_bounds(gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gates, "ADDRESSES", 3)
    for number in range(10):
        refusal(gate, Caller(f"tls:192.0.2.{number}:1"))
    assert len(gate._failures) == 3


def test_sessions_at_once(gate: Gate, known: Callable[..., Caller]) -> None:
    grant = gate.enter(known(sessions=1))
    with gate.session(grant), pytest.raises(Refused, match="allows 1 sessions at once"), gate.session(grant):
        pass
    with gate.session(grant):
        pass


def test_devices(gate: Gate, known: Callable[..., Caller]) -> None:
    with (
        pytest.raises(Refused, match="is for cupy; this host has sim"),
        gate.session(gate.enter(known(devices=("cupy",)))),
    ):
        pass
    with gate.session(gate.enter(known("other", devices=("cupy", "sim")))):
        pass


def test_the_audit_log(gate: Gate, known: Callable[..., Caller], folder: Folder) -> None:
    caller = known()
    grant = gate.enter(caller)
    with gate.session(grant):
        gate.opened(grant, unended, session="s1")
        gate.ended(grant, session="s1", why="goodbye")
    with contextlib.suppress(Refused), gate.session(grant):
        raise Refused(Reason.BUSY, "no room")
    refusal(gate, Caller())
    lines = events(folder)
    assert [(each["event"], each["who"], each["from"]) for each in lines] == [
        ("granted", "bob", caller.peer),
        ("ended", "bob", caller.peer),
        ("refused", "bob", caller.peer),
        ("refused", None, caller.peer),
    ]
    assert lines[1]["why"] == "goodbye"
    assert lines[1]["seconds"] >= 0
    assert lines[2]["why"] == "no room"
    assert caller.authorization is not None
    assert caller.authorization.removeprefix("Bearer ") not in folder.audit.read_text()
    assert folder.audit.stat().st_mode & 0o777 == 0o600


def test_a_folder_that_others_may_look_into(folder: Folder) -> None:
    folder.path.chmod(0o750)
    with pytest.raises(SecurityError, match="others may look into"):
        Gate(folder)
