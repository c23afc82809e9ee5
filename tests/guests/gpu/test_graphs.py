"""Repeats as CUDA graphs: instantiated once, changed where iterations differ, chosen by measuring, and the same results as step by step."""

from __future__ import annotations

import random
import struct
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from driver_options import ask
from farlane.backend.device.base import CudaError, LaunchShape
from farlane.backend.device.gpu.work.repeats import GRAPH_ITERATIONS, GRAPHS, Choice
from farlane.backend.device.objects import ChannelKind, ObjectDescription, Resource, Texels
from farlane.backend.device.plan import Body, Hole, Kind, Step, Stop

from .conftest import ONE

COUNT = 3 * GRAPH_ITERATIONS + 5
CHANGES = ("cuGraphExecKernelNodeSetParams", "cuGraphExecMemsetNodeSetParams", "cuGraphExecMemcpyNodeSetParams")


def rows(address: int, size: int = 4) -> bytes:
    return struct.pack("<QQQQ", address, size, size, 1)


def launch(bench: Any, function: Any, word: int, value: int, *holes: Hole, shape: LaunchShape = ONE) -> Step:
    return Step(Kind.LAUNCH, struct.pack("<QI", word, value), holes, bench.stream, function, shape)


def repeat(bench: Any, body: Body, columns: list[list[int]], count: int) -> Stop | None:
    matrix = np.array(columns, np.uint64).reshape(len(columns), count)
    stop: Stop | None = bench.context.repeat(body, matrix, np.empty((count, 0), np.uint8))
    return stop


def forced(bench: Any, choice: Choice) -> Any:
    bench.context.repeater._choice = choice
    bench.context.allocate(bench.base, 1 << 16)
    bench.write(bench.base, bytes(1 << 16))
    return bench


def random_body(bench: Any, function: Any, seed: int) -> tuple[Body, list[list[int]]]:
    """Launches, sets and copies on a few words, some of their operands differing from iteration to iteration."""
    dice = random.Random(seed)
    columns: list[list[int]] = []
    steps = []

    def column(values: list[int]) -> int:
        columns.append(values)
        return len(columns) - 1

    def place() -> int:
        return int(bench.base + 4 * dice.randrange(64))

    for _ in range(dice.randint(1, 5)):
        kind = dice.choice((Kind.LAUNCH, Kind.LAUNCH, Kind.SET, Kind.COPY, Kind.NOTHING))
        moving = dice.random() < 0.5
        places = [place() for _ in range(COUNT)]
        if kind is Kind.LAUNCH:
            holes = [Hole(8, 4, column([dice.randrange(1 << 32) for _ in range(COUNT)]))] if dice.random() < 0.5 else []
            holes += [Hole(0, 8, column(places))] if moving else []
            steps.append(
                launch(bench, function, 0 if moving else place(), 0 if holes[:1] and holes[0].at else 3, *holes)
            )
        elif kind is Kind.SET:
            fill = struct.pack("<II", dice.randrange(256), 1)
            hole = (Hole(0, 8, column(places)),) if moving else ()
            steps.append(Step(kind, rows(0 if moving else place()) + fill, hole, bench.stream))
        elif kind is Kind.COPY:
            hole = (Hole(16, 8, column(places)),) if moving else ()
            operands = struct.pack("<QQQQQQ", place(), 4, 0 if moving else place(), 4, 4, 1)
            steps.append(Step(kind, operands, hole, bench.stream))
        else:
            steps.append(Step(kind, stream=bench.stream))
    return Body(tuple(steps)), columns


@pytest.mark.parametrize("seed", range(12))
def test_graphs_do_what_steps_do(new_bench: Callable[..., Any], seed: int) -> None:
    seen = []
    for choice in (Choice.OFF, Choice.ON, Choice.AUTO):
        bench = forced(new_bench(), choice)
        body, columns = random_body(bench, bench.mix(), seed)
        moved = [[value - bench.base if value >= bench.base else value for value in row] for row in columns]
        for _ in range(2):
            assert repeat(bench, body, columns, COUNT) == Stop(COUNT)
        seen.append((moved, bench.read(bench.base, 1024)))
    assert seen[0] == seen[1] == seen[2]


