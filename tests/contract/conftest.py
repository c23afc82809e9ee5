"""The device contract, once for every device, once more through a host, and through the driver API of a guest of that host.

`SUPPORT` is the matrix: what a device may decline. A test that needs something names it with the `needs` marker; a device that
does not have it skips that test, any other must pass. A device that cannot be opened here fails the suite, unless its row says why it
may be absent.
"""

from __future__ import annotations

import os
import queue
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import driver_options
import grpc
import pytest
from driver_face import DriverContext, Processes
from farlane.backend.device import registry
from farlane.backend.device.base import LEGACY_STREAM, Context, CudaError, Device, LaunchShape, Rows, Window
from farlane.backend.device.generated_attributes import Attribute
from farlane.backend.host.host import Host
from farlane.backend.objects.images import digest_of
from farlane.backend.server.edge import Edge
from farlane.backend.server.endpoint import parse
from farlane.v1 import session_pb2 as pb
from tape_client import generated_operations as tape

ALONE = "FARLANE_CONTRACT_ALONE"  # in the environment of a process that a test has for itself
QUOTA = 64 << 20
CHUNK = 1 << 20

CONTENT = "content"  # memory holds what was written to it
KERNELS = "kernels"  # kernels run, and their faults are told
IMAGES = "images"  # images are looked into: unknown names and images that cannot run are refused
SIZES = "sizes"  # variables' sizes are known
REPEAT = "repeat"  # a loop's body is repeated without a call for each operation
ALLOCATIONS_REPEAT = "allocations_repeat"  # ... also one that allocates and frees
PRECISE = "precise"  # a fault is told by the launch that made it, and memory can still be read
FREED = "freed"  # memory that was freed is gone before the next launch
APART = "apart"  # a kernel reaches no other session's memory, and its fault ends no other session
ROOM = "room"  # the window is a multiple of the quota: memory can be had again without the same addresses
MAPPINGS = "mappings"  # physical memory is mapped at addresses
INTERRUPT = "interrupt"  # a running kernel can be ended
PLACED = "placed"  # the caller chooses addresses in a window
TIME = "time"  # the device's time is counted
RECOVERS = "recovers"  # a session can go on after a fault, with a reset
PARTS = "parts"  # physical memory is mapped in parts
EXACT = "exact"  # more parameters than the kernel has are refused


@dataclass(frozen=True)
class Row:
    """One line of the support matrix."""

    device: str
    remote: bool = False
    declines: frozenset[str] = frozenset()
    absent: str = ""  # why it may be missing here
    slab: bool = False  # the driver says that it has no virtual memory management
    driver: bool = False  # a guest's driver API stands above the device
    codes: Mapping[int, int] = field(default_factory=dict)  # its code where it is not the runtime API's


# What NVIDIA's driver does not do, and Farlane's own does.
_NVIDIA = (RECOVERS, PARTS)
# A GPU runs behind its host, gives memory back when it is idle, and its context is the process's, for which a fault is the end: hosts run each session in
# a process of its own (backend/workers), which keeps sessions apart and ends kernels.
_GPU = frozenset({PRECISE, FREED, APART, INTERRUPT, ALLOCATIONS_REPEAT, *(() if driver_options.are_on() else _NVIDIA)})

SUPPORT = {
    "null": Row("null", declines=frozenset({CONTENT, KERNELS, IMAGES, SIZES})),
    "null-grpc": Row("null", remote=True, declines=frozenset({CONTENT, KERNELS, IMAGES, SIZES, REPEAT})),
    "sim": Row("sim"),
    # The tape's VARIABLE_OPEN says a variable's size, it does not ask for it. A loop is a REPEAT of the tape, not a call.
    "sim-grpc": Row("sim", remote=True, declines=frozenset({SIZES, REPEAT})),
    # What a program sees that calls libcuda.so.1. The driver chooses addresses; the device's time and loops are not its to see; a buffer of parameters may end in padding;
    # a kernel is ended by ending the program (tests/e2e). Mappings have functions of their own there (tests/native/memory/vmm_*.cu).
    "driver": Row(
        "sim",
        remote=True,
        driver=True,
        declines=frozenset({PLACED, ROOM, MAPPINGS, REPEAT, INTERRUPT, TIME, EXACT}),
        # CUDA_ERROR_INVALID_VALUE for a launch's shape, CUDA_ERROR_NOT_FOUND for what a module has not.
        codes={9: 1, 98: 500, 13: 500},
    ),
    "cupy": Row("cupy", declines=_GPU, absent="no NVIDIA GPU here"),
    "cupy-slab": Row("cupy", declines=_GPU | {ROOM, MAPPINGS}, absent="no NVIDIA GPU here", slab=True),
}


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "needs(*features): the device must not decline these")
    config.addinivalue_line(
        "markers", "ruins: a fault, after which the process that a GPU works in can use none any more"
    )


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """A test that ruins a GPU's process has one of its own."""
    if pyfuncitem.get_closest_marker("ruins") is None or pyfuncitem.get_closest_marker("gpu") is None:
        return None
    if ALONE in os.environ or driver_options.are_on():
        return None
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", pyfuncitem.nodeid]
    done = subprocess.run(
        command, cwd=pyfuncitem.config.rootpath, env=os.environ | {ALONE: "1"}, capture_output=True, text=True
    )
    if done.returncode:
        pytest.fail(done.stdout + done.stderr, pytrace=False)
    return True


