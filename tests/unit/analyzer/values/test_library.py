"""Loops that call functions of the C library beside CUDA's: what these write is known, so the loop is described; and no
more is believed of them than what their declarations say."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from farlane.analyzer.analysis.program import analyze
from farlane.analyzer.loops.model import Kind

RUNTIME = 'extern "C" int cudaFree(void *) { return 0; }'
SOURCE = """
#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/times.h>
#include <time.h>
#include <unistd.h>
extern "C" int cudaFree(void *);
extern "C" __attribute__((noipa)) void tried(char *where, char *buffer, double number, int n) {
    struct tm parts = {};
    struct rusage usage;
    unsigned short seeds[3] = {1, 2, 3};
    int kept = n, sign = 0;
    int *volatile escaped = &kept;
    char own[64] = {};
    time_t now = 0;
    for (int i = 0; i < n; ++i) {
        cudaFree(where + KEPT);
        CALL;
    }
    escaped[0] += own[0] + sign + parts.tm_sec + seeds[0] + now + usage.ru_nivcsw;
}
int main() { tried(nullptr, nullptr, 0.5, 0); }
"""

KNOWN = {
    "bzero": 'memset(buffer, 0, n); asm volatile(""); (bzero)(buffer, n)',
    "explicit_bzero": "explicit_bzero(buffer, n)",
    "swab": "swab(own, buffer, 16)",
    "difftime": "number += difftime(now, i)",
    "lgamma_r": "number += lgamma_r(number, &sign)",
    "remquo": "number += remquo(number, 3, &sign)",
    "jn": "number += jn(2, number)",
    "nrand48": "now += nrand48(seeds)",
    "localtime_r": "localtime_r(&now, &parts)",
    "mktime": "now += mktime(&parts)",
    "strftime": 'strftime(buffer, n, "%H", &parts)',
    "getrusage": "getrusage(RUSAGE_SELF, &usage)",
    "clock_nanosleep": "clock_nanosleep(CLOCK_MONOTONIC, 0, nullptr, nullptr)",
    "dprintf": 'dprintf(1, "%d", i)',
    "isprint": "now += (isprint)(i)",
    "llabs": "now += (llabs)(now)",
    "getuid": "now += getuid()",
    "omp_get_num_procs": "now += omp_get_num_procs()",
    "gethostname": "gethostname(own, sizeof own)",
    "popcount": "now += __builtin_popcountll(now + i)",
    "parity": "now += __builtin_parityll(now + i)",
    "a quotient of 128 bits": "now += static_cast<long>(static_cast<__int128>(now) * n / (i + 1))",
    "a half number": "static_cast<volatile _Float16 *>(static_cast<void *>(own))[0] = static_cast<_Float16>(number)",
    "localtime": "now += localtime(&now)->tm_sec",
    "setenv": 'setenv("NAME", "value", 1)',
    "posix_memalign": "void *made = nullptr; posix_memalign(&made, 64, n); free(made)",
    "mempcpy": "mempcpy(buffer, where, n)",
}


@pytest.mark.parametrize("name", KNOWN)
def test_what_is_known_leaves_the_loop_described(build: Callable[..., Path], name: str) -> None:
    text = SOURCE.replace("CALL", KNOWN[name]).replace("KEPT", "kept")
    program = build("#include <ctype.h>\n" + text, "-O2", "-fno-builtin", "-fopenmp", runtime=RUNTIME)
    (loop,) = [loop for loop in analyze(program).loops if loop.function == "tried"]
    assert loop.described, loop.reasons
    assert [call.arguments[0].kind for call in loop.calls] == [Kind.INVARIANT]


@pytest.mark.parametrize(
    ("kept", "call"),
    [
        ("own[3]", "bzero(own, 8)"),
        ("own[3]", "gethostname(own, 8)"),
        ("parts.tm_sec", "localtime_r(&now, &parts)"),
        ("parts.tm_sec", "mktime(&parts)"),
        ("seeds[1]", "now += nrand48(seeds)"),
        ("sign", "number += remquo(number, 3, &sign)"),
        ("usage.ru_nivcsw", "getrusage(RUSAGE_SELF, &usage)"),
    ],
    ids=lambda value: value.partition("(")[0],
)
def test_what_they_write_is_not_what_it_was(build: Callable[..., Path], kept: str, call: str) -> None:
    text = "#include <ctype.h>\n" + SOURCE.replace("CALL", call).replace("KEPT", kept)
    program = build(text, "-O2", "-fno-builtin", "-fopenmp", runtime=RUNTIME)
    (loop,) = [loop for loop in analyze(program).loops if loop.function == "tried"]
    assert [call.arguments[0].kind for call in loop.calls] == [Kind.UNKNOWN]


RANDOM = """
#include <random>
extern "C" int cudaFree(void *);
extern "C" __attribute__((noipa)) void tried(char *where, int *buffer, int n) {
    ENGINE generator(n);
    std::DISTRIBUTION distribution(0, 255);
    char *first = where, *second = where + 8;
    char **volatile escaped[] = {&first, &second};
    for (int i = 0; i < n; ++i) {
        cudaFree(first);
        for (int j = 0; j < n; ++j) buffer[j] = distribution(generator);
        char *kept = first;
        first = second, second = kept;
    }
    buffer[0] = *escaped[0] - *escaped[1];
}
int main() { tried(nullptr, nullptr, 0); }
"""


@pytest.mark.parametrize("engine", ["std::mt19937", "std::mt19937_64", "std::default_random_engine"])
@pytest.mark.parametrize(
    "distribution", ["uniform_int_distribution<int>", "uniform_real_distribution<float>", "normal_distribution<double>"]
)
@pytest.mark.parametrize("level", ["-O0", "-O2"])
def test_random_numbers_are_taken_to_change_their_engine_alone(
    build: Callable[..., Path], engine: str, distribution: str, level: str
) -> None:
    text = RANDOM.replace("ENGINE", engine).replace("DISTRIBUTION", distribution)
    (loop,) = [loop for loop in analyze(build(text, level, runtime=RUNTIME)).loops if loop.function == "tried"]
    assert loop.described, loop.reasons
