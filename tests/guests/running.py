"""How the guests' tests run a program with NVIDIA's runtime in it, as a user would: by `farlane run`, interoperability switched on."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PYTHON = ROOT / ".cache/guests/bin/python"
FARLANE = ROOT / ".venv/bin/farlane"
SCRIPTS = Path(__file__).parent / "scripts"


def farlane_run(
    *program: str | Path, options: tuple[str, ...] = (), timeout: float = 280, **environment: str
) -> subprocess.CompletedProcess[str]:
    """The ended program, with what it printed; `options` are those of `farlane run`."""
    return subprocess.run(
        [FARLANE, "run", *options, "--", *program],
        env=os.environ | {"FARLANE_INTEROP": "1"} | environment,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
