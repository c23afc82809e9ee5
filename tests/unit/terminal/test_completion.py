"""`farlane completion`: the script in a real bash, and in interactive zsh and fish where they are installed: a key pressed, a line completed."""

from __future__ import annotations

import contextlib
import os
import pty
import select
import shutil
import signal
import subprocess
import sys
import time
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
def scripts() -> dict[str, str]:
    """Each shell's; to make one takes seconds."""
    return {shell: script(shell) for shell in SHELLS}


@pytest.fixture(scope="module")
def bash_script(scripts: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("completion") / "farlane.bash"
    path.write_text(scripts["bash"])
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
def test_other_shells_take_the_script(shell: str, scripts: dict[str, str], tmp_path: Path) -> None:
    assert "sweep" in scripts[shell]
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    path = tmp_path / "script"
    path.write_text(scripts[shell])
    done = subprocess.run([shell, "-n", str(path)], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


PATH = f"{Path(sys.executable).parent}:{os.environ['PATH']}"  # fish completes only commands that there are
READY, DONE = "shell-is-ready", "line-was-run"
HOME_KEY, END_KEY = b"\x01", b"\x05"  # to the line's first column and its last
SETTINGS = {  # a user's, in a home of the test's own
    "zsh": (
        ".zshrc",
        "fpath=(~/.zfunc $fpath); autoload -Uz compinit; compinit -u; unsetopt PROMPT_SP; PS1='> '; print shell-is-'ready'",
    ),
    "fish": (
        ".config/fish/config.fish",
        "set -g fish_greeting; function fish_prompt; echo -n '> '; end; bind \\ca beginning-of-line; echo shell-is-'ready'",
    ),
}
SCRIPTS = {"zsh": ".zfunc/_farlane", "fish": ".config/fish/completions/farlane.fish"}
PRINT = {"zsh": b"print -rl -- ", "fish": b"printf '%s\\n' "}


def read_until(terminal: int, wanted: str, seconds: float = 60) -> str:
    """What the terminal shows until `wanted` appears in it."""
    shown, deadline = "", time.monotonic() + seconds
    while wanted not in shown:
        assert time.monotonic() < deadline, f"no {wanted!r} in {shown!r}"
        if select.select([terminal], [], [], 0.2)[0]:
            shown += os.read(terminal, 65536).decode(errors="replace")
    return shown


def press(terminal: int, keys: bytes) -> str:
    """What the terminal shows after the keys: at least something, and then until it rests. Shells drop what is typed while they complete."""
    os.write(terminal, keys)
    shown, seconds = b"", 60.0
    while select.select([terminal], [], [], seconds)[0]:
        shown, seconds = shown + os.read(terminal, 65536), 0.5
    assert shown, f"the shell does not answer {keys!r}"
    return shown.decode(errors="replace")


def completed_by_key(shell: str, text: str, home: Path, begun: str) -> list[str]:
    """The words of a line after the tabulator key, in an interactive shell whose user did what `farlane completion --help` says."""
    for name, content in (SETTINGS[shell], (SCRIPTS[shell], text)):
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(content + "\n")
    environment = {"HOME": str(home), "PATH": PATH, "TERM": "xterm", "LC_ALL": "C.UTF-8"}
    process, terminal = pty.fork()
    if process == 0:
        os.chdir(home)
        os.execvpe(shell, [shell, "-i"], environment)
    try:
        read_until(terminal, READY)
        time.sleep(0.5)  # the prompt is behind it
        press(terminal, begun.encode())
        press(terminal, b"\t")
        press(terminal, HOME_KEY + PRINT[shell])
        os.write(terminal, END_KEY + b" > line; echo line-was-'run'\r")
        read_until(terminal, DONE)
        return (home / "line").read_text().split()
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)
        os.close(terminal)


@pytest.mark.parametrize(
    ("begun", "line"),
    [
        ("farlane tok", "farlane token"),
        ("farlane sim sw", "farlane sim sweep"),
        ("farlane run --device-m", "farlane run --device-memory"),
        ("farlane run --defer lo", "farlane run --defer loops"),
        ("farlane run --timeline pa", "farlane run --timeline page.html"),
    ],
)
@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_the_tabulator_key_completes(
    shell: str, begun: str, line: str, scripts: dict[str, str], tmp_path: Path
) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    (tmp_path / "page.html").touch()
    assert completed_by_key(shell, scripts[shell], tmp_path, begun) == line.split()
