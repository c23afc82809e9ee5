"""Large programs in two shares: the same is found beside each other, one after another, and in one."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from farlane.analyzer.analysis import shares
from farlane.analyzer.analysis.program import analyze
from farlane.analyzer.analysis.shares import Beside, Open, divide
from farlane.analyzer.commands.analyze import main
from farlane.analyzer.graph.program import Program
from farlane.analyzer.limits import AnalysisError
from farlane.analyzer.loader import elf
from farlane.analyzer.machine.decoder import Decoder

RUNTIME = """
extern "C" {
int cudaMemset(void *, int, unsigned long) { return 0; }
int cudaMemcpy(void *, const void *, unsigned long, int) { return 0; }
int cudaDeviceSynchronize() { return 0; }
}
"""
SOURCE = """
#define APART __attribute__((noipa))
extern "C" { int cudaMemset(void *, int, unsigned long); int cudaMemcpy(void *, const void *, unsigned long, int); int cudaDeviceSynchronize(); }
__attribute__((noinline)) static float read(void *device) {
    float host[64];
    cudaMemcpy(host, device, sizeof host, 2);
    return host[3];
}
APART void clears(char *device, int n) { for (int i = 0; i < n; ++i) cudaMemset(device + 16 * i, i, 16); }
APART void waits(char *device, int n) { for (int i = 0; i < n; ++i) { cudaMemset(device, 1, 16); cudaDeviceSynchronize(); } }
APART float reads(char *device, int n) { float sum = 0; for (int i = 0; i < n; ++i) { cudaMemset(device, i, 16); sum += read(device); } return sum; }
APART float reads_too(char *device, int n) { float sum = 1; for (int i = 0; i < n; ++i) { cudaMemset(device, n, 16); sum *= read(device); } return sum; }
APART void copies(char *device, int n) { float host; for (int i = 0; i < n; ++i) cudaMemcpy(&host, device, 4, 2); }
int main(int argc, char **argv) { clears(*argv, argc), waits(*argv, argc), copies(*argv, argc); return reads(*argv, argc) + reads_too(*argv, argc); }
"""


@pytest.fixture
def program(build: Callable[..., Path]) -> Path:
    return build(SOURCE, "-O2", "-x", "none", str(build(RUNTIME, "-shared", "-fPIC", "-Wl,-soname,libcudart.so.13")))


@pytest.fixture
def two_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})


def test_small_programs_are_whole(program: Path) -> None:
    found = Program(elf.load(program), Decoder())
    starts = sorted(found.cuda)
    assert divide(found, starts) == [starts]


@pytest.mark.parametrize("count", range(1, 6))
def test_each_function_is_in_one_share(program: Path, monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    monkeypatch.setattr(shares, "LARGE", 0)
    found = Program(elf.load(program), Decoder())
    starts = sorted(found.cuda)[:count]
    parts = divide(found, starts)
    assert len(parts) == min(count, 2)
    assert all(parts)
    assert [start for part in parts for start in part] == starts


def test_what_calls_the_same_stays_together(build: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """Three loops call one large function, which is about half of all: it is analyzed in one share only."""
    body = "".join(f"value = value * {3 + index} ^ *device;" for index in range(60))
    alone = "\n".join(
        f"__attribute__((noipa)) void alone{index}(char *device, int n) {{ for (int i = {index}; i < n; ++i) cudaMemset(device, i, 4); }}"
        for index in range(10)
    )
    source = f"""
    extern "C" int cudaMemset(void *, int, unsigned long);
    __attribute__((noipa)) int large(char *device, int value) {{ {body} return cudaMemset(device, value, 4); }}
    __attribute__((noipa)) void first(char *device, int n) {{ for (int i = 0; i < n; ++i) large(device, i); }}
    __attribute__((noipa)) void second(char *device, int n) {{ for (int i = 1; i < n; ++i) large(device, i); }}
    __attribute__((noipa)) void third(char *device, int n) {{ for (int i = 2; i < n; ++i) large(device, i); }}
    {alone}
    int main() {{ return 0; }}
    """
    runtime = build(RUNTIME, "-shared", "-fPIC", "-Wl,-soname,libcudart.so.13")
    monkeypatch.setattr(shares, "LARGE", 0)
    found = Program(elf.load(build(source, "-O1", "-x", "none", str(runtime))), Decoder())
    first, second = divide(found, sorted(found.cuda))
    assert {found.ranges[start].name for start in first} == {
        "_Z5largePci",
        "_Z5firstPci",
        "_Z6secondPci",
        "_Z5thirdPci",
    }
    assert len(second) == 10


def test_the_same_is_found(program: Path, monkeypatch: pytest.MonkeyPatch, two_processors: None) -> None:
    whole = analyze(program)
    assert len(whole.loops) == 5
    assert any(permission.any for permission in whole.permissions)
    monkeypatch.setattr(shares, "LARGE", 0)
    for beside in (False, True):
        report = analyze(program, beside=beside)
        assert report.loops == whole.loops, "what is permitted in `read` is known of both loops that call it"
        assert report.skipped == whole.skipped
        assert not report.out_of_time
        assert not any(isinstance(call.permission, Open) for loop in report.loops for call in loop.calls)


def test_the_same_manifest(
    program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, two_processors: None
) -> None:
    def made(name: str) -> bytes:
        assert main([str(program), "--manifest", str(tmp_path / name)]) == 0
        return (tmp_path / name).read_bytes()

    whole = made("whole")
    monkeypatch.setattr(shares, "LARGE", 0)
    assert made("beside") == whole
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0})
    monkeypatch.setattr(os, "fork", None)
    assert made("one after another") == whole


def test_the_same_is_found_where_no_process_is_to_be_had(
    program: Path, monkeypatch: pytest.MonkeyPatch, two_processors: None
) -> None:
    def refused() -> int:
        raise BlockingIOError("Resource temporarily unavailable")

    whole = analyze(program)
    monkeypatch.setattr(shares, "LARGE", 0)
    monkeypatch.setattr(os, "fork", refused)
    before = os.listdir("/proc/self/fd")
    assert analyze(program, beside=True).loops == whole.loops
    assert os.listdir("/proc/self/fd") == before


def test_time_that_runs_out_in_the_second_share_is_told(
    program: Path, monkeypatch: pytest.MonkeyPatch, two_processors: None
) -> None:
    monkeypatch.setattr(shares, "LARGE", 0)
    monkeypatch.setattr("farlane.analyzer.limits.Budget.left", lambda _: 0.0)
    report = analyze(program, beside=True)
    assert report.out_of_time
    assert report.skipped


def test_what_fails_beside_fails_here() -> None:
    def fails() -> Sequence[int]:
        raise AnalysisError("too many values")

    with Beside(fails) as work, pytest.raises(AnalysisError, match="too many values"):
        work.result()
    with Beside(lambda: os.kill(os.getpid(), signal.SIGKILL)) as work, pytest.raises(AnalysisError, match="signal 9"):
        work.result()


def test_work_that_nobody_waits_for_ends() -> None:
    with Beside(lambda: time.sleep(600)) as work:
        process = work.process
        os.kill(process, 0)
    with pytest.raises(ChildProcessError):
        os.waitpid(process, os.WNOHANG)


def test_it_ends_with_the_process_that_began_it() -> None:
    reading, writing = os.pipe()

    def begins() -> None:
        os.close(reading)

        def holds() -> None:
            time.sleep(600)

        Beside(holds)
        os.kill(os.getpid(), signal.SIGKILL)

    with Beside(begins) as work, pytest.raises(AnalysisError, match="signal 9"):
        work.result()
    os.close(writing)
    with os.fdopen(reading, "rb") as stream:
        assert stream.read() == b"", "nobody holds the other end any more"