def test_one_graph_launched_again_and_again(new_bench: Callable[..., Any]) -> None:
    """A body that never changes costs one call for so many iterations, and no changes."""
    bench = forced(new_bench(), Choice.ON)
    body = Body((launch(bench, bench.mix(), bench.base, 1),))
    for _ in range(10):
        repeat(bench, body, [], 10 * GRAPH_ITERATIONS)
    counts = bench.driver.counts
    assert (counts["create_graph"], counts["instantiate"], counts["add_kernel"]) == (1, 1, GRAPH_ITERATIONS)
    assert [bench.calls(name) for name in ("cuGraphLaunch", CHANGES[0], "cuLaunchKernel")] == [100, 0, 0]
    bench.context.synchronize()
    expected = 0
    for _ in range(100 * GRAPH_ITERATIONS):
        expected = (3 * expected + 1) % 2**32
    assert bench.read(bench.base, 4) == struct.pack("<I", expected)


def test_only_nodes_that_differ_are_changed(new_bench: Callable[..., Any]) -> None:
    bench = forced(new_bench(), Choice.ON)
    function = bench.mix()
    body = Body((launch(bench, function, bench.base, 1), launch(bench, function, bench.base + 4, 0, Hole(8, 4, 0))))
    repeat(bench, body, [list(range(2 * GRAPH_ITERATIONS))], 2 * GRAPH_ITERATIONS)
    assert bench.calls(CHANGES[0]) == GRAPH_ITERATIONS
    assert bench.calls("cuGraphLaunch") == 2


