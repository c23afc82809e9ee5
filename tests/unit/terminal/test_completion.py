"""`farlane completion`: the script in a real bash; in zsh and fish where they are installed, else its syntax is shtab's."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from farlane.frontend.commands.completion import SHELLS, script

# The last word is the one that a user has begun. `complete -p` names the function that bash calls on the tabulator key.
ASK = """
source "$1"; shift
COMP_WORDS=("$@"); COMP_CWORD=$(( $# - 1 )); COMP_LINE="$*"; COMP_POINT=${#COMP_LINE}
function=$(complete -p farlane | sed 's/.*-F \\([^ ]*\\) .*/\\1/')
"$function" farlane "${COMP_WORDS[$COMP_CWORD]}" "${COMP_WORDS[$COMP_CWORD-1]}"
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.fixture(scope="module")
def bash_script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("completion") / "farlane.bash"
    path.write_text(script("bash"))
    return path


def completed(path: Path, folder: Path, *words: str) -> set[str]:
    command = ["bash", "--norc", "-c", ASK, "bash", str(path), "farlane", *words]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return set(done.stdout.split())


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (("tok",), {"token"}),
        (("sim", ""), {"run", "sweep"}),
        (("run", "--devi"), {"--device", "--device-memory"}),
        (("run", "--defer", ""), {"none", "calls", "loops"}),
        (("host", "init", "--na"), {"--name"}),
        (("completion", ""), set(SHELLS)),
        (("analyze", "--html", "pa"), {"page.html"}),
        (("run", "--timeline", "pa"), {"page.html"}),
        (("run", "--", "./ap"), {"./app"}),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_bash_completes(bash_script: Path, tmp_path: Path, words: tuple[str, ...], found: set[str]) -> None:
    (tmp_path / "page.html").touch()
    (tmp_path / "app").touch()
    assert completed(bash_script, tmp_path, *words) == found


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_take_the_script(shell: str, tmp_path: Path) -> None:
    text = script(shell)
    assert "sweep" in text
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    path = tmp_path / "script"
    path.write_text(text)
    done = subprocess.run([shell, "-n", str(path)], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


def test_fish_completes(tmp_path: Path) -> None:
    if shutil.which("fish") is None:
        pytest.skip("fish is not installed")
    path = tmp_path / "farlane.fish"
    path.write_text(script("fish"))
    ask = f"source {path}; complete --do-complete 'farlane tok'"
    done = subprocess.run(["fish", "--no-config", "-c", ask], capture_output=True, text=True, timeout=60)
    assert done.stdout.split()[:1] == ["token"]
