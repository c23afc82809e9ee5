"""The delay proxy: nothing is lost, changed or reordered, and nothing arrives early."""

from __future__ import annotations

import random
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from farlane.roundtrips.distance import achieved, at_distance


@pytest.fixture
def echo(tmp_path: Path) -> Iterator[str]:
    """The URL of a server that sends back what it receives, until its client has finished sending."""
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(tmp_path / "echo.sock"))
    server.listen()

    def serve() -> None:
        while True:
            try:
                client, _ = server.accept()
            except OSError:
                return
            with client:
                while data := client.recv(1 << 16):
                    client.sendall(data)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    yield f"unix://{tmp_path}/echo.sock"
    server.close()


def connect(url: str) -> socket.socket:
    client = socket.socket(socket.AF_UNIX)
    client.connect(url.removeprefix("unix://"))
    client.settimeout(30)
    return client


def test_bytes_arrive_whole_and_in_order(echo: str) -> None:
    sent = random.Random(3).randbytes(3_000_000)
    with at_distance(echo, 2000) as far, connect(far) as client:
        sender = threading.Thread(target=lambda: (client.sendall(sent), client.shutdown(socket.SHUT_WR)))
        sender.start()
        received = b""
        while data := client.recv(1 << 20):
            received += data
        sender.join()
    assert received == sent


@pytest.mark.parametrize("microseconds", [50, 20_000])
def test_nothing_arrives_early(echo: str, microseconds: int) -> None:
    with at_distance(echo, microseconds) as far, connect(far) as client:
        for _ in range(5):
            start = time.perf_counter()
            client.sendall(b"x")
            assert client.recv(1) == b"x"
            assert time.perf_counter() - start >= microseconds * 1e-6


def test_delay_does_not_limit_bandwidth(echo: str) -> None:
    """What is on the way at once arrives after one delay, not after one for each message."""
    with at_distance(echo, 100_000) as far, connect(far) as client:
        start = time.perf_counter()
        for _ in range(50):
            client.sendall(b"y" * 100)
            time.sleep(0.0005)
        received = 0
        while received < 5000:
            received += len(client.recv(1 << 16))
        assert time.perf_counter() - start < 50 * 0.1 / 2


def test_the_achieved_round_trip_is_measured() -> None:
    assert achieved(3000, 20).p10 >= 3000
