"""Loops and payloads through gRPC: results, streaming, interruption, and what other sessions notice."""

from __future__ import annotations

import struct
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import lz4.block
import pytest
from counting_slice import definition, template
from farlane.analyzer.slices import encode as forms
from farlane.analyzer.slices.form import Block, Jump, Slice
from farlane.backend.device import registry
from farlane.backend.host.host import Host
from farlane.backend.server.edge import Edge
from farlane.backend.server.endpoint import parse
from kernels import HEADER, MIX_ALONE
from tape_client import generated_operations as operations
from tape_client import loops
from tape_client.client import Client, CudaFailure
from tape_client.connection import ConnectionLost
from waiting import eventually

COUNT = 1 << 40
OTHERS = b".visible .entry nothing() { ret; }\n.visible .entry endless() { LOOP: bra LOOP; }\n"
IMAGE = HEADER + OTHERS + MIX_ALONE
ONE = (1, 1, 1)


class Served:
    """A host in this process."""

    def __init__(self, device: str, folder: Path) -> None:
        self.host = Host(registry.open_device(device), quota=1 << 24)
        self.edge = Edge(self.host)
        (endpoint,) = self.edge.listen([parse(f"unix://{folder / 'host.sock'}")])
        self.url = f"unix://{folder / 'host.sock'}"
        assert endpoint is not None

    def ends(self, sessions: int) -> None:
        """Returns once no more than so many sessions are left."""
        eventually(lambda: self.host.sessions <= sessions)


@pytest.fixture(params=["null", "sim"])
def served(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Served]:
    served = Served(request.param, tmp_path)
    yield served
    served.edge.stop(1)
    served.host.close()


@pytest.fixture
def sim(tmp_path: Path) -> Iterator[Served]:
    served = Served("sim", tmp_path)
    yield served
    served.edge.stop(1)
    served.host.close()


def define(client: Client, number: int, holes: list[tuple[int, int]], *records: bytes) -> None:
    client.defer(operations.template(number, len(holes), loops.content(holes, *records)))


def launch(client: Client, name: str, parameters: bytes = b"") -> bytes:
    function = client.open_function(client.open_module(IMAGE), name)
    return operations.launch(function, 1, ONE, ONE, 0, parameters)


def test_a_million_iterations_are_one_round_trip(served: Served) -> None:
    with Client(served.url) as client:
        address = client.allocate(4096)
        define(client, 0, [(8, 8)], operations.memset(address, 0, 4, 1, 7, 4, 1))
        sent = client.counters.bytes_up
        client.defer(operations.repeat(0, 1_000_000, loops.affine(address, 0)))
        client.synchronize()
        assert client.counters.round_trips == 2
        assert client.counters.bytes_up - sent < 1024


def test_a_convergence_loop(sim: Served) -> None:
    """A kernel and a read of its result in each iteration: all results in one reply, each as it was then."""
    with Client(sim.url) as client:
        word = client.allocate(256)
        client.write(word, bytes(4))
        kernel = launch(client, "mix", struct.pack("<QI", word, 0))
        read = operations.read(word, 4, 4, 1, 1, 1)
        define(client, 0, [(56, 4), (64 + 44, 4)], kernel, read)
        columns = loops.affine(1, 1)
        results = client.repeat(1000, lambda slot: operations.repeat(0, 1000, columns + loops.affine(slot, 1)))
        assert client.counters.round_trips == 2
        expected = 0
        for number, (result,) in enumerate(results, 1):
            expected = (3 * expected + number) % 2**32
            assert result.data == expected.to_bytes(4, "little")


def test_a_fault_in_the_middle(sim: Served) -> None:
    """Iteration 500 faults: those before it are done and answered, all later results tell the sticky error."""
    with Client(sim.url) as client:
        word = client.allocate(4096)
        read = operations.read(word, 4, 4, 1, 1, 1)
        define(client, 0, [(48, 8), (64 + 44, 4)], launch(client, "mix", struct.pack("<QI", word, 1)), read)
        places = [word] * 500 + [word + (1 << 32)] + [word] * 299
        columns = loops.values(8, places)
        results = client.repeat(800, lambda slot: operations.repeat(0, 800, columns + loops.affine(slot, 1)))
        assert [result.error for (result,) in results] == [0] * 500 + [700] * 300
        (last,) = results[499]
        assert last.data == (sum(3**k for k in range(500)) % 2**32).to_bytes(4, "little")
        with pytest.raises(CudaFailure) as caught:
            client.synchronize()
        assert (caught.value.code, caught.value.sticky) == (700, True)


