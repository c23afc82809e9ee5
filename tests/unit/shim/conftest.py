"""A host with the null device, and the guest in plain C, for the tests of the shim's process state."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from farlane.frontend import shim_library
from farlane.frontend.devtools.guest import Guest
from farlane.frontend.embedded import EmbeddedHost

LIBRARIES = Path(shim_library.__file__).parent / "lib"


@pytest.fixture(scope="session")
def null_host() -> Iterator[EmbeddedHost]:
    """A host that takes every kernel and computes nothing."""
    shim_library.require_built()
    with EmbeddedHost("null") as host:
        yield host
        assert host.alive(), "the host ended during the tests"


@pytest.fixture(scope="session")
def null_guest(null_host: EmbeddedHost) -> Guest:
    """Runs programs on the null device."""
    return Guest(null_host.url)


@pytest.fixture(scope="session")
def process(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The guest process.c, compiled against the replacement of libcudart."""
    shim_library.require_built()
    compiler = shutil.which("cc")
    assert compiler is not None, "the C compiler that built the shim"
    program = tmp_path_factory.mktemp("process") / "process"
    source = Path(__file__).parent / "process.c"
    library = LIBRARIES / "libcudart.so.13"
    command = [compiler, "-std=gnu11", "-O1", "-Wall", "-Werror", "-o", str(program), str(source), str(library)]
    subprocess.run([*command, f"-Wl,-rpath-link,{LIBRARIES}", "-lpthread"], check=True)
    return str(program)
