"""`make packages`: what users install, built into one folder.

- wheels.py: the sdist, and the wheel that is built from it
- debian_package.py: how a Debian package is written, so that the same files give the same bytes
- guest.py: farlane-guest, the shim and its launcher
- cross.py: these for AArch64, built by a cross compiler
- host.py: farlane-host, a host with all it needs but Python, and its systemd unit
- sbom.py: what is in them (CycloneDX)
- __main__.py: all of them

Every file is dated as `TIME` says, so that a package says nothing of when and where it was built.
"""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
TIME = 1767225600  # 2026-01-01


def version() -> str:
    found: str = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    return found


def run(command: list[str], environment: dict[str, str] | None = None) -> None:
    """Raises CalledProcessError, with what the command wrote."""
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode:
        sys.stderr.write(done.stdout + done.stderr)
        done.check_returncode()
