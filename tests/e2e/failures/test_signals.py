"""Signals of a program whose thread waits for the host: held back only once the program may have a handler."""

from __future__ import annotations

import platform
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from farlane.frontend import shim_library
from farlane.frontend.devtools import registry
from farlane.frontend.devtools.guest import Guest, Outcome
from farlane.frontend.devtools.programs import Build
from farlane.frontend.devtools.toolchain import Toolchain
from farlane.frontend.embedded import EmbeddedHost

pytestmark = pytest.mark.native

REGISTRY = Path(__file__).parents[2] / "native" / "registry.toml"
SHM, GRPC = {"FARLANE_TRANSPORT": "shm"}, {"FARLANE_TRANSPORT": "grpc"}
LATE = [
    ("sigaction", "calls"),
    ("signal", "leaves"),
    ("ssignal", "ends"),
    ("sysv_signal", "calls"),
    ("sigset", "leaves"),
]
X86 = pytest.mark.skipif(platform.machine() != "x86_64", reason="makes the system call as x86-64 has it")


@pytest.fixture(scope="module")
def program(toolchain: Callable[[str], Toolchain]) -> str:
    (entry,) = [each for each in registry.load(REGISTRY) if each.name == "signals"]
    return entry.compiled(toolchain("13.0"), Build(architecture="sm_75"))[0]


@pytest.fixture(scope="module")
def guest() -> Iterator[Guest]:
    with EmbeddedHost("sim") as host:
        yield Guest(host.url)


def changes_of_mask(outcome: Outcome) -> tuple[float, float]:
    """Of each round trip, before the handler is installed and with it: two, unless our thread has read the answer."""
    before, after = outcome.stdout.splitlines()[0].split()
    return float(before), float(after)


def check_end(outcome: Outcome, what: str) -> None:
    assert outcome.status == (7 if what == "ends" else 0), outcome
    assert outcome.stderr == ""
    assert what == "ends" or outcome.stdout.endswith("PASS\n")


@pytest.mark.parametrize("what", ["calls", "leaves", "ends"])
@pytest.mark.parametrize("transport", [SHM, GRPC], ids=["shm", "grpc"])
def test_a_handler_from_the_beginning(program: str, guest: Guest, transport: dict[str, str], what: str) -> None:
    outcome = guest.run([program, "early", "sigaction", what], timeout=60, extra=transport)
    check_end(outcome, what)
    assert min(changes_of_mask(outcome)) >= 1


@pytest.mark.parametrize(("how", "what"), LATE)
def test_a_handler_that_comes_late(program: str, guest: Guest, how: str, what: str) -> None:
    outcome = guest.run([program, "late", how, what], timeout=60, extra=SHM)
    check_end(outcome, what)
    before, after = changes_of_mask(outcome)
    assert before == 0
    assert after >= 1


@X86
def test_a_handler_by_the_system_call_before_the_session(program: str, guest: Guest) -> None:
    outcome = guest.run([program, "early", "system", "calls"], timeout=60, extra=SHM)
    check_end(outcome, "calls")
    assert min(changes_of_mask(outcome)) >= 1


@X86
@pytest.mark.parametrize("what", ["calls", "leaves", "ends"])
def test_a_handler_that_is_not_seen(program: str, guest: Guest, what: str) -> None:
    """In the middle of a message it says so, and does not wait for itself. The signal may come before or after."""
    outcome = guest.run([program, "late", "system", what], timeout=60, extra=SHM)
    assert changes_of_mask(outcome) == (0, 0)
    if what == "ends":
        assert outcome.status == 7, outcome
        assert outcome.stderr == "" or "ends the program in the middle of a CUDA call" in outcome.stderr
    elif outcome.status:
        assert outcome.status == -signal.SIGABRT, outcome
        assert "install the handler before the program's first CUDA call" in outcome.stderr
    else:
        check_end(outcome, what)


def test_where_the_c_library_comes_first(program: str, guest: Guest) -> None:
    """The shim is needed by the program, and not preloaded: what installs handlers is not seen."""
    core = str(shim_library.FOLDER / shim_library.CORE)
    environment = guest.environment(program, "calls")
    others = ":".join(each for each in environment["LD_PRELOAD"].split(":") if each != core)
    outcome = guest.run([program, "late", "sigaction", "calls"], timeout=60, extra={"LD_PRELOAD": others, **SHM})
    check_end(outcome, "calls")
    assert min(changes_of_mask(outcome)) >= 1
