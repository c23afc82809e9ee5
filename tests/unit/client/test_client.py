"""The Python client against a real host with the null device, on both kinds of socket."""

from __future__ import annotations

import hashlib
import socket
from collections.abc import Iterator

import pytest
from farlane.frontend.embedded import EmbeddedHost
from farlane.frontend.errors import UserError
from tape_client import generated_operations as operations
from tape_client.client import Client, CudaFailure
from tape_client.connection import ConnectionLost

IMAGE = b"any image: the null device looks into none" * 40_000


@pytest.fixture(scope="module")
def host() -> Iterator[EmbeddedHost]:
    with EmbeddedHost("null") as host:
        yield host


def test_deferred_calls_cost_no_round_trip(host: EmbeddedHost) -> None:
    with Client(host.url) as client:
        assert client.counters.round_trips == 1
        address = client.allocate(4096)
        for value in range(10_000):
            client.defer(operations.memset(address, 0, 16, 1, value & 0xFF, 1, 1))
        assert client.counters.round_trips == 1
        client.synchronize()
        assert client.counters.round_trips == 2
        assert client.counters.groups == -(-(10_000 * 56 + 24) // client._group_bytes)


def test_mode_none_waits_for_every_call(host: EmbeddedHost) -> None:
    with Client(host.url, mode="none") as client:
        address = client.allocate(4096)
        client.defer(operations.free(address))
        assert client.counters.round_trips == 3
        with pytest.raises(CudaFailure) as failure:
            client.defer(operations.free(address))
        assert failure.value.code != 0
        assert not failure.value.sticky
        client.synchronize()


def test_a_deferred_error_is_told_once(host: EmbeddedHost) -> None:
    with Client(host.url) as client:
        client.defer(operations.free(client.welcome.window_base))
        with pytest.raises(CudaFailure):
            client.synchronize()
        client.synchronize()
        client.defer(operations.free(client.welcome.window_base))
        client.flush()
        client.request(lambda slot: operations.module_query(slot, bytes(32)))
        assert client.take_deferred_error() != 0
        assert client.take_deferred_error() == 0


def test_bulk_data_goes_in_pieces(host: EmbeddedHost) -> None:
    with Client(host.url) as client:
        size = (5 << 20) + 3
        address = client.allocate(size)
        client.write(address, bytes(size))
        assert client.read(address, size) == bytes(size)
        assert client.read(address, 3, height=7, pitch=64) == bytes(21)
        assert client.read(address, 0) == b""
        assert client.counters.round_trips == 3
        assert client.counters.bytes_up > size
        assert client.counters.bytes_down > size


def test_credit_is_respected(host: EmbeddedHost) -> None:
    with Client(host.url) as client:
        piece = bytes(1 << 20)
        address = client.allocate(len(piece))
        for _ in range(2 * client.welcome.credit_bytes // len(piece)):
            client.write(address, piece)
            assert client._in_flight_bytes <= client.welcome.credit_bytes
        assert client.counters.flow_waits > 0
        assert client.counters.round_trips == 1
        client.synchronize()


def test_modules_are_uploaded_once(host: EmbeddedHost) -> None:
    digest = hashlib.blake2b(IMAGE, digest_size=32).digest()
    with Client(host.url, module_digests=[digest]) as client:
        assert list(client.welcome.known_modules) == []
        function = client.open_function(client.open_module(IMAGE), "kernel")
        client.defer(operations.launch(function, 1, (1, 1, 1), (32, 1, 1), 0, bytes(8)))
        client.synchronize()
        with Client(host.url, module_digests=[digest]) as second:
            assert list(second.welcome.known_modules) == [digest]
            before = second.counters.bytes_up
            second.open_module(IMAGE)
            second.synchronize()
            assert second.counters.bytes_up - before < 200


def test_reset_begins_anew(host: EmbeddedHost) -> None:
    with Client(host.url) as client:
        address = client.allocate(4096)
        client.reset()
        client.defer(operations.allocate(address, 4096))
        client.synchronize()


def test_tcp() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    url = f"grpc://127.0.0.1:{port}"
    with EmbeddedHost("null", extra=("--listen", url)), Client(url) as client:
        client.synchronize()


def test_a_dead_host_is_told_by_name() -> None:
    with EmbeddedHost("null") as host:
        client = Client(host.url)
        client.synchronize()
        assert host._process is not None
        host._process.kill()
        with pytest.raises(ConnectionLost, match="lost"):
            client.synchronize()
    client.defer(operations.free(0))
    with pytest.raises(ConnectionLost, match="closed"):
        client.flush()
    client.close()


def test_no_host() -> None:
    with pytest.raises(ConnectionLost, match="farlane serve"):
        Client("unix:///nonexistent/farlane.sock", timeout=5)
    with pytest.raises(UserError, match="no host URL"):
        Client("nonsense")
    with pytest.raises(ValueError, match="mode"):
        Client("unix:///nonexistent/farlane.sock", mode="all")


def test_a_failing_body_does_not_wait_for_the_host(host: EmbeddedHost) -> None:
    def fail() -> None:
        with client:
            client.allocate(4096)
            raise ZeroDivisionError

    client = Client(host.url)
    with pytest.raises(ZeroDivisionError):
        fail()
    assert client.counters.groups == 0, "what was recorded is not sent"