def test_nodes_are_changed_and_launched_by_the_plane(new_bench: Callable[..., Any]) -> None:
    """Without Python: parameters, addresses and a memset's value. A memset whose width differs is Python's to change."""
    bench = forced(new_bench(), Choice.ON)
    base, function = bench.base, bench.mix()
    fill, copy = struct.pack("<II", 0, 1), struct.pack("<QQQQQQ", 0, 4, base, 4, 4, 1)
    body = Body(
        (
            Step(Kind.SET, rows(0) + fill, (Hole(0, 8, 0), Hole(32, 1, 1)), bench.stream),
            launch(bench, function, base, 0, Hole(8, 4, 1)),
            Step(Kind.COPY, copy, (Hole(0, 8, 0),), bench.stream),
        )
    )
    places = [base + 8 * (number % 100) + 8 for number in range(COUNT)]
    numbers = [number % 200 for number in range(COUNT)]
    assert repeat(bench, body, [places, numbers], COUNT) == Stop(COUNT)
    counts, word = bench.driver.counts, 0
    expected = bytearray(1024)
    for place, number in zip(places, numbers, strict=True):
        word = (3 * word + number) % 2**32
        expected[place - base : place - base + 4] = struct.pack("<I", word)
    expected[:4] = struct.pack("<I", word)
    assert bench.read(base, 1024) == bytes(expected)
    assert (bench.calls("cuGraphLaunch"), bench.context.direct.counts()["graphs"]) == (COUNT // GRAPH_ITERATIONS,) * 2
    assert min(map(bench.calls, CHANGES)) > 0
    assert [counts[name] for name in ("launch", "change_kernel", "change_set", "change_copy")] == [0, 0, 0, 0]
    widths = Body((Step(Kind.SET, struct.pack("<QQQQII", base, 64, 0, 1, 7, 1), (Hole(16, 8, 0),), bench.stream),))
    assert repeat(bench, widths, [[8 + number // 70 for number in range(COUNT)]], COUNT) == Stop(COUNT)
    assert counts["change_set"] > 0
    assert bench.read(base, 11) == bytes([7] * 10) + bytes([expected[10]])


def test_steps_are_the_planes(new_bench: Callable[..., Any]) -> None:
    """Every kind of step that is plain, in one body; a read of rows that are apart is Python's, in its order."""
    bench = forced(new_bench(), Choice.OFF)
    base, event, kept = bench.base, bench.context.create_event(0), np.arange(4, dtype=np.uint8)
    steps = [
        Step(Kind.SET, rows(base) + struct.pack("<II", 0, 1), (), bench.stream),
        Step(Kind.WRITE, rows(base + 4) + bytes(4), (Hole(32, 4, 0),), bench.stream),
        Step(Kind.PUT, rows(base + 8) + struct.pack("<QQ", kept.ctypes.data, 4), (), bench.stream),
        launch(bench, bench.mix(), base + 4, 5),
        Step(Kind.COPY, struct.pack("<QQQQQQ", base, 4, base + 4, 4, 4, 1), (), bench.stream),
        Step(Kind.RECORD, stream=bench.stream, event=event),
        Step(Kind.READ, rows(base, 12), (), bench.stream, result_at=0, result_end=12),
        Step(Kind.NOTHING, stream=bench.stream, result_at=12, result_end=28),
    ]
    apart = Step(Kind.READ, struct.pack("<QQQQ", base, 8, 4, 2), (), bench.stream, result_at=28, result_end=36)
    for more in ([], [apart]):
        before, calls = bench.context.direct.counts(), bench.driver.counts.copy()
        results = np.zeros((9, 36), np.uint8)
        columns = np.arange(9, dtype=np.uint64).reshape(1, 9)
        assert bench.context.repeat(Body((*steps, *more)), columns, results) == Stop(9)
        for number in range(9):
            word = struct.pack("<I", 3 * number + 5)
            assert results[number, :12].tobytes() == word + word + bytes(range(4))
            assert results[number, 28:].tobytes() == (word + bytes(range(4)) if more else bytes(8))
        after = bench.context.direct.counts()
        done = {name: after[name] - before[name] for name in after if after[name] != before[name]}
        kinds = ("sets", "launches", "copies", "records", "reads", "synchronizations")
        assert done == dict.fromkeys(kinds, 9) | {"writes": 18}
        python = bench.driver.counts - calls
        assert (python["copy_rows"], python["launch"], python["copy"]) == (9 if more else 0, 0, 0)


def test_an_interrupted_loop_ends(new_bench: Callable[..., Any]) -> None:
    """In the middle of a repetition, not behind it."""
    bench = forced(new_bench(), Choice.OFF)
    read = Step(Kind.READ, rows(bench.base), (), bench.stream, result_at=0, result_end=4)
    body = Body((launch(bench, bench.mix(), bench.base, 1), read))
    count = 2_000_000
    timer = threading.Timer(0.3, bench.context.interrupt)
    timer.start()
    stop = bench.context.repeat(body, np.empty((0, count), np.uint64), np.empty((count, 4), np.uint8))
    assert stop.iterations < count
    assert stop.error.sticky


def test_the_faster_way_is_kept(new_bench: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Measured once for a body. The clock is the test's: a launch costs 10, a graph 5 for each or 50."""
    for graph_cost, faster in ((5, True), (50, False)):
        bench = forced(new_bench(), Choice.AUTO)

        def clock(bench: Any = bench, cost: int = graph_cost) -> int:
            return int(10 * bench.calls("cuLaunchKernel") + cost * GRAPH_ITERATIONS * bench.calls("cuGraphLaunch"))

        monkeypatch.setattr("farlane.backend.device.gpu.work.repeats.time.perf_counter_ns", clock)
        body = Body((launch(bench, bench.mix(), bench.base, 1),))
        repeat(bench, body, [], 2 * GRAPH_ITERATIONS)
        assert body.prepared.measured is None  # too few to be worth it
        for _ in range(3):
            repeat(bench, body, [], 4 * GRAPH_ITERATIONS)
        assert body.prepared.measured == (10, graph_cost)
        assert body.prepared.faster is faster
        launched = {True: 2 + 4 + 4, False: 2}[faster]  # the first one uploads the graph, the second is measured
        assert bench.calls("cuGraphLaunch") == launched


@pytest.mark.parametrize(
    "call",
    [
        "cuGraphCreate", "cuGraphAddKernelNode", "cuGraphInstantiateWithFlags", "cuGraphExecKernelNodeSetParams",
        "cuGraphLaunch",
    ],
)  # fmt: skip
def test_a_driver_that_refuses_a_graph(new_bench: Callable[..., Any], call: str) -> None:
    """Nothing is lost or done twice: the rest goes step by step."""
    bench = forced(new_bench(), Choice.ON)
    body = Body((launch(bench, bench.mix(), bench.base, 0, Hole(8, 4, 0)),))
    ask(f"fail {call} {0 if call == 'cuGraphLaunch' else 801} 801")
    values = list(range(COUNT))
    assert repeat(bench, body, [values], COUNT) == Stop(COUNT)
    assert repeat(bench, body, [values], COUNT) == Stop(COUNT)
    expected = 0
    for value in values + values:
        expected = (3 * expected + value) % 2**32
    assert bench.read(bench.base, 4) == struct.pack("<I", expected)


def test_bodies_that_are_not_for_graphs(new_bench: Callable[..., Any]) -> None:
    bench = forced(new_bench(), Choice.ON)
    context, function = bench.context, bench.mix()
    work, event = launch(bench, function, bench.base, 1), context.create_event(0)
    other = context.create_stream(0, 0)
    declined = [
        Body((work, Step(Kind.NOTHING, stream=bench.stream, event=event))),  # a wait
        Body((work, Step(Kind.SET, rows(bench.base) + struct.pack("<II", 1, 1), (), other))),  # two streams
        Body((work, Step(Kind.FREE, bytes(8)))),
    ]
    for body in declined:
        assert repeat(bench, body, [], COUNT) is None
    plain = Body((work, Step(Kind.RECORD, stream=bench.stream, event=event)))
    assert repeat(bench, plain, [], COUNT) == Stop(COUNT)
    assert bench.calls("cuGraphLaunch") == 0


def test_a_synchronization_in_the_body_tells_of_faults(new_bench: Callable[..., Any]) -> None:
    """Its result says success only where the GPU has come so far."""
    bench = forced(new_bench(), Choice.AUTO)
    status = Step(Kind.NOTHING, stream=bench.stream, result_at=0, result_end=16)
    body = Body((launch(bench, bench.mix(), 0, 1, Hole(0, 8, 0)), status))
    words = [bench.base] * 5 + [16] + [bench.base] * 4
    matrix = np.array([words], np.uint64)
    stop = bench.context.repeat(body, matrix, np.empty((10, 16), np.uint8))
    assert stop is not None
    assert (stop.iterations, stop.step) == (5, 1)
    assert stop.error is not None
    assert (stop.error.code, stop.error.sticky) == (700, True)
    with pytest.raises(CudaError):
        bench.context.synchronize()


def test_graphs_are_bounded_and_end_with_the_session(new_bench: Callable[..., Any]) -> None:
    bench = forced(new_bench(), Choice.ON)
    function = bench.mix()
    bodies = [Body((launch(bench, function, bench.base + 4 * number, 1),)) for number in range(GRAPHS + 3)]
    for body in bodies:
        repeat(bench, body, [], GRAPH_ITERATIONS)
    assert bench.left()["executables"] == GRAPHS
    repeat(bench, bodies[0], [], GRAPH_ITERATIONS)  # made again
    bench.context.reset()
    assert "executables" not in bench.left()


def test_graphs_of_a_driver_that_tells_no_layout(new_bench: Callable[..., Any]) -> None:
    """Before CUDA 12.4: nodes take their parameters as one buffer."""
    bench = forced(new_bench(tells_layout=False), Choice.ON)
    body = Body((launch(bench, bench.mix(), bench.base, 0, Hole(8, 4, 0)),))
    values = [number % 7 for number in range(COUNT)]
    for _ in range(2):
        repeat(bench, body, [values], COUNT)
    expected = 0
    for value in values * 2:
        expected = (3 * expected + value) % 2**32
    assert bench.read(bench.base, 4) == struct.pack("<I", expected)
    assert bench.calls("cuGraphLaunch") > 0


@pytest.mark.parametrize("moving", [False, True])
def test_rows_that_are_apart_are_in_graphs_as_long_as_they_stay(new_bench: Callable[..., Any], moving: bool) -> None:
    """The driver changes one-dimensional copies and sets only."""
    bench = forced(new_bench(), Choice.ON)
    holes = (Hole(0, 8, 0),) if moving else ()
    targets = [bench.base + 4096 + 256 * (number % 3) for number in range(COUNT)]
    copy = struct.pack("<QQQQQQ", 0 if moving else targets[0], 64, bench.base, 32, 16, 2)
    fill = struct.pack("<QQQQII", bench.base, 32, 16, 2, 7, 1)
    body = Body((Step(Kind.SET, fill, (), bench.stream), Step(Kind.COPY, copy, holes, bench.stream)))
    assert repeat(bench, body, [targets] if moving else [], COUNT) == Stop(COUNT)
    assert (bench.calls("cuGraphLaunch") > 0) is not moving
    assert bench.read(targets[0] + 64, 16) == bytes([7] * 16)


def test_addresses_of_an_array_are_no_memory(new_bench: Callable[..., Any]) -> None:
    """A body that copies is no graph while there are arrays; one that only launches is."""
    bench = forced(new_bench(), Choice.ON)
    place = bench.base + (1 << 20)
    size = (16, 4, 1)
    texels = Texels(Resource.ARRAY, place, size, 512, 2048, 4, 1, ChannelKind.FLOAT, (16, 4, 0), 2)
    bench.context.allocate(place, texels.span)
    bench.context.create_object(ObjectDescription(texels, None))
    bench.write(bench.base, b"sixteen  bytes..")
    operands = struct.pack("<QQQQQQ", place + 512, 16, bench.base, 16, 16, 1)
    body = Body((Step(Kind.COPY, operands, (), bench.stream),))
    assert repeat(bench, body, [], COUNT) == Stop(COUNT)
    assert bench.calls("cuGraphLaunch") == 0
    assert bench.read(place + 512, 16) == b"sixteen  bytes.."
    repeat(bench, Body((launch(bench, bench.mix(), bench.base, 1),)), [], COUNT)
    assert bench.calls("cuGraphLaunch") > 0