def test_payloads(sim: Served) -> None:
    with Client(sim.url) as client:
        assert client.welcome.payload_cache_bytes >= 1 << 20
        assert set(client.welcome.codecs) == {"lz4", "zstd"}
        raw = bytes(range(64)) * 16
        packed = lz4.block.compress(raw, store_size=False)
        client.keep(9, len(raw), packed, lz4=True)
        address = client.allocate(1 << 16)
        define(client, 0, [(8, 8)], operations.write_kept(address, 1024, 1024, 1, 1, 9))
        client.defer(operations.repeat(0, 64, loops.affine(address, 1024)))
        client.defer(operations.write(address, 1024, 1024, 1, 1, packed, lz4=True))
        assert client.read(address, 1 << 16) == raw * 64


@pytest.mark.parametrize("kernel", ["nothing", "endless"])
def test_a_guest_that_goes_away_ends_its_loop(sim: Served, kernel: str) -> None:
    client = Client(sim.url)
    define(client, 0, [], launch(client, kernel))
    client.defer(operations.repeat(0, COUNT, b""))
    client.flush()
    time.sleep(0.5)
    assert sim.host.sessions == 1
    client.close(wait=False)
    sim.ends(0)


def test_an_endless_nested_loop_of_host_work_ends_too(served: Served) -> None:
    """A body that no device repeats: walked record by record."""
    client = Client(served.url)
    define(client, 0, [], operations.stream_create(16, 0, 0), operations.stream_destroy(16))
    define(client, 1, [], operations.repeat(0, COUNT, b""))
    client.defer(operations.repeat(1, COUNT, b""))
    client.flush()
    time.sleep(0.3)
    client.close(wait=False)
    served.ends(0)


def test_results_without_end_do_not_pile_up(served: Served) -> None:
    """The host sends while it goes on, and waits for a guest that does not take them."""
    client = Client(served.url)
    client._slot += 1
    client._awaited[1] = []
    define(client, 0, [], operations.fence(1))
    client.defer(operations.repeat(0, COUNT, b""))
    client.flush()
    while len(client._awaited[1]) < 100_000:
        client._receive()
    client.close(wait=False)
    served.ends(0)


def test_other_sessions_are_served_meanwhile(sim: Served) -> None:
    busy = Client(sim.url)
    define(busy, 0, [], launch(busy, "nothing"))
    busy.defer(operations.repeat(0, COUNT, b""))
    busy.flush()
    time.sleep(0.2)
    done = threading.Event()

    def other() -> None:
        with Client(sim.url) as client:
            for _ in range(20):
                client.synchronize()
        done.set()

    thread = threading.Thread(target=other)
    thread.start()
    assert done.wait(20)
    thread.join()
    busy.close(wait=False)
    sim.ends(0)


def test_a_loop_that_a_slice_decides(sim: Served) -> None:
    """Its results come on WHILE's slot, whole and in order, in one round trip."""
    with Client(sim.url) as client:
        word = client.allocate(256)
        client.defer(definition(template(word)))
        record = struct.pack("<Q", 3000)
        (results,) = client.repeat(1, lambda slot: operations.while_(0, slot, 0, 0, record))
        assert client.counters.round_trips == 2
        *read, value = results
        assert [int.from_bytes(result.data, "little") for result in read] == list(range(3000, 0, -1))
        assert (value.error, value.value) == (0, 3000 << 8 | 1)


@pytest.mark.parametrize("calls", [True, False])
def test_a_guest_that_goes_away_ends_the_loop_of_a_slice(served: Served, calls: bool) -> None:
    client = Client(served.url)
    word = client.allocate(256)
    client.defer(definition(template(word)))
    if not calls:
        data = forms.write(Slice(0x1000, 0, 0, (), (Block((), Jump(0)),), ()))
        client.defer(operations.template(1, 0, operations.fence(1)))
        client.defer(operations.slice(0, 1, len(data), loops.slice_content(data, [])))
    client._slot += 1
    client._awaited[1] = []
    client.defer(operations.while_(0, 1, 0, 0, bytes(8) if calls else b""))
    client.flush()
    while calls and len(client._awaited[1]) < 100_000:  # the host waits for a guest that takes nothing
        client._receive()
    time.sleep(0.2)
    assert served.host.sessions == 1
    client.close(wait=False)
    begun = time.monotonic()
    served.ends(0)
    assert time.monotonic() - begun < 1


def test_a_malformed_loop_ends_the_session(served: Served) -> None:
    client = Client(served.url)
    client.defer(operations.repeat(5, 1, b""))
    with pytest.raises(ConnectionLost, match="template 5"):
        client.synchronize()
    served.ends(0)
