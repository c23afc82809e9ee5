"""Repeating a loop's body on a GPU: as one graph of several iterations, or step by step; whichever is faster.

Owns the choice and the way of each iteration's operands to the driver. A body of launches, sets and copies in one stream can be a graph (graphs.py): as
many iterations as make a graph worth its launch, instantiated once, its nodes' parameters changed where an iteration's differ from the last. Everything
else is issued step by step. Either way the plane calls the driver (plane.Graph, plane.Body); what is not plain in a body it leaves to `_step`.

The choice (DeviceOptions.graphs): `on`, `off`, or `auto`, which measures both ways once for each body, on iterations that have to be done anyhow,
and keeps the faster. Both issue the same operations in the same order in the same stream, so the results are the same bits.

What is declined, and so done record by record: bodies in several streams or with waits for events, for here a wait is not "nothing"; a launch that would
be refused; kinds of steps not known here. A fault of a kernel is reported where the GPU reports it, at the next step that waits.

One thread at a time.
Source: docs/explanation/systems.md, S1 points 4 and 5; CUDA programming guide, "CUDA Graphs".
"""

from __future__ import annotations

import logging
import struct
import time
from collections import Counter, OrderedDict
from collections.abc import Callable
from enum import Enum

import numpy as np
import numpy.typing as npt
from farlane.backend import plane
from farlane.backend.device.base import CudaError, Rows
from farlane.backend.device.bulk import Inside, first_stop
from farlane.backend.device.gpu.driver.errors import to_cuda
from farlane.backend.device.gpu.driver.interface import CopyWork, Driver, DriverError
from farlane.backend.device.gpu.memory.memory import Memory, set_work, view_of
from farlane.backend.device.gpu.work.graphs import Graph, Node, Table
from farlane.backend.device.gpu.work.launches import Launcher, has_attributes
from farlane.backend.device.gpu.work.streams import Streams
from farlane.backend.device.plan import Body, Columns, Kind, Results, Step, Stop
from farlane.backend.plane import Cuda, Direct, Entry, Event, Stream

Operands = npt.NDArray[np.uint8]  # (iterations, bytes)
Place = tuple[int, int]  # an iteration, and a step in it

GRAPH_NODES = 256
GRAPH_ITERATIONS = 64
GRAPHS = 32  # of a session
_KNOWN = frozenset({Kind.LAUNCH, Kind.SET, Kind.COPY, Kind.WRITE, Kind.PUT, Kind.READ, Kind.RECORD, Kind.NOTHING})
_IN_GRAPHS = frozenset({Kind.LAUNCH, Kind.SET, Kind.COPY})
_ROWS, _COPY = struct.Struct("<QQQQ"), struct.Struct("<QQQQQQ")
_VALUE, _PLACE = struct.Struct("<II"), struct.Struct("<QQ")

log = logging.getLogger("farlane.gpu")


class Choice(Enum):
    """How bodies are repeated."""

    AUTO = "auto"
    ON = "on"
    OFF = "off"


class _Declined(Exception):
    pass