class RemoteContext(Context):
    """A context behind a host: every method is a group of work, answered before it returns (mode `none`)."""

    def __init__(self, target: str, quota: int) -> None:
        self._channel = grpc.insecure_channel(
            target, options=[("grpc.use_local_subchannel_pool", 1), ("grpc.default_authority", "localhost")]
        )
        self._outgoing: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._incoming = self._channel.stream_stream(
            "/farlane.v1.SessionService/Open", response_deserializer=pb.HostMessage.FromString
        )(iter(self._outgoing.get, None))
        hello = pb.Hello(tape_version_min=5, tape_version_max=5, program="contract", mode="none")
        self._send(pb.GuestMessage(hello=hello))
        welcome = next(self._incoming).welcome
        self.window = Window(welcome.window_base, welcome.window_size)
        self.quota = welcome.memory_quota
        self._group = 0
        self._handle = 15
        self._closed = False

    def _send(self, message: pb.GuestMessage) -> None:
        self._outgoing.put(message.SerializeToString())

    def _mint(self) -> int:
        self._handle += 1
        return self._handle

    def _submit(self, *records: bytes) -> list[tuple[int, int, bytes]]:
        """Results of a group as (kind, error, content); raises what the group reported."""
        self._group += 1
        for number, record in enumerate(records):
            last = number == len(records) - 1
            self._send(pb.GuestMessage(tape=pb.Tape(group=self._group, records=record, last=last)))
        results: list[tuple[int, int, bytes]] = []
        while True:
            reply = next(self._incoming).reply
            at = 0
            while at < len(reply.results):
                length, kind, _, _, error = struct.unpack_from("<IHHIi", reply.results, at)
                results.append((kind, error, reply.results[at + 16 : at + length]))
                at += length
            if reply.last:
                break
        self.device_nanoseconds = reply.device_nanoseconds
        told = next((error for _, error, _ in results if error), reply.error)
        if told:
            raise CudaError(told, reply.error_message, sticky=reply.sticky)
        return results

    def _do(self, *records: bytes) -> None:
        self._submit(*records, tape.fence(1))

    def _value(self, *records: bytes) -> int:
        value: int = struct.unpack("<Q", self._submit(*records)[-1][2])[0]
        return value

    def interrupt(self) -> None:
        """What a guest does that is killed."""
        self._closed = True
        self._incoming.cancel()
        self._outgoing.put(None)
        self._channel.close()

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._send(pb.GuestMessage(goodbye=pb.Goodbye()))
            for _ in self._incoming:
                pass
            self._outgoing.put(None)
            self._channel.close()

    def reset(self) -> None:
        self._submit(tape.device_reset(1))

    def allocate(self, address: int, size: int) -> None:
        self._do(tape.allocate(address, size))

    def free(self, address: int) -> None:
        self._do(tape.free(address))

    def create_physical(self, size: int) -> Any:
        memory = self._mint()
        self._do(tape.physical_create(memory, size))
        return memory

    def free_physical(self, memory: Any) -> None:
        self._do(tape.physical_release(memory))

    def map_physical(self, address: int, memory: Any, offset: int, size: int) -> None:
        self._do(tape.physical_map(address, offset, size, memory))

    def unmap_physical(self, address: int, size: int) -> None:
        self._do(tape.physical_unmap(address))

    def set_access(self, address: int, size: int, access: int) -> None:
        self._do(tape.physical_access(address, access))

    def set(self, rows: Rows, value: int, element: int, stream: Any) -> None:
        self._do(tape.memset(rows.address, rows.pitch, rows.width, rows.height, value, element, stream))

    def write(self, rows: Rows, data: memoryview, stream: Any) -> None:
        address, pitch, width, height = rows.address, rows.pitch, rows.width, rows.height
        if height == 1:
            pieces = [(at, data[at : at + CHUNK]) for at in range(0, width, CHUNK)]
        else:
            pieces = [(row * pitch, data[row * width : (row + 1) * width]) for row in range(height)]
        self._do(*(tape.write(address + at, 0, len(piece), 1, stream, piece) for at, piece in pieces))

    def read(self, rows: Rows, stream: Any) -> Iterator[memoryview | bytes]:
        results = self._submit(tape.read(rows.address, rows.pitch, rows.width, rows.height, stream, 1))
        pieces, total = [], 0
        for _, _, content in results:
            offset, size, _ = struct.unpack_from("<QII", content)
            assert offset == total
            total += size
            pieces.append(content[16 : 16 + size])
        assert total == rows.width * rows.height
        return iter(pieces)

    def copy(self, destination: Rows, source: Rows, stream: Any) -> None:
        self._do(
            tape.copy(
                destination.address,
                destination.pitch,
                source.address,
                source.pitch,
                source.width,
                source.height,
                stream,
            )
        )

    def load_module(self, image: bytes) -> Any:
        module, digest = self._mint(), digest_of(image)
        chunks = [tape.module_chunk(image[at : at + CHUNK]) for at in range(0, len(image), CHUNK)]
        begin, end = tape.module_begin(len(image), digest), tape.module_end(digest)
        self._do(begin, *chunks, end, tape.module_open(module, digest))
        return module

    def unload_module(self, module: Any) -> None:
        self._do(tape.module_close(module))

    def function(self, module: Any, name: str) -> Any:
        function = self._mint()
        self._do(tape.function_open(function, module, name.encode()))
        return function

    def set_function_attribute(self, function: Any, attribute: int, value: int) -> None:
        self._do(tape.function_attribute(function, attribute, value))

    def variable(self, module: Any, name: str) -> tuple[int, int]:
        variable = self._mint()
        self._do(tape.variable_open(variable, module, 1, name.encode()))
        return self._value(tape.variable_address(variable, 1)), 0

    def launch(self, function: Any, shape: LaunchShape, parameters: memoryview, stream: Any) -> None:
        record = tape.launch(
            function, stream, shape.grid, shape.block, shape.shared_bytes, parameters, cooperative=shape.cooperative
        )
        self._do(record)

    def default_stream(self, number: int) -> Any:
        return number

    def create_stream(self, flags: int, priority: int) -> Any:
        stream = self._mint()
        self._do(tape.stream_create(stream, flags, priority))
        return stream

    def destroy_stream(self, stream: Any) -> None:
        self._do(tape.stream_destroy(stream))

    def wait_event(self, stream: Any, event: Any) -> None:
        self._do(tape.stream_wait_event(stream, event))

    def _done(self, record: bytes) -> bool:
        try:
            self._submit(record)
        except CudaError as error:
            if error.code == 600:
                return False
            raise
        return True

    def stream_done(self, stream: Any) -> bool:
        return self._done(tape.stream_query(stream, 1))

    def create_event(self, flags: int) -> Any:
        event = self._mint()
        self._do(tape.event_create(event, flags))
        return event

    def destroy_event(self, event: Any) -> None:
        self._do(tape.event_destroy(event))

    def record_event(self, event: Any, stream: Any, flags: int) -> None:
        self._do(tape.event_record(event, stream, flags))

    def event_done(self, event: Any) -> bool:
        return self._done(tape.event_query(event, 1))

    def elapsed_ms(self, start: Any, end: Any) -> float:
        bits = self._value(tape.event_elapsed(start, end, 1))
        milliseconds: float = struct.unpack("<f", bits.to_bytes(4, "little"))[0]
        return milliseconds

    def synchronize(self, stream: Any | None = None, event: Any | None = None) -> None:
        if stream is not None:
            self._submit(tape.stream_synchronize(stream, 1))
        elif event is not None:
            self._submit(tape.event_synchronize(event, 1))
        else:
            self._submit(tape.device_synchronize(1))

    def set_limit(self, limit: int, value: int) -> None:
        self._do(tape.device_limit(limit, value))


