"""Saved sessions of processes: the host passes messages on, and believes the process nothing about whose session it is."""

from __future__ import annotations

import random
from collections.abc import Iterable

import pytest
from farlane.backend.checkpoint.passing import pass_restore, pass_save
from farlane.backend.checkpoint.talk import Malformed
from farlane.backend.device.saved import Unsaveable
from farlane.v1 import checkpoint_pb2 as pb

BEGIN = pb.SaveRequest.Begin(session="s1", leave=True, rounds=1)
ASKED = [
    pb.SaveRequest(have=bytes(32)),
    pb.SaveRequest(start=True),
    pb.SaveRequest(taken=True),
    pb.SaveRequest(kept=True),
]
CLAIMED = pb.SavedSession(version=1, session="other", secret=bytes(32), owner="other", quota=1 << 40, tape_version=6)
GIVEN = [
    pb.SavePart(blobs=pb.Blobs(data=[b"page"])),
    pb.SavePart(round=True),
    pb.SavePart(session=CLAIMED.SerializeToString()),
    pb.SavePart(figures=pb.SavePart.Figures(pages=1)),
    pb.SavePart(paused=0.5),
]


class Said:
    """A side that says this, and keeps what the other one says."""

    def __init__(self, *messages: pb.SaveRequest | pb.SavePart | pb.RestorePart | pb.RestoreReply | bytes) -> None:
        self._rest = [each if isinstance(each, bytes) else each.SerializeToString() for each in messages]
        self.told: list[bytes] = []

    def send(self, data: bytes) -> None:
        self.told.append(data)

    def receive(self, seconds: float) -> bytes:
        if not self._rest:
            raise TimeoutError
        return self._rest.pop(0)


def complete(saved: pb.SavedSession) -> None:
    saved.session, saved.secret, saved.owner, saved.quota = "s1", b"s" * 32, "alice", 7


def saved_by(given: Iterable[pb.SavePart | bytes]) -> tuple[Said, Said, list[str], float]:
    caller, process, left = Said(*ASKED), Said(*given), list[str]()
    seconds = pass_save(caller, process, BEGIN, complete, lambda: left.append("left"))
    return caller, process, left, seconds


def test_whose_session_it_is_the_host_says() -> None:
    caller, process, left, seconds = saved_by(GIVEN)
    assert (seconds, left) == (0.5, ["left"])
    assert [pb.SaveRequest.FromString(data) for data in process.told] == [pb.SaveRequest(begin=BEGIN), *ASKED]
    parts = [pb.SavePart.FromString(data) for data in caller.told]
    assert [part.WhichOneof("kind") for part in parts] == ["blobs", "round", "session", "figures", "paused"]
    saved = pb.SavedSession.FromString(parts[2].session)
    assert (saved.session, saved.owner, saved.quota, saved.tape_version) == ("s1", "alice", 7, 6)


@pytest.mark.parametrize(
    "lie", [b"\xff\xff", pb.SavePart(), pb.SavePart(session=b"\xff\xff"), pb.SavePart(refused="no")]
)
def test_what_is_no_session_is_refused_and_leaves_nothing(lie: pb.SavePart | bytes) -> None:
    for at in range(3):
        caller, left = Said(*ASKED), list[str]()
        given = [*GIVEN[:at], lie, *GIVEN[3:]]
        with pytest.raises(Unsaveable):
            pass_save(caller, Said(*given), BEGIN, complete, lambda left=left: left.append("left"))  # type: ignore[misc]
        assert not left


def test_any_bytes_of_a_process_end_in_a_sentence_or_in_a_save() -> None:
    chance = random.Random(7)
    outcomes = {"saved": 0, "refused": 0}
    for _ in range(2000):
        given = [part.SerializeToString() for part in GIVEN]
        at = chance.randrange(len(given))
        changed = bytearray(given[at])
        changed[chance.randrange(len(changed))] = chance.randrange(256)
        given[at] = bytes(changed)
        try:
            caller, _, _, _ = saved_by(given)
            outcomes["saved"] += 1
        except (Unsaveable, Malformed, TimeoutError):
            outcomes["refused"] += 1
            continue
        sessions = [part.session for part in map(pb.SavePart.FromString, caller.told) if part.session]
        assert all(pb.SavedSession.FromString(each).owner == "alice" for each in sessions)
    assert min(outcomes.values()) > 100, outcomes


def test_a_session_that_is_not_for_this_host_is_not_made() -> None:
    whole = pb.SavedSession(version=1, session="s", secret=bytes(32), replay=pb.SavedSession.Replay(group=1))
    parts = [pb.RestorePart(ask=True), pb.RestorePart(session=whole.SerializeToString()), pb.RestorePart(end=True)]

    def refuse(saved: pb.SavedSession) -> None:
        raise Unsaveable("not here")

    taken = pb.RestoreReply(taken=True)
    caller, process = Said(*parts), Said(taken)
    with pytest.raises(Unsaveable, match="not here"):
        pass_restore(caller, process, refuse)
    assert [pb.RestorePart.FromString(data).end for data in process.told] == [False, False]
    caller, process = Said(*parts), Said(taken)
    assert pass_restore(caller, process, lambda saved: None).session == "s"
    assert pb.RestorePart.FromString(process.told[-1]).end
    assert caller.told == [taken.SerializeToString()]
