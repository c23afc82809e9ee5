"""The users of workers: what may be asked for, and that each is given to one at a time."""

from __future__ import annotations

import argparse
import os
import pwd
import threading
from pathlib import Path

import pytest
from farlane.backend.workers import users
from farlane.backend.workers.users import NoUser, User, Users


@pytest.mark.parametrize(
    "text", ["0", "0-5", "5-4", "-5", "1-70000", "4294967295", "no such user", "", "root", "1-", "99999999999"]
)
def test_what_is_none(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError):
        users.parse(text)


def test_what_may_be_asked_for() -> None:
    assert users.parse("off") == users.OFF
    known = next(each for each in pwd.getpwall() if each.pw_uid)
    for text, first, words in (
        ("70000-70009", User(70000, 70000), "users 70000 to 70009"),
        ("70000", User(70000, 70000), "user 70000"),
        (known.pw_name, User(known.pw_uid, known.pw_gid), f"user {known.pw_uid}"),
    ):
        found = users.parse(text)
        assert isinstance(found, Users)
        assert (found.first, str(found)) == (first, words)


def test_each_is_given_once() -> None:
    of = Users([User(uid, uid) for uid in range(1, 65)])
    taken: list[User] = []
    threads = [threading.Thread(target=lambda: taken.extend(of.take() for _ in range(8))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(taken)) == len(taken) == 64
    with pytest.raises(NoUser, match="users 1 to 64 has a process already"):
        of.take()
    of.give(User(7, 7))
    assert of.take() == User(7, 7)


def test_one_is_shared() -> None:
    one = Users([User(5, 6)])
    assert one.take() == one.take() == User(5, 6)


def test_who_can_run_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    own = User(os.geteuid(), os.getegid())
    monkeypatch.setattr(User, "arguments", lambda _: {})
    assert users.hindrance(own, os.environ) == ""
    assert users.hindrance(own, {"PYTHONHOME": str(tmp_path)}), "it finds no modules"
    monkeypatch.setattr("sys.executable", str(tmp_path / "python"))
    assert "No such file" in users.hindrance(own, os.environ)