@dataclass
class Subject:
    """What a test works on: a context, and short forms of what tests do with one."""

    context: Context
    next_address: int
    stream: Any
    codes: Mapping[int, int] = field(default_factory=dict)
    modules: dict[bytes, Any] = field(default_factory=dict)

    def code(self, code: int) -> int:
        """What the device calls the error that the runtime API has under this code."""
        return self.codes.get(code, code)

    def allocate(self, size: int) -> int:
        if isinstance(self.context, DriverContext):
            return self.context.allocate_anywhere(size)
        address = self.next_address
        self.context.allocate(address, size)
        self.next_address += -(-size // 256) * 256
        return address

    def write(self, address: int, data: bytes) -> None:
        self.context.write(Rows(address, len(data), len(data), 1), memoryview(data), self.stream)

    def read(self, address: int, size: int) -> bytes:
        return self.read_rows(Rows(address, size, size, 1))

    def read_rows(self, rows: Rows) -> bytes:
        pieces = []
        for piece in self.context.read(rows, self.stream):
            assert 0 < len(piece) <= 1 << 20
            pieces.append(bytes(piece))
        return b"".join(pieces)

    def module(self, image: bytes) -> Any:
        if image not in self.modules:
            self.modules[image] = self.context.load_module(image)
        return self.modules[image]

    def launch(
        self, image: bytes, name: str, parameters: bytes, grid: Any = (1, 1, 1), block: Any = (1, 1, 1), shared: int = 0
    ) -> None:
        function = self.context.function(self.module(image), name)
        self.context.launch(function, LaunchShape(grid, block, shared), memoryview(parameters), self.stream)


class Opener:
    """Opens contexts of one row of the matrix."""

    def __init__(
        self,
        row: Row,
        device: Device,
        target: str | None = None,
        host: Host | None = None,
        processes: Processes | None = None,
    ) -> None:
        self.row = row
        self.device = device
        self.host = host
        self._target = target
        self._processes = processes

    def context(self) -> Context:
        if self._processes:
            return DriverContext(self._processes, QUOTA)
        return RemoteContext(self._target, QUOTA) if self._target else self.device.open_context(QUOTA)


def _open(row: Row) -> Device:
    if not row.slab:
        return registry.open_device(row.device)
    from farlane.backend.device.gpu.driver.cuda import CudaDriver
    from farlane.backend.device.gpu.driver.interface import Missing

    class WithoutMappings(CudaDriver):
        def attribute(self, gpu: int, attribute: int) -> int:
            mapping = attribute == Attribute.VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED
            return 0 if mapping else super().attribute(gpu, attribute)

    try:
        return registry.open_device(row.device, driver=WithoutMappings())
    except Missing as error:
        raise registry.DeviceUnavailable(str(error)) from error


ROWS = [pytest.param(name, marks=[pytest.mark.gpu] if row.device == "cupy" else []) for name, row in SUPPORT.items()]


@pytest.fixture(scope="session", params=ROWS)
def opener(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Opener]:
    row = SUPPORT[request.param]
    try:
        device = _open(row)
    except registry.DeviceUnavailable as error:
        if row.absent:
            pytest.skip(f"{row.device}: {row.absent}")
        pytest.fail(str(error))
    if not row.remote:
        yield Opener(row, device)
        device.close()
        return
    host = Host(device, quota=QUOTA)
    edge = Edge(host)
    (endpoint,) = edge.listen([parse(f"unix://{Path(tmp_path_factory.mktemp('host'), 'host.sock')}")])
    processes = Processes(endpoint.target) if row.driver else None
    yield Opener(row, device, endpoint.target, host, processes)
    if processes:
        processes.close()
    edge.stop(5)
    assert host.sessions == 0
    host.close()


@pytest.fixture(autouse=True)
def _supported(request: pytest.FixtureRequest, opener: Opener) -> None:
    needed = {feature for mark in request.node.iter_markers("needs") for feature in mark.args}
    if declined := needed & opener.row.declines:
        pytest.skip(f"the device declines: {', '.join(sorted(declined))}")


def _misuse() -> list[int]:
    """What was ended while work was pending that may use it, and asynchronous copies of pageable memory: where the driver counts them."""
    counts = driver_options.left() if driver_options.are_on() else {}
    return [counts.get(name, 0) for name in ("early", "pageable")]


@pytest.fixture
def new_subject(opener: Opener) -> Iterator[Callable[[], Subject]]:
    contexts = []

    def opening() -> Subject:
        context = opener.context()
        contexts.append(context)
        return Subject(context, context.window.base, context.default_stream(LEGACY_STREAM), opener.row.codes)

    misuse = _misuse()
    yield opening
    for context in contexts:
        context.close()
    assert _misuse() == misuse


@pytest.fixture
def subject(new_subject: Callable[[], Subject]) -> Subject:
    return new_subject()
