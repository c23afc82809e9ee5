"""pytest and xdist as they are installed: tests of a group run in one process, else each worker makes anew what they share."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

TESTS = """
import os, time, pytest
from pathlib import Path

@pytest.mark.xdist_group("one")
@pytest.mark.parametrize("number", range(4))
def test_of_a_group(number):
    Path(f"{number}.process").write_text(str(os.getpid()))
    time.sleep(0.05)

@pytest.mark.parametrize("number", range(4))
def test_alone(number):
    time.sleep(0.05)
"""


def test_tests_of_a_group_run_in_one_process(tmp_path: Path) -> None:
    """pytest 9.2 and xdist 3.8 together take the group's name from no test, and say nothing."""
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "test_some.py").write_text(TESTS)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "xdist",
        "-n",
        "2",
        "--dist",
        "loadgroup",
        "--no-loadscope-reorder",
    ]
    environment = os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert len({file.read_text() for file in tmp_path.glob("*.process")}) == 1
