"""Exit statuses: one table, shown by the page; and what commands end with."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from farlane.frontend import program
from farlane.frontend.errors import UserError
from farlane.terminal import statuses

ROOT = Path(__file__).resolve().parents[3]
FARLANE = [sys.executable, "-m", "farlane.frontend.cli"]


def test_the_page_has_the_table() -> None:
    assert statuses.markdown() in (ROOT / "docs/reference/exit-statuses.md").read_text()


def test_every_status_is_in_the_table_once() -> None:
    rows = [row.status for row in statuses.TABLE]
    named = {value for name, value in vars(statuses).items() if name.isupper() and isinstance(value, int)}
    assert {int(row) for row in rows if row.isdecimal()} == named - {statuses.SIGNALLED}
    assert len(rows) == len(set(rows))
    assert UserError("").status == statuses.NOT_STARTED
    with pytest.raises(UserError) as caught:
        program.find("/no/such/program")
    assert caught.value.status == statuses.NOT_FOUND


@pytest.mark.parametrize(
    ("words", "status"),
    [
        (["--version"], statuses.DONE),
        (["no-such-command"], statuses.WRONG_CALL),
        (["run"], statuses.WRONG_CALL),
        (["run", "--", "/no/such/program"], statuses.NOT_FOUND),
        (["run", "--", "/etc/passwd"], statuses.NOT_EXECUTABLE),
        (["env", "--host", "nonsense"], statuses.WRONG_CALL),
        (["top", "--host", "unix:///no/such/socket", "--json"], statuses.NOT_STARTED),
        (["plan", "/no/such/trace"], statuses.FAILED),
        (["analyze", "/no/such/program"], statuses.FAILED),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else str(value),
)
def test_commands_end_with_these(words: list[str], status: int) -> None:
    done = subprocess.run([*FARLANE, *words], capture_output=True, text=True, timeout=120)
    assert done.returncode == status, done.stderr
    assert "Traceback" not in done.stderr


def test_a_broken_pipe_is_no_error_message() -> None:
    command = (
        f"{sys.executable} -m farlane.frontend.cli smi --help-query-gpu | head -1 >/dev/null; exit ${{PIPESTATUS[0]}}"
    )
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=120)
    assert done.returncode in (statuses.DONE, statuses.BROKEN_PIPE)
    assert "Traceback" not in done.stderr
