"""The user's settings: off at first, switched on and off, the environment before the file, damage told."""

import argparse
from pathlib import Path

import pytest
from farlane.frontend import settings
from farlane.frontend.commands.setup import command
from farlane.frontend.errors import UserError


def test_interoperability_is_off_until_it_is_switched_on(tmp_path: Path) -> None:
    environment = {"XDG_CONFIG_HOME": str(tmp_path)}
    assert not settings.interop(environment)
    assert settings.set_interop(environment, on=True) == tmp_path / "farlane" / "settings.json"
    assert settings.interop(environment)
    assert not settings.interop(environment | {settings.INTEROP: "0"})
    settings.set_interop(environment, on=False)
    assert not settings.interop(environment)
    assert settings.interop(environment | {settings.INTEROP: "1"})


@pytest.mark.parametrize("text", ["{", "[]", '{"interop": 1}', "\xff"])
def test_a_damaged_file_is_told(tmp_path: Path, text: str) -> None:
    file = settings.path({"XDG_CONFIG_HOME": str(tmp_path)})
    file.parent.mkdir()
    file.write_text(text)
    with pytest.raises(UserError, match=r"settings\.json"):
        settings.interop({"XDG_CONFIG_HOME": str(tmp_path)})


def test_a_wrong_value_in_the_environment_is_reported() -> None:
    with pytest.raises(UserError, match="neither 1 nor 0"):
        settings.interop({settings.INTEROP: "yes"})


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot write"):
        settings.set_interop({"XDG_CONFIG_HOME": str(tmp_path / "file")}, on=True)


def test_the_command_writes_and_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv(settings.INTEROP, raising=False)
    for interop, said in ((None, "off"), (True, "on"), (None, "on"), (False, "off")):
        assert command.run(argparse.Namespace(interop=interop, json=False)) == 0
        assert capsys.readouterr().out.endswith(f"interop: {said}\n")
