"""What virtual machines of tests need of this one."""

from __future__ import annotations

import platform
import shutil

import pytest
from farlane.frontend.devtools import debian
from farlane.frontend.devtools.guest_image import guest_image
from farlane.frontend.devtools.virtual_machine import QEMU


def require_machines() -> None:
    """Skips, saying why, where none can be made."""
    if platform.machine() != "x86_64":
        pytest.skip(f"virtual machines are made for x86-64 only, this machine is {platform.machine()}")
    if shutil.which(QEMU) is None:
        pytest.skip(f"{QEMU} is not installed")
    try:
        guest_image()
    except debian.Unavailable as reason:
        pytest.skip(str(reason))
