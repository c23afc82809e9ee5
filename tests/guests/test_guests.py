"""Python packages that speak the driver API, unchanged from PyPI, as guests of the simulated device, in all three modes.

The packages live in an environment of their own (`make test-guests` makes it): nothing of them is Farlane's.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from farlane.frontend.devtools.guest import Guest

pytestmark = pytest.mark.guests

ROOT = Path(__file__).resolve().parents[2]
PYTHON = ROOT / ".cache/guests/bin/python"
SCRIPTS = Path(__file__).parent / "scripts"

PRINTED = {
    "bindings": "launch\ngraph\npool\nvirtual memory\ninvalid PTX\nPASS\n",
    "core": "compiled\nlaunched\ngraph\nbuffers\nPASS\n",
    "numba_kernels": "host arrays\ndevice arrays\nshared memory\natomics\nreductions and ufuncs\nrandom numbers\n"
    "streams, pinned, mapped, managed\nthread 0\nthread 1\nPASS\n",
}


@pytest.mark.parametrize("mode", ["none", "calls", "loops"])
@pytest.mark.parametrize("script", PRINTED)
def test_script(script: str, mode: str, guest: Guest) -> None:
    assert PYTHON.exists(), "run `make test-guests`, which installs what these tests need"
    outcome = guest.run([str(PYTHON), str(SCRIPTS / f"{script}.py")], mode)
    assert (outcome.status, outcome.stdout) == (0, PRINTED[script]), outcome.stderr
    assert outcome.report.unsupported == []


def test_a_numba_loop_is_one_round_trip(guest: Guest) -> None:
    """10,000 launches on device arrays, then one copy: what a run with a tenth of them costs."""

    def run(count: int) -> tuple[str, int]:
        outcome = guest.run([str(PYTHON), str(SCRIPTS / "numba_loop.py"), str(count)], "loops")
        assert outcome.status == 0, outcome.stderr
        return outcome.stdout, outcome.report.round_trips

    (few, trips), (many, others) = run(1_000), run(10_000)
    assert (few, many) == ("1000.0\n", "10000.0\n")
    assert trips == others
