"""What is kept of tokens, and in which way: names, revocation, files that are none."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from farlane.backend.security import tokens
from farlane.backend.security.folder import Folder, SecurityError, default_folder


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    made = Folder(tmp_path / "host")
    made.create()
    tokens.initialize(made)
    return made


def entry(name: str = "bob", token: str = "secret") -> tokens.Entry:
    return tokens.Entry(name, tokens.digest_of(token.encode()), "token", time.time())


def test_what_is_written_is_read_and_holds_no_token(folder: Folder) -> None:
    token = tokens.new_token()
    made = tokens.Entry(
        "bob", tokens.digest_of(token.encode()), "token", 1.0, 2.0, memory=5, sessions=6, priority=7, devices=("sim",)
    )
    tokens.create(folder, made)
    assert tokens.read(folder) == [made]
    assert token not in folder.tokens.read_text()
    assert folder.tokens.stat().st_mode & 0o777 == 0o600


def test_tokens_differ() -> None:
    assert len({tokens.new_token() for _ in range(100)}) == 100


@pytest.mark.parametrize("name", ["", "a b", "-x", "x" * 65, "a/b", "\u00e4"])
def test_names_that_are_none(folder: Folder, name: str) -> None:
    with pytest.raises(SecurityError, match="is no name of a token"):
        tokens.create(folder, entry(name))


def test_a_name_is_taken_until_it_is_revoked(folder: Folder) -> None:
    tokens.create(folder, entry())
    with pytest.raises(SecurityError, match="already"):
        tokens.create(folder, entry(token="other"))
    tokens.revoke(folder, "bob")
    with pytest.raises(SecurityError, match="no token named bob"):
        tokens.revoke(folder, "bob")
    tokens.create(folder, entry(token="other"))
    assert [(each.digest, each.revoked) for each in tokens.read(folder)] == [(tokens.digest_of(b"other"), None)]


@pytest.mark.parametrize(
    "content",
    ["", "{", "[]", '{"version": 2, "guests": []}', '{"version": 1, "guests": [{}]}', '{"version": 1, "guests": [1]}'],
)
def test_a_file_that_is_none(folder: Folder, content: str) -> None:
    folder.tokens.write_text(content)
    with pytest.raises(SecurityError, match="cannot read"):
        tokens.read(folder)


def test_a_file_that_is_too_large(folder: Folder) -> None:
    with folder.tokens.open("wb") as file:
        file.truncate(tokens.FILE_BYTES + 1)
    with pytest.raises(SecurityError, match="larger than"):
        tokens.read(folder)


def test_an_unknown_field_is_refused(folder: Folder) -> None:
    """A later version's limits are not overlooked."""
    tokens.create(folder, entry())
    content = json.loads(folder.tokens.read_text())
    content["guests"][0]["night_only"] = True
    folder.tokens.write_text(json.dumps(content))
    with pytest.raises(SecurityError, match="cannot read"):
        tokens.read(folder)


def test_a_folder_is_not_taken_over(folder: Folder) -> None:
    with pytest.raises(SecurityError, match="not empty"):
        folder.create()


def test_where_the_folder_is() -> None:
    assert default_folder({"XDG_CONFIG_HOME": "/c"}).path == Path("/c/farlane/host")
    assert default_folder({"FARLANE_HOST_FOLDER": "/f", "XDG_CONFIG_HOME": "/c"}).path == Path("/f")
