"""Small executables for the analyzer's tests: C++ and assembly compiled with the host's compiler, no CUDA needed."""

from __future__ import annotations

import hashlib
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def build(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Compiles a source text, linked with a library made of the text `runtime` if there is one; the same texts and
    options only once."""
    folder = tmp_path_factory.mktemp("built")

    def compile_(source: str, *options: str, language: str = "c++", runtime: str = "") -> Path:
        if runtime:
            options = (*options, "-x", "none", str(compile_(runtime, "-shared", "-fPIC")))
        key = hashlib.sha256("\0".join([source, language, *options]).encode()).hexdigest()[:16]
        output = folder / key
        if not output.exists():
            command = ["g++", "-x", language, "-", "-o", str(output), *options]
            done = subprocess.run(command, input=source, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr
        return output

    return compile_
