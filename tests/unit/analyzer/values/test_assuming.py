"""Pointers that were read from memory, structures side by side, and what is only assumed of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from farlane.analyzer.analysis.program import analyze
from farlane.analyzer.loader import elf
from farlane.analyzer.loops.model import LoopReport
from farlane.analyzer.machine.instruction import RDI, RSI
from farlane.analyzer.values.addresses import apart, stride
from farlane.analyzer.values.expression import CALL, Values
from farlane.analyzer.values.memory import Memory
from farlane.analyzer.values.state import State

RUNTIME = """
extern "C" int cudaMemcpy(void *, const void *, unsigned long, int) { return 0; }
extern "C" int cudaMemset(void *, int, unsigned long) { return 0; }
"""
SOURCE = """
#include <cstdlib>
extern "C" int cudaMemcpy(void *, const void *, unsigned long, int);
extern "C" int cudaMemset(void *, int, unsigned long);
struct Box { int rounds; int *host; };
__attribute__((noipa)) void likely(Box *box, void *device) {
    for (int i = 0; i < box->rounds; ++i) { cudaMemset(device, i, 4); cudaMemcpy(box->host, device, 4096, 2); }
}
__attribute__((noipa)) void certain(int *log, void *device, int count) {
    int *sizes = (int *)malloc(count * sizeof(int));
    for (int i = 0; i < count; ++i) sizes[i] = rand();
    for (int i = 0; i < count; ++i) { log[i] = i; cudaMemset(device, i, sizes[i]); }
    free(sizes);
}
__attribute__((noipa)) void method(int *count, Box *box, void *device) {
    *count = 0;
    for (int i = 0; i < box->rounds; ++i) { ++*count; cudaMemset(device, i, 4); }
}
__attribute__((noipa)) void both(int *count, int *rounds, void *device) {
    for (int i = 0; i < *rounds; ++i) { *count += 2; cudaMemset(device, *rounds, 4); }
}
struct Item { void *at; long size; int used; };
struct Items { Item *all; int count, made; };
__attribute__((noipa)) void filled(Items *items, int *log) {
    for (int i = 0; i < items->count; ++i) {
        items->all[i].used = *log += 2;
        ++items->made;
        cudaMemset(nullptr, i, items->all[i].size);
    }
}
__attribute__((noipa)) void resized(Items *items, int *log) {
    for (int i = 0; i < items->count; ++i) {
        items->all[i + 1].size = *log += 2;
        cudaMemset(nullptr, i, items->all[i].size);
    }
}
struct Parts { long *sizes; int count; };
__attribute__((noinline)) void each_part(Parts *parts, void *device) {
    for (int k = 0; k < parts->count; ++k) cudaMemset(device, k, parts->sizes[k]);
}
__attribute__((noipa)) void parts_kept(Parts *parts, int *log, void *device, int n) {
    parts->sizes[0] = n;
    for (int i = 0; i < n; ++i) { *log += 2; each_part(parts, device); }
}
__attribute__((noipa)) void parts_changed(Parts *parts, int *log, void *device, int n) {
    for (int i = 0; i < n; ++i) { parts->sizes[i] = rand(); each_part(parts, device); }
}
__attribute__((noipa)) void given_twice(void *device, int n) {
    int one = 3;
    for (int i = 0; i < n; ++i) both(&one, &one, device);
}
__attribute__((noipa)) void neither(int *log, const int *sizes, void *device, int count) {
    for (int i = 0; i < count; ++i) { log[i] = i; cudaMemset(device, i, sizes[i]); }
}
int main(int n, char **) {
    int there; Box box{n, &there};
    likely(&box, 0); method(&there, &box, 0); given_twice(0, 2);
    Item three[3] = {}; Items items{three, 2, 0}; filled(&items, &there); resized(&items, &there);
    long sizes[3] = {}; Parts parts{sizes, 3}; parts_kept(&parts, &there, 0, 2), parts_changed(&parts, &there, 0, 2); certain(&there, 0, 1); neither(&there, &there, 0, 1);
}
"""


@pytest.fixture(scope="module")
def loops(build: Callable[..., Path]) -> tuple[LoopReport, ...]:
    return analyze(build(SOURCE, "-O1", runtime=RUNTIME)).loops


def by_name(loops: tuple[LoopReport, ...], name: str) -> LoopReport:
    (found,) = (loop for loop in loops if name in loop.function)
    return found


def test_what_is_assumed_is_marked_and_nothing_exact_rests_on_it(loops: tuple[LoopReport, ...]) -> None:
    loop = by_name(loops, "likely")
    assert loop.described
    assert loop.assumes_separate
    assert loop.continuations
    assert not any(continuation.exact for continuation in loop.continuations), "the copy may go into the box"


def test_what_was_given_lies_elsewhere_than_what_was_allocated_since(loops: tuple[LoopReport, ...]) -> None:
    loop = by_name(loops, "certain")
    assert loop.described
    assert not loop.assumes_separate
    assert all(continuation.exact for continuation in loop.continuations)


def test_structures_that_were_given_are_taken_to_lie_apart(loops: tuple[LoopReport, ...]) -> None:
    assert by_name(loops, "method").described
    assert by_name(loops, "method").assumes_separate
    assert by_name(loops, "both").assumes_separate


def test_fields_behind_one_pointer_lie_apart(loops: tuple[LoopReport, ...]) -> None:
    assert by_name(loops, "filled").described
    assert by_name(loops, "filled").assumes_separate
    assert not by_name(loops, "resized").described, "the next one's size is set"


def test_tables_that_a_called_function_goes_through_are_the_caller_s_to_change(loops: tuple[LoopReport, ...]) -> None:
    assert by_name(loops, "parts_kept").described
    assert not by_name(loops, "parts_changed").described


def test_what_a_caller_visibly_gives_twice_is_one(loops: tuple[LoopReport, ...]) -> None:
    assert not by_name(loops, "given_twice").described


def test_arrays_that_were_given_may_be_one(loops: tuple[LoopReport, ...]) -> None:
    loop = by_name(loops, "neither")
    assert not loop.described
    assert not loop.assumes_separate
    assert "memory-changed" in loop.reasons


def test_fields_of_structures_side_by_side() -> None:
    values = Values()
    index = values.scale(values.atom(CALL, 0x5, "rand"), 56)
    first = stride(values, values.combine(values.add(values.stack_pointer, -600), index))
    assert first == (-600, 56)
    assert stride(values, index) is None
    assert apart(first, 8, (-600 + 8, 56), 8)
    assert apart(first, 4, (-44, 0), 4), "between two elements' field"
    assert not apart(first, 8, (-600 + 56 * 3, 0), 4)
    assert not apart(first, 8, (-600 + 56 * 3 - 4, 0), 8)
    assert not apart(first, 8, (-600 + 4, 56), 8)
    assert not apart(first, 8, (-600 + 8, 24), 1), "8 apart have they in common"
    assert apart(first, 8, (-592, 16), 8) is False


@pytest.fixture(params=[False, True], ids=["proven", "assumed"])
def state(build: Callable[..., Path], request: pytest.FixtureRequest) -> State:
    image = elf.load(build("int main() { return 0; }"))
    return State.at_entry(Memory(Values(), image, separate=request.param))


def test_a_store_at_a_computed_place_leaves_other_fields_alone(state: State) -> None:
    values = state.memory.values
    index = values.scale(values.atom(CALL, 0x5, "rand"), 24)
    same, other = values.add(values.stack_pointer, -96 + 24), values.add(values.stack_pointer, -96 + 32)
    for place in (same, other):
        state.write(place, 8, values.constant(5), 0x10)
    state.write(values.combine(values.add(values.stack_pointer, -96), index), 8, values.zero, 0x20)
    assert not state.read(same, 8).is_constant
    assert state.read(other, 8).is_constant


def test_a_pointer_from_memory(state: State) -> None:
    """It may point to what the function was given; assumed is that it does not, and what it points to is one thing all
    the same."""
    values = state.memory.values
    given = state.registers[RDI]
    state.write(given, 8, values.constant(5), 0x10)
    loaded = state.read(state.registers[RSI], 8)
    state.write(loaded, 8, values.constant(6), 0x20)
    assert state.read(given, 8).is_constant == state.memory.separate
    state.write(given, 8, values.constant(7), 0x30)
    assert state.read(loaded, 8).is_constant == state.memory.separate
    before = state.read(values.add(loaded, 64), 8)
    state.write_range(loaded, None, 0x40)
    assert not state.read(loaded, 8).is_constant
    assert state.read(values.add(loaded, 64), 8) is not before


def test_a_store_through_a_given_pointer_leaves_frame_and_allocations_alone(state: State) -> None:
    values = state.memory.values
    frame, allocated = values.add(values.stack_pointer, -32), values.atom(CALL, 0x8, "malloc")
    state.escape(frame)
    for place in (frame, allocated, values.constant(0x404000)):
        state.write(place, 8, values.constant(5), 0x10)
    index = values.scale(values.atom(CALL, 0x5, "rand"), 4)
    state.write(values.combine(state.registers[RDI], index), 4, values.zero, 0x20)
    assert state.read(frame, 8).is_constant
    assert state.read(allocated, 8).is_constant
    unchanged = state.read(values.constant(0x404000), 8).is_constant
    assert unchanged == state.memory.separate, "a global variable may be what was given, unless assumed otherwise"
    state.write(values.atom(CALL, 0x9, "somewhere"), 8, values.zero, 0x30)
    assert not state.read(frame, 8).is_constant
    assert not state.read(allocated, 8).is_constant


SETTING = 'extern "C" int cudaMemset(void *, int, unsigned long) { return 0; }'
TWO_FIELDS = """
extern "C" int cudaMemset(void *, int, unsigned long);
struct Run {
    char *from, *to;
    long size;
    int *log;
};
static __attribute__((noipa)) void exchange(char **one, char **other) {
    char *kept = *one;
    *one = *other;
    *other = kept;
}
static __attribute__((noipa)) void follow(char **one, char **other) {
    char *kept = *other;
    one[1] = kept + 8;
    *one = *other;
}
__attribute__((noipa)) void exchanged(Run *run, int steps) {
    for (int i = 0; i < steps; ++i) {
        cudaMemset(run->from, 0, run->size);
        run->log[i] = i;
        exchange(&run->from, &run->to);
    }
}
__attribute__((noipa)) void followed(Run *run, int steps) {
    for (int i = 0; i < steps; ++i) {
        cudaMemset(run->from, 0, run->size);
        run->log[i] = i;
        follow(&run->from, &run->to);
    }
}
int main(int n, char **names) {
    Run run{*names, *names, 8, &n};
    exchanged(&run, n), followed(&run, n);
}
"""


@pytest.mark.parametrize("level", ["-O0", "-O2"])
def test_fields_of_one_object_are_places_of_their_own_where_accesses_stay_apart(
    build: Callable[..., Path], level: str
) -> None:
    found = analyze(build(TWO_FIELDS, level, runtime=SETTING)).loops
    assert by_name(found, "exchanged").described
    assert not by_name(found, "followed").described


CHOSEN = """
extern "C" int cudaMemset(void *, int, unsigned long);
struct Run {
    char *from;
    long size;
    int *log;
};
static __attribute__((noipa)) void put(Run *run, int step) {
    long own[4] = {};
    long *where = step & 1 ? own + 1 : PLACE;
    for (int i = 0; i < 2; ++i) {
        *where = step;
        where = step & 2 ? own : where;
    }
    asm volatile("" : : "r"(own) : "memory");
}
__attribute__((noipa)) void all(Run *run, int steps) {
    for (int i = 0; i < steps; ++i) {
        cudaMemset(run->from, 0, run->size);
        run->log[i] = i;
        put(run, i);
    }
}
int main(int n, char **names) {
    Run run{*names, 8, &n};
    all(&run, n);
}
"""


@pytest.mark.parametrize(
    ("level", "place", "described"),
    [("-O0", "own + 2", True), ("-O2", "own + 2", True), ("-O0", "&run->size", False)],
)
def test_what_is_stored_in_a_called_functions_own_frame_is_nobody_elses(
    build: Callable[..., Path], level: str, place: str, described: bool
) -> None:
    found = analyze(build(CHOSEN.replace("PLACE", place), level, runtime=SETTING)).loops
    assert by_name(found, "all").described == described
