"""Files that are replaced whole."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest
from farlane.backend.system import files


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


def test_a_fifo_is_written_to_and_stays(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append(fifo.read_bytes()), daemon=True)
    reader.start()
    files.replace(fifo, b"bytes")
    reader.join(10)
    assert read == [b"bytes"]
    assert fifo.is_fifo()
    assert [item.name for item in tmp_path.iterdir()] == ["fifo"]


@pytest.mark.parametrize("there", [True, False])
def test_of_a_symbolic_link_the_target_is_replaced(there: bool, tmp_path: Path) -> None:
    link, target = tmp_path / "link", tmp_path / "folder" / "target"
    target.parent.mkdir()
    link.symlink_to("folder/target")
    if there:
        target.write_bytes(b"old")
    files.replace(link, b"new")
    assert link.is_symlink()
    assert target.read_bytes() == b"new"
    assert [item.name for item in target.parent.iterdir()] == ["target"]
