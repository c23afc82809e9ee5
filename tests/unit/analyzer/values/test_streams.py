"""Input by streams: what is read into is another value behind it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from farlane.analyzer.analysis.program import analyze
from farlane.analyzer.externals import library

RUNTIME = 'extern "C" int cudaMemset(void *, int, unsigned long) { return 0; }'
SOURCE = """
#include <iostream>
extern "C" int cudaMemset(void *, int, unsigned long);
template <typename Number> __attribute__((noipa)) void rounds_of(std::istream &in, void *device) {
    Number rounds = 0;
    in >> rounds;
    for (Number i = 0; i < rounds; i += 1) cudaMemset(device, 0, 8);
}
__attribute__((noipa)) void rounds_by_letter(std::istream &in, void *device) {
    char letter = 0;
    in.get(letter);
    for (int i = 0; i < letter; ++i) cudaMemset(device, 0, 8);
}
__attribute__((noipa)) void rounds_by_word(std::istream &in, void *device) {
    char word[64] = {};
    in >> word;
    for (int i = 0; i < word[40]; ++i) cudaMemset(device, 0, 8);
}
int main() {
    rounds_of<int>(std::cin, 0), rounds_of<unsigned>(std::cin, 0), rounds_of<long>(std::cin, 0);
    rounds_of<long long>(std::cin, 0), rounds_of<unsigned long long>(std::cin, 0), rounds_of<short>(std::cin, 0);
    rounds_of<float>(std::cin, 0), rounds_of<double>(std::cin, 0);
    rounds_by_letter(std::cin, 0), rounds_by_word(std::cin, 0);
}
"""


@pytest.mark.parametrize("level", ["-O0", "-O2"])
def test_a_count_that_is_read_is_not_what_stood_there_before(build: Callable[..., Path], level: str) -> None:
    loops = analyze(build(SOURCE, level, runtime=RUNTIME)).loops
    assert len(loops) == 10
    assert all(loop.trip_count is None or loop.trip_count.constant is None for loop in loops)


@pytest.mark.parametrize(
    "name",
    [
        "_ZNSi10_M_extractIxEERSiRT_",
        "_ZNSirsERi",
        "_ZNSi3getERc",
        "_ZNSi8readsomeEPcl",
        "_ZNSirsEPSt15basic_streambufIcSt11char_traitsIcEE",
        "_ZStrsIcSt11char_traitsIcEERSt13basic_istreamIT_T0_ES6_PS3_",
        "_ZSt17__istream_extractRSiPcl",
        "_ZNSolsEPSt15basic_streambufIcSt11char_traitsIcEE",
    ],
)
def test_what_is_given_to_be_filled_is_written(name: str) -> None:
    effect = library.effect(name)
    assert effect is not None
    assert any(argument == 1 for argument, _ in effect.writes)


@pytest.mark.parametrize("name", ["_ZNSi6sentryC1ERSib", "_ZNSo6sentryC1ERSo"])
def test_a_sentry_is_written(name: str) -> None:
    effect = library.effect(name)
    assert effect is not None
    assert any(argument == 0 for argument, _ in effect.writes)


NAMED = """
#include <fstream>
#include <string>
extern "C" int cudaMemset(void *, int, unsigned long);
struct Run {
    void *where;
    long size;
    std::string folder;
};
__attribute__((noipa)) void one(Run *run, int step) {
    cudaMemset(run->where, 0, run->size);
    const std::string name = PATH "step_" + std::to_string(step) + ".txt";
    std::ofstream file(name);
    file << step << ' ' << name << std::endl;
}
__attribute__((noipa)) void all(Run *run, int steps) {
    for (int i = 0; i < steps; ++i) one(run, i);
}
int main(int n, char **names) {
    Run run{names, 8, *names};
    all(&run, n);
}
"""


@pytest.mark.parametrize("path", ["", 'run->folder + "/" '])
@pytest.mark.parametrize("level", ["-O0", "-O2"])
def test_names_that_are_put_together_leave_other_memory_alone(
    build: Callable[..., Path], level: str, path: str
) -> None:
    source = NAMED.replace("PATH", path)
    (loop,) = [each for each in analyze(build(source, level, runtime=RUNTIME)).loops if "all" in each.function]
    assert loop.described, loop.reasons


@pytest.mark.parametrize(
    ("name", "returns"),
    [
        ("_ZNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEE9_M_appendEPKcm", 0),
        ("_ZNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEpLEPKc", 0),
        ("_ZNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEE6insertEmPKc", 0),
        (
            "_ZNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEE6insertEN9__gnu_cxx17__normal_iteratorIPKcS4_EEc",
            None,
        ),
        ("_ZNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEE15_M_replace_coldEPcmPKcmm", None),
        ("_ZNKSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEE4findEPKcmm", None),
        ("_ZNSolsEi", 0),
        ("_ZNSo5tellpEv", None),
    ],
)
def test_which_functions_return_what_they_were_given(name: str, returns: int | None) -> None:
    effect = library.effect(name)
    assert effect is not None
    assert effect.returns == returns
