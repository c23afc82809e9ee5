"""The shim in a process: registration by hand, damaged images, threads, fork, exit, in every mode.

What each scenario does is in process.c. The null device computes nothing: what is tested is what the guest sees, and that
nothing hangs or crashes.
"""

from __future__ import annotations

import os
import subprocess

import pytest
from farlane.frontend.devtools.guest import Guest, Outcome

MODES = ["none", "calls"]


def _run(guest: Guest, process: str, scenario: str, mode: str = "calls") -> Outcome:
    return guest.run([process, scenario], mode, timeout=60)


def _lines(text: str) -> list[str]:
    return text.strip().splitlines()


def test_a_program_that_makes_no_call_is_left_alone(process: str, null_guest: Guest) -> None:
    outcome = _run(null_guest, process, "nothing")
    assert _lines(outcome.stdout) == ["threads 1", "descriptors 3"]
    assert (outcome.status, outcome.stderr) == (0, "")
    assert outcome.report.round_trips == 0


@pytest.mark.parametrize("mode", MODES)
def test_kernels_and_variables(process: str, null_guest: Guest, mode: str) -> None:
    outcome = _run(null_guest, process, "use", mode)
    assert _lines(outcome.stdout) == [
        "launch 0",
        "strange 200",
        "missing 98",
        "unknown 98",
        "peek 98",
        "last 98",
        "last 0",
        "to symbol 0",
        "beyond symbol 1",
        "no symbol 13",
        "synchronize 0",
        "reset 0",
        "launch 0",
        "to symbol 0",
        "synchronize 0",
    ]
    assert "kernel strange: its parameters are not understood" in outcome.stderr
    assert "kernel missing is not in the image" in outcome.stderr
    assert len(_lines(outcome.stderr)) == 2


def test_launch_configurations_are_a_stack(process: str, null_guest: Guest) -> None:
    outcome = _run(null_guest, process, "configuration")
    assert _lines(outcome.stdout) == ["pop 52", "push 0", "pop 0", "1 2 3 4 5 6 7 0x8"]


def test_a_damaged_image_spoils_its_own_kernels(process: str, null_guest: Guest) -> None:
    outcome = _run(null_guest, process, "malformed")
    lines = _lines(outcome.stdout)
    assert lines[:-2] == [f"malformed {kind}: 200 200" for kind in range(14)]
    assert lines[-2:] == ["good 0", "synchronize 0"]
    # One line each, however often it is used.
    assert len(_lines(outcome.stderr)) == 14
    assert all(line.startswith("farlane: the GPU code of ") for line in _lines(outcome.stderr))


def test_managed_variables_are_refused_without_a_fault(process: str, null_guest: Guest) -> None:
    outcome = _run(null_guest, process, "managed")
    assert _lines(outcome.stdout) == ["initialized 1", "value 0", "launch 801", "good 0"]
    assert outcome.stderr.count("__managed__") == 1


@pytest.mark.parametrize("mode", MODES)
def test_fork(process: str, null_guest: Guest, mode: str) -> None:
    outcome = _run(null_guest, process, "forked", mode)
    assert _lines(outcome.stdout) == [
        "early child 0",
        "early child 0",
        "parent 0",
        *["child 3"] * 5,
        "child last 3",
        "grandchild 3",
        "status 5",
        "unrelated",
        "system 0",
        "parent 0",
        "parent 0",
    ]
    assert (outcome.status, outcome.stderr) == (0, "")


@pytest.mark.parametrize("mode", MODES)
def test_threads(process: str, null_guest: Guest, mode: str) -> None:
    outcome = _run(null_guest, process, "threads", mode)
    assert (outcome.status, _lines(outcome.stdout)) == (0, ["failures 0", "synchronize 0"])
    assert outcome.report.calls["deferred"] == 16000


def test_fork_while_other_threads_work(process: str, null_guest: Guest) -> None:
    outcome = _run(null_guest, process, "fork_among_threads")
    assert (outcome.status, _lines(outcome.stdout)) == (0, ["right 30", "failures 0", "synchronize 0"])


def test_exit_while_other_threads_work(process: str, null_guest: Guest) -> None:
    for _ in range(10):
        outcome = _run(null_guest, process, "exit_in_thread")
        assert (outcome.status, outcome.stdout, outcome.stderr) == (7, "leaving\n", "")


