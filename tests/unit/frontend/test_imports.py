"""What the command line imports: nothing heavy before the command that needs it."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

HEAVY = {"capstone", "elftools", "google.protobuf", "grpc", "llvmlite", "networkx", "numba", "numpy"}

# Runs a command and prints which modules are loaded at its end.
LOADED = """
import contextlib, io, json, sys
from farlane.frontend import cli
with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
    cli.main(sys.argv[1:])
print(json.dumps(sorted(sys.modules)))
"""


def loaded(*words: str) -> set[str]:
    done = subprocess.run([sys.executable, "-c", LOADED, *words], capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout))


@pytest.mark.parametrize("words", [("--help",), ("--version",), ("no-such-command",)])
def test_the_dispatch_loads_no_command(words: tuple[str, ...]) -> None:
    modules = loaded(*words)
    assert not modules & HEAVY
    assert not [name for name in modules if name.startswith("farlane.") and ".commands." in name]


@pytest.mark.parametrize("command", ["completion", "doctor", "env", "run", "setup", "smi", "top"])
def test_a_command_of_the_frontend_loads_only_itself(command: str) -> None:
    modules = loaded(command, "--help")
    assert not modules & HEAVY - ({"google.protobuf"} if command == "smi" else set())  # it speaks to hosts
    assert [name for name in modules if name.startswith("farlane.") and ".commands." in name] == [
        f"farlane.frontend.commands.{command}"
    ]
    assert not [name for name in modules if name.startswith(("farlane.backend", "farlane.analyzer"))]