class _Prepared:
    """A body as it is repeated here."""

    def __init__(self, body: Body, launcher: Launcher, direct: Direct) -> None:
        """Raises _Declined."""
        self.streams = {step.stream for step in body.steps if step.stream is not None}
        answered = 0
        self.answers: list[bool] = []  # whether a step yields results: where the GPU must have come so far
        for step in body.steps:
            if step.kind not in _KNOWN:
                raise _Declined
            if step.kind is Kind.NOTHING and step.event is not None and step.stream is not None:
                raise _Declined
            if step.kind is Kind.LAUNCH:
                assert step.shape is not None
                try:
                    launcher.check(step.function, step.shape, len(step.operands))
                except CudaError:
                    raise _Declined from None  # the launch itself will say why
            self.answers.append(step.result_end > answered)
            answered = step.result_end
        if len(self.streams) > 1 or any(not stream.alive for stream in self.streams):
            raise _Declined
        self.stream = next(iter(self.streams)).handle if self.streams else 0
        work = [step for step in body.steps if step.kind is not Kind.NOTHING]
        able = not any(self.answers) and all(
            step.kind in _IN_GRAPHS and not (step.shape is not None and has_attributes(step.shape)) for step in work
        )
        able = able and not any(_fixed_once_made(step) for step in work if step.holes)
        self.moves = any(step.kind is not Kind.LAUNCH for step in work)
        self.iterations = min(GRAPH_ITERATIONS, GRAPH_NODES // len(work)) if work and able else 0  # of one graph
        self.steps = plane.Body(
            direct,
            [self._native(step, launcher, answers) for step, answers in zip(body.steps, self.answers, strict=True)],
        )
        self.working = [index for index, step in enumerate(body.steps) if step.kind is not Kind.NOTHING]
        self.graph: Graph | None = None
        self.faster: bool | None = None  # the graph; None: not measured yet
        self.measured: tuple[float, float] | None = None  # nanoseconds for an iteration, step by step and as a graph

    @staticmethod
    def _native(
        step: Step, launcher: Launcher, answers: bool
    ) -> tuple[int, bool, Stream | None, Event | None, Entry | None, int]:
        """The step as the plane does it."""
        entry = None
        if step.kind is Kind.LAUNCH:
            assert step.shape is not None
            entry = launcher.lay_out(step.function, step.shape, len(step.operands), step.stream)
        return int(step.kind), answers, step.stream, step.event, entry, step.result_at

    def end_graph(self) -> None:
        """The executable graph may still run: the driver then frees it when it has ended."""
        if self.graph is not None:
            self.graph.close()
            self.graph = None


class Repeater:
    """Repeats the bodies of one session."""

    def __init__(
        self,
        driver: Driver,
        memory: Memory,
        streams: Streams,
        launcher: Launcher,
        context: int,
        choice: Choice,
        counts: Counter[str],
        native: Cuda,
        direct: Direct,
        go_on: Callable[[], None],
    ) -> None:
        """`go_on`: raises CudaError where the session has been interrupted."""
        self._driver = driver
        self._native = native
        self._direct = direct
        self._go_on = go_on
        self._memory = memory
        self._streams = streams
        self._launcher = launcher
        self._context = context
        self._choice = choice
        self._with_graph: OrderedDict[int, _Prepared] = OrderedDict()  # by id, least recently used first
        self._version = (-1, 0)
        self._starts = self._ends = np.empty(0, np.uint64)
        self._counts = counts

    def repeat(self, body: Body, columns: Columns, results: Results) -> Stop | None:
        """See `Context.repeat`."""
        prepared = body.prepared
        if prepared is None:
            try:
                prepared = body.prepared = _Prepared(body, self._launcher, self._direct)
            except _Declined:
                return None
        for stream in prepared.streams:
            self._streams.check(stream)
        stop = first_stop(body, columns, self._inside())
        count = stop.iterations
        operands = [_operands(step, columns, count + (index < stop.step)) for index, step in enumerate(body.steps)]
        done = self._with_graphs(body, prepared, operands, count)
        return self._steps(body, prepared, operands, results, (done, 0), (count, stop.step)) or stop

    def close(self) -> None:
        """Ends the graphs. Nothing of them runs, or the context is lost."""
        for prepared in self._with_graph.values():
            prepared.end_graph()
        self._with_graph.clear()

    # Graphs -----------------------------------------------------------------------------------------------------
    def _with_graphs(self, body: Body, prepared: _Prepared, operands: list[Operands], count: int) -> int:
        """Does as many of the iterations as a graph does; returns how many."""
        each = prepared.iterations
        if not each or self._choice is Choice.OFF or prepared.faster is False or count < each:
            return 0
        if prepared.moves and self._memory.arrays:
            return 0  # a copy may be to an array, whose addresses are no memory
        if self._choice is Choice.ON or prepared.faster:
            return self._graphs_from(body, prepared, operands, 0, count)
        if count < 4 * each:
            return 0
        return self._measure(body, prepared, operands, count)

    def _measure(self, body: Body, prepared: _Prepared, operands: list[Operands], count: int) -> int:
        """Both ways, one after the other, on iterations that are to be done anyhow."""
        each, driver = prepared.iterations, self._driver
        done = self._graphs_from(
            body, prepared, operands, 0, each
        )  # instantiated, and its first launch, which uploads it
        if prepared.faster is False:
            return done
        driver.synchronize_stream(prepared.stream)
        started = time.perf_counter_ns()
        failed = self._steps(body, prepared, operands, None, (each, 0), (2 * each, 0))
        if failed is not None and failed.error is not None:
            raise failed.error
        driver.synchronize_stream(prepared.stream)
        middle = time.perf_counter_ns()
        done = self._graphs_from(body, prepared, operands, 2 * each, 3 * each)
        driver.synchronize_stream(prepared.stream)
        ended = time.perf_counter_ns()
        prepared.measured = ((middle - started) / each, (ended - middle) / each)
        if done == 3 * each:
            prepared.faster = prepared.measured[1] < prepared.measured[0]
        return done

    def _graphs_from(self, body: Body, prepared: _Prepared, operands: list[Operands], begin: int, end: int) -> int:
        """Launches graphs for whole multiples of their iterations in [begin, end); returns how far that got. A driver that
        refuses a graph, or a change to one, has done nothing yet: the rest goes step by step."""
        each = prepared.iterations
        while begin + each <= end:
            try:
                self._launch_graph(body, prepared, operands, begin)
            except DriverError as error:
                log.info("a loop goes on without its graph: %s", error)
                self._counts["graphs_given_up"] += 1
                prepared.end_graph()
                self._with_graph.pop(id(prepared), None)
                prepared.faster = False
                return begin
            self._counts["graph_launches"] += 1
            self._counts["graph_iterations"] += each
            begin += each
        return begin

    def _launch_graph(self, body: Body, prepared: _Prepared, operands: list[Operands], begin: int) -> None:
        def node(index: int) -> Node:
            iteration, step = divmod(index, len(working))
            return self._node(body.steps[working[step]], operands[working[step]][begin + iteration].tobytes())

        working = prepared.working
        if prepared.graph is None:
            nodes = [node(index) for index in range(prepared.iterations * len(working))]
            prepared.graph = Graph(self._driver, self._native, self._direct, self._context, nodes)
            self._with_graph[id(prepared)] = prepared
            if len(self._with_graph) > GRAPHS:
                self._with_graph.popitem(last=False)[1].end_graph()
        else:
            self._with_graph.move_to_end(id(prepared))
        tables = [_table(operands[index]) for index in working]
        while (changed := prepared.graph.launch(tables, begin, prepared.stream)) is not None:
            prepared.graph.change(changed, node(changed))

    def _node(self, step: Step, operands: bytes) -> Node:
        if step.kind is Kind.LAUNCH:
            return Node(step.kind, operands, step.function, step.shape)
        if step.kind is Kind.SET:
            value, element = _VALUE.unpack_from(operands, 32)
            return Node(step.kind, operands, work=set_work(Rows(*_ROWS.unpack_from(operands)), value, element))
        return Node(step.kind, operands, work=CopyWork(*_COPY.unpack_from(operands)))

    # Step by step -----------------------------------------------------------------------------------------------
    def _steps(
        self,
        body: Body,
        prepared: _Prepared,
        operands: list[Operands],
        results: Results | None,
        begin: Place,
        end: Place,
    ) -> Stop | None:
        """Does the steps from one place to another; where one has failed, and with what."""
        tables = [_table(each) for each in operands]
        answers = None if results is None else _table(results)
        while True:
            reached = prepared.steps.run(tables, answers, begin, end)
            if reached is None:
                return None
            iteration, index, fault = reached
            try:
                if fault is not None:
                    raise self._driver.error(*fault)
                self._go_on()
                step = body.steps[index]
                data = operands[index][iteration].data if len(operands[index]) else memoryview(b"")
                row = results[iteration] if results is not None and step.kind is Kind.READ else None
                self._step(step, data, prepared.answers[index], row)
            except DriverError as error:
                return Stop(iteration, index, to_cuda(error))
            except CudaError as error:
                return Stop(iteration, index, error)
            begin = (iteration, index + 1)

    def _step(self, step: Step, data: memoryview, answers: bool, results: npt.NDArray[np.uint8] | None) -> None:
        memory, kind = self._memory, step.kind
        if kind is Kind.LAUNCH:
            assert step.shape is not None
            self._launcher.launch(step.function, step.shape, data, step.stream.handle)
        elif kind is Kind.SET:
            value, element = _VALUE.unpack_from(data, 32)
            memory.set(Rows(*_ROWS.unpack_from(data)), value, element, step.stream.handle)
        elif kind is Kind.COPY:
            to, to_pitch, source, source_pitch, width, height = _COPY.unpack_from(data)
            memory.copy(
                Rows(to, to_pitch, width, height), Rows(source, source_pitch, width, height), step.stream.handle
            )
        elif kind is Kind.WRITE:
            memory.write(Rows(*_ROWS.unpack_from(data)), data[32:], step.stream.handle)
            self._streams.wrote(step.stream)
        elif kind is Kind.PUT:
            place, size = _PLACE.unpack_from(data, 32)
            memory.write(Rows(*_ROWS.unpack_from(data)), view_of(place, size), step.stream.handle)
            self._streams.wrote(step.stream)
        elif kind is Kind.READ:
            assert results is not None
            at = step.result_at
            for piece in memory.read(Rows(*_ROWS.unpack_from(data)), step.stream.handle):
                results[at : at + len(piece)] = np.frombuffer(piece, np.uint8)
                at += len(piece)
        elif kind is Kind.RECORD:
            self._streams.record(step.event, step.stream)
        elif answers:
            self._wait(step)

    def _wait(self, step: Step) -> None:
        """A synchronization whose result is sent: it reports faults so far."""
        if step.event is not None:
            self._driver.synchronize_event(step.event.handle)
        elif step.stream is not None:
            self._driver.synchronize_stream(step.stream.handle)
        else:
            self._driver.synchronize()

    def _inside(self) -> Inside:
        """The allocations as `first_stop` searches them."""
        allocations = self._memory.allocations
        if self._version != (allocations.version, id(allocations)):
            self._version = (allocations.version, id(allocations))
            usable = [each for each in allocations if each.access]
            self._starts = np.array([each.start for each in usable], np.uint64)
            self._ends = np.array([each.end for each in usable], np.uint64)
        starts, ends = self._starts, self._ends

        def inside(address: npt.NDArray[np.uint64], span: npt.NDArray[np.uint64]) -> npt.NDArray[np.bool_]:
            if not len(starts):
                return np.zeros(len(address), np.bool_)
            index = np.searchsorted(starts, address, "right")
            at = np.maximum(index, 1) - 1
            good: npt.NDArray[np.bool_] = (index > 0) & (address < ends[at]) & (span <= ends[at] - address)
            return good

        return inside


def _table(array: npt.NDArray[np.uint8]) -> Table:
    """Where an array of a row for each iteration lies."""
    assert array.flags.c_contiguous
    return array.ctypes.data, array.shape[1]


def _fixed_once_made(step: Step) -> bool:
    """A copy or set of rows that are apart: the driver changes one-dimensional nodes only."""
    if step.kind is Kind.SET:
        return not Rows(*_ROWS.unpack_from(step.operands)).contiguous
    if step.kind is Kind.COPY:
        _, to_pitch, _, pitch, width, height = _COPY.unpack_from(step.operands)
        return height > 1 and not to_pitch == pitch == width
    return False


def _operands(step: Step, columns: Columns, count: int) -> Operands:
    """The operand bytes of each iteration."""
    size = len(step.operands)
    if not size or not count:
        return np.empty((0, 0), np.uint8)
    template = np.frombuffer(step.operands, np.uint8)
    out = np.repeat(template[None, :], count, axis=0)
    for hole in step.holes:
        values = np.ascontiguousarray(columns[hole.row][:count]).view(np.uint8).reshape(count, 8)
        out[:, hole.at : hole.at + hole.width] = values[:, : hole.width]
    return out
