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
}


@pytest.mark.parametrize("mode", ["none", "calls", "loops"])
@pytest.mark.parametrize("script", PRINTED)
def test_script(script: str, mode: str, guest: Guest) -> None:
    assert PYTHON.exists(), "run `make test-guests`, which installs what these tests need"
    outcome = guest.run([str(PYTHON), str(SCRIPTS / f"{script}.py")], mode)
    assert (outcome.status, outcome.stdout) == (0, PRINTED[script]), outcome.stderr
    assert outcome.report.unsupported == []
