"""Fixtures of the translator's tests. jit_tools is importable because its folder is put on the path here.

Most of their time is LLVM's, which takes four times as long to optimize as to translate. A test that does not say what it compiles with
gets optimized code in one of five cases, and with --full-matrix always: results never depend on it, and each instruction has
more tests than one.
"""

from __future__ import annotations

import sys
import zlib
from pathlib import Path

import pytest
from farlane.backend import jit

sys.path.insert(0, str(Path(__file__).parent))

from jit_tools.device import TinyDevice


@pytest.fixture
def device(request: pytest.FixtureRequest) -> TinyDevice:
    dealt = zlib.crc32(request.node.nodeid.partition("@")[0].encode()) % 5 == 0
    optimized = dealt or request.config.getoption("--full-matrix")
    return TinyDevice(jit.Options(cache=False, optimization=2 if optimized else 0))
