"""Calls in programs linked in unusual ways: indirect functions, whole-program optimization, static
position-independent."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from farlane.analyzer.analysis.program import analyze
from farlane.analyzer.graph.program import Program
from farlane.analyzer.loader import elf
from farlane.analyzer.machine.decoder import Decoder

RUNTIME = """
extern "C" int cudaSetDevice(int) { return 0; }
extern "C" int cudaDeviceSynchronize() { return 0; }
"""
INDIRECT = r"""
extern "C" int cudaSetDevice(int);
extern "C" {
__attribute__((noinline)) static int one(int n) { return n + 1; }
__attribute__((noinline)) static int two(int n) { return n + 2; }
int (*choose(void))(int) { return __builtin_cpu_supports("avx2") ? one : two; }
int chosen(int) __attribute__((ifunc("choose")));
}
int main(int argc, char **) { for (int i = 0; i < argc; ++i) cudaSetDevice(chosen(i)); }
"""
WHOLE = r"""
extern "C" int cudaSetDevice(int), cudaDeviceSynchronize();
#include <cstdio>
#include <cstdlib>
static void check(int code) { if (code) { puts("failed"); exit(1); } }
struct Work { int from, step; void once(int i) { check(cudaSetDevice(from + step * i)); } };
__attribute__((noinline)) void rounds(Work work, int n) { for (int i = 0; i < n; ++i) { work.once(i); check(cudaDeviceSynchronize()); } }
int main(int argc, char **) { rounds(Work{3, 2}, argc); }
"""


def linked(build: Callable[..., Path], source: str, *options: str) -> Path:
    return build(source, *options, runtime=RUNTIME)


LINKS = [("-fPIE", "-pie"), ("-fno-plt",), ("-rdynamic", "-fno-plt"), ("-fno-pie", "-no-pie")]


@pytest.mark.parametrize("level", ["-O0", "-O2"])
@pytest.mark.parametrize("options", LINKS)
def test_an_indirect_function_is_one_of_those_that_may_be_chosen(
    build: Callable[..., Path], options: tuple[str, ...], level: str
) -> None:
    program = linked(build, INDIRECT, level, *options)
    (loop,) = analyze(program).loops
    assert loop.trip_count is not None
    assert loop.reasons == ()
    whole = Program(elf.load(program), Decoder())
    main = next(start for start in whole.functions() if whole.ranges[start].name == "main")
    assert not {callee.name for callee in whole.callees[main]} & {
        "choose",
        "one",
        "two",
    }  # for permissions: nobody knows


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("{ return n + 1; }", "{ static int all; return all += n; }"),  # one of them changes memory
        ("? one : two", "? one : other()"),
    ],
)
@pytest.mark.parametrize("options", LINKS)
def test_an_indirect_function_that_is_not_known(
    build: Callable[..., Path], options: tuple[str, ...], old: str, new: str
) -> None:
    source = INDIRECT.replace(old, new).replace(
        "int (*choose", "int (*volatile others[1])(int);\nint (*other())(int) { return others[0]; }\nint (*choose"
    )
    (loop,) = analyze(linked(build, source, "-O2", *options)).loops
    assert [argument.kind for call in loop.calls for argument in call.arguments] == ["unknown"]
    assert "unknown-function" in [str(reason) for reason in loop.reasons]


@pytest.mark.parametrize(
    "options", [("-flto",), ("-flto", "-fno-plt"), ("-flto", "-fno-pie", "-no-pie"), ("-O1",), ("-Os",)]
)
def test_whole_program_optimization(build: Callable[..., Path], options: tuple[str, ...]) -> None:
    (loop,) = analyze(linked(build, WHOLE, "-O2", *options)).loops
    assert str(loop.class_) == "2"
    assert loop.trip_count is not None
    assert [call.name for call in loop.calls] == ["cudaSetDevice", "cudaDeviceSynchronize"]
    assert all(continuation.exact and continuation.count is not None for continuation in loop.continuations)


def test_a_static_program_has_no_runtime_to_intercept(build: Callable[..., Path]) -> None:
    report = analyze(
        build(
            RUNTIME + WHOLE.replace('extern "C" int cudaSetDevice(int), cudaDeviceSynchronize();', ""),
            "-O2",
            "-static-pie",
        )
    )
    assert report.loops == ()
    assert report.skipped == ()
    assert report.functions > 100
