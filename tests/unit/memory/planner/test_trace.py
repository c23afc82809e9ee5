"""Traces: what is refused, reading and writing JSON, merging."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from typing import Any

import pytest
from farlane.backend.memory.planner.cost import SegmentCost
from farlane.backend.memory.planner.merging import merge_adjacent, merge_small
from farlane.backend.memory.planner.segments import choose
from farlane.backend.memory.planner.trace import Access, Trace, TraceError
from hypothesis import given
from hypothesis import strategies as st

Make = Callable[..., Trace]


@pytest.mark.parametrize(
    ("data", "told"),
    [
        ([], "the trace: an object is expected"),
        ({"objects": 3}, "objects: a list"),
        ({"objects": [{"bytes": "8"}], "steps": []}, "bytes of object 0: a whole number"),
        ({"objects": [{"bytes": True}], "steps": []}, "bytes of object 0"),
        ({"objects": [], "steps": [[[0, "r"]]], "memory": 4}, "step 0 accesses object 0 of 0"),
        ({"objects": [{"bytes": 4}], "steps": [[[0, "x"]]], "memory": 4}, "step 0: "),
        ({"objects": [{"bytes": 8}], "steps": [[[0, "r"]]], "memory": 4}, "needs 8 bytes at once, the device has 4"),
        ({"objects": [{"bytes": 4}], "steps": [[[0, "r"], [0, "w"]]], "memory": 4}, "names an object twice"),
        ({"objects": [{"bytes": 0}], "steps": [], "memory": 4}, "object 0 has 0 bytes"),
        ({"objects": [], "steps": [], "memory": 0}, "device memory of 0"),
        ({"objects": [], "steps": [], "memory": 4, "sizes": []}, "the trace: no such key as 'sizes'"),
        ({"objects": [{"bytes": 1, "keep": True}], "steps": [], "memory": 9}, "object 0: no such key as 'keep'"),
        ({"objects": [{"bytes": 1, "kept": 1}], "steps": [], "memory": 9}, "kept of object 0: true or false"),
        ({"objects": [{"bytes": 4}], "steps": [[[False, "r"]]], "memory": 4}, "step 0: "),
        ({"objects": [{"bytes": 1, "name": 3}], "steps": [], "memory": 9}, "name of object 0: a text"),
    ],
)
def test_what_is_wrong_is_named(data: Any, told: str) -> None:
    with pytest.raises(TraceError, match=told.replace("(", "\\(")):
        Trace.from_json(data)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 9) | st.sampled_from(["r", "w", "rw", ""]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["objects", "steps", "memory", "bytes", "name", "kept"]), inner)
    ),
    max_leaves=20,
)


@given(JSON)
def test_nothing_but_a_trace_error_is_raised(data: Any) -> None:
    with contextlib.suppress(TraceError):
        Trace.from_json(data)


@given(seed=st.integers(0, 2**32))
def test_json_says_it_all(training: Make, seed: int) -> None:
    trace = training(seed, 6, 3, together=3)
    again = Trace.from_json(json.loads(json.dumps(trace.to_json())))
    assert (again.sizes, again.memory, again.kept) == (trace.sizes, trace.memory, trace.kept)
    assert [set(step) for step in again.steps] == [set(step) for step in trace.steps]


@given(seed=st.integers(0, 2**32))
def test_merging_adjacent_accesses_changes_no_cost(training: Make, seed: int) -> None:
    trace = training(seed, 6, 3)
    trace = Trace(trace.sizes, [step for step in trace.steps for _ in range(2)], trace.memory, trace.kept)
    merged = merge_adjacent(trace)
    assert len(merged.steps) < len(trace.steps)
    segments = choose(trace)
    before, after = SegmentCost(trace, segments), SegmentCost(merged, segments)
    assert [before.of(mask) for mask in range(64)] == [after.of(mask) for mask in range(64)]


def test_small_objects_of_an_unbroken_run_become_one() -> None:
    def touch(*numbers: int) -> list[list[Access]]:
        return [[Access(number, reads=False, writes=True)] for number in numbers]

    # 1, 2, 3 are small and follow each other; 4 is small too, but is accessed again behind the large 0.
    trace = Trace([100, 4, 5, 6, 7], touch(0, 1, 2, 1, 3, 4, 0, 4), 120, names=list("abcde"))
    merged = merge_small(trace, 10)
    assert merged.members == ((0,), (1, 2, 3), (4,))
    assert list(merged.trace.sizes) == [100, 15, 7]
    assert merged.trace.name(1) == "b + c + d"
    assert [[access.object for access in step] for step in merged.trace.steps] == [
        [0],
        [1],
        [1],
        [1],
        [1],
        [2],
        [0],
        [2],
    ]
    assert [step[0].reads for step in merged.trace.steps[1:5]] == [False, True, True, True]
    assert merge_small(trace, 5).members == ((0,), (1,), (2,), (3,), (4,))


def test_a_merged_object_is_fetched_if_any_member_is() -> None:
    trace = Trace([100, 4, 5], [[Access(1, reads=False, writes=True)], [Access(2)], [Access(0)]], 120)
    merged = merge_small(trace, 10)
    assert merged.members == ((0,), (1, 2))
    assert merged.trace.steps[0][0].reads