def test_the_session_outlives_the_programs_destructors(process: str, null_guest: Guest) -> None:
    outcome = _run(null_guest, process, "at_exit")
    assert _lines(outcome.stdout) == [
        "launch 0",
        "late launch 0",
        "late synchronize 0",
        "unregistered 98",
        "destructor 0",
    ]
    assert (outcome.status, outcome.stderr) == (0, "")
    assert outcome.report.calls["sync"] == 2


def test_work_is_sent_at_exit(process: str, null_guest: Guest) -> None:
    outcome = _run(null_guest, process, "pending")
    assert (outcome.status, outcome.stdout) == (0, "done\n")
    assert outcome.report.groups >= 1
    # Each LAUNCH record has 64 bytes or more.
    assert outcome.report.bytes_up > 6400
    assert outcome.report.round_trips == 1


def test_leaving_at_once_is_no_harm(process: str, null_guest: Guest) -> None:
    outcome = _run(null_guest, process, "at_once")
    assert (outcome.status, outcome.stdout, outcome.stderr) == (3, "done\n", "")


@pytest.mark.parametrize("mode", MODES)
def test_images_come_and_go(process: str, null_guest: Guest, mode: str) -> None:
    outcome = _run(null_guest, process, "reopen", mode)
    assert _lines(outcome.stdout) == ["failures 0", "found 0", "synchronize 0"]
    assert (outcome.status, outcome.stderr) == (0, "")


@pytest.mark.parametrize("mode", MODES)
def test_a_large_image_is_sent_once(process: str, null_guest: Guest, mode: str) -> None:
    """The host is asked for it, since Hello could not name it, and has it the second time."""
    outcomes = [
        null_guest.run([process, "large"], mode, timeout=60, extra={"TEXT": f"// {mode} {os.getpid()}"})
        for _ in range(2)
    ]
    for outcome in outcomes:
        assert (outcome.status, outcome.stderr) == (0, "")
        assert _lines(outcome.stdout) == ["first 0", "launch 0", "launch 0", "synchronize 0"]
    first, second = (outcome.report for outcome in outcomes)
    assert first.bytes_up > 3 << 20
    assert second.bytes_up < 1 << 16
    if mode == "calls":
        # The handshake, the question, the synchronization.
        assert first.round_trips == second.round_trips == 3


def test_an_image_of_the_program_costs_no_question(process: str, null_guest: Guest) -> None:
    for _ in range(2):
        assert _run(null_guest, process, "threads").report.round_trips == 2


@pytest.mark.parametrize("mode", MODES)
def test_libraries_loaded_at_run_time(process: str, null_guest: Guest, mode: str) -> None:
    outcome = _run(null_guest, process, "library", mode)
    assert _lines(outcome.stdout) == [
        "garbage 200",
        "nowhere 200",
        "no file 301",
        "wrapper 0",
        "unload 0",
        "container 0",
        "unload 0",
        "text 0",
        "count 0",
        "kernels 2",
        "enumerate 0",
        "kernel 0",
        "same 1",
        "no kernel 500",
        "parameter 0",
        "16 8",
        "no parameter 1",
        "launch 0",
        "global 0",
        "4 1",
        "no global 500",
        "unload 0",
        "unload again 400",
        "launch 98",
        "synchronize 0",
    ]
    assert outcome.status == 0


@pytest.mark.parametrize(
    ("host", "code", "message"),
    [(None, 100, "FARLANE_HOST is not set"), ("unix:///nowhere/host.sock", 46, "/nowhere/host.sock"), ("x", 100, "x")],
)
def test_without_a_host(process: str, null_guest: Guest, host: str | None, code: int, message: str) -> None:
    """The reason is told once, every call fails alike, and the program goes on."""
    environment = null_guest.environment(process, "calls")
    environment.pop("FARLANE_HOST")
    if host is not None:
        environment["FARLANE_HOST"] = host
    done = subprocess.run([process, "use"], env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0
    results = [int(line.split()[-1]) for line in _lines(done.stdout)]
    assert results[0] == results[-1] == code
    assert len(_lines(done.stderr)) == 1
    assert message in done.stderr


def test_unrelated_children_do_not_notice(null_guest: Guest, process: str) -> None:
    """The environment that guests get does no harm to programs without CUDA."""
    environment = null_guest.environment(process, "calls")
    done = subprocess.run(["/bin/sh", "-c", "echo a; (exit 3)"], env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (3, "a\n", "")
    assert os.environ.get("FARLANE_HOST") != environment["FARLANE_HOST"]
