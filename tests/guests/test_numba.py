"""A fixed sample of Numba's own test suite, by `farlane run`: its tests pass.

They are those of numba_sample.txt: `numba_suite.py --choose` chooses them by the hashes of their names, of those that pass in numba_results.txt.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import numba_suite as suite
import pytest

pytestmark = pytest.mark.guests

FOLDER = Path(__file__).parent

SHARES = 2  # each a process, for two workers


@pytest.mark.parametrize("share", range(SHARES))
def test_sample(share: int) -> None:
    names = (FOLDER / "numba_sample.txt").read_text().split()[share::SHARES]
    command = suite.command(suite.PYTHON, names)
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=280, check=False)
    log = done.stdout + done.stderr
    ended = {item.name: item.outcome for item in suite.parse("", log + f"{suite.FINISHED}{done.returncode}\n")}
    assert ended == dict.fromkeys(names, "pass"), log[-6000:]


def test_the_kernels_of_the_unit_tests_are_numbas() -> None:
    """tests/unit/sim/test_numba_kernels.py runs them."""
    script, folder = FOLDER / "scripts/numba_ptx.py", FOLDER.parent / "unit/sim/numba"
    done = subprocess.run(
        [suite.PYTHON, "-W", "ignore", script, "--check", folder], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
