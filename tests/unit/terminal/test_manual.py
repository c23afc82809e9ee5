"""The manual pages: they say what the parsers say, `man` renders them without a warning, and they hold what users look for."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from farlane.frontend import shim_library
from farlane.frontend.devtools import manual

needs_man = pytest.mark.skipif(shutil.which("man") is None, reason="man is not installed")


def rendered(page: Path) -> str:
    environment = os.environ | {"MANWIDTH": "100", "LC_ALL": "C.UTF-8", "MAN_KEEP_FORMATTING": ""}
    command = ["man", "--warnings=w", "-l", str(page)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_the_pages_say_what_the_parsers_say() -> None:
    assert {path.name: path.read_text() for path in manual.FOLDER.iterdir()} == manual.pages()


@needs_man
def test_man_renders_each_page() -> None:
    for path in sorted(manual.FOLDER.glob("*.1")):
        text = rendered(path)
        for heading in ("NAME", "SYNOPSIS", "EXAMPLES", "EXIT STATUS"):
            assert f"\n{heading}\n" in text, path.name


@needs_man
def test_man_renders_what_roff_would_take_for_itself(tmp_path: Path) -> None:
    page = tmp_path / "page.1"
    help_text = (
        "usage: farlane-run [OPTION ...]\n\n.Runs \\a 'program'\n\n  --host URL    -N and \\n\n                .dots\n"
    )
    page.write_text(manual.launcher_page(help_text))
    text = rendered(page)
    for part in (".Runs \\a 'program'", "--host URL", "-N and \\n .dots"):
        assert part in text


@needs_man
def test_the_launchers_page(tmp_path: Path) -> None:
    launcher = shim_library.FOLDER / shim_library.LAUNCHER
    page = tmp_path / "farlane-run.1"
    page.write_text(
        manual.launcher_page(subprocess.run([launcher, "--help"], capture_output=True, text=True, check=True).stdout)
    )
    text = rendered(page)
    assert "--token-file FILE" in text
    assert "EXIT STATUS" in text


def test_a_help_of_another_form_is_refused() -> None:
    with pytest.raises(ValueError, match="no usage"):
        manual.launcher_page("Options:")
