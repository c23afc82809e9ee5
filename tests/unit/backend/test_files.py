"""Files that are replaced whole."""

from __future__ import annotations

from pathlib import Path

import pytest
from farlane.backend import files


def test_a_file_and_its_folder_come_into_being_and_only_the_file_is_there(tmp_path: Path) -> None:
    path = tmp_path / "new" / "file"
    files.replace(path, b"one")
    files.replace(path, b"two")
    assert path.read_bytes() == b"two"
    assert [item.name for item in path.parent.iterdir()] == ["file"]
    assert path.parent.stat().st_mode & 0o777 == 0o700


def test_what_cannot_be_put_in_place_is_not_left_behind(tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "inside").touch()
    with pytest.raises(IsADirectoryError):
        files.replace(tmp_path / "taken", b"bytes")
    assert [item.name for item in tmp_path.iterdir()] == ["taken"]
