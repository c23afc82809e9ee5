"""Fixtures of the translator's tests. jit_tools is importable because its folder is put on the path here."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from jit_tools.device import TinyDevice


@pytest.fixture
def device() -> TinyDevice:
    return TinyDevice()
