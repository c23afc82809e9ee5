"""The driver API as a device of the contract suite: a context is a process under the shim (driver_guest.py), and each method one of its calls.

Owns the processes: a context that was closed leaves its process, reset, to the next one, so that the whole suite starts two or three.
"""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from farlane.backend.device.base import Context, CudaError, LaunchShape, Rows, Window
from farlane.frontend.devtools.guest import Guest

GUEST = Path(__file__).with_name("driver_guest.py")
PIECE = 1 << 20


def _plain(rows: Rows) -> tuple[int, int, int, int]:
    return rows.address, rows.pitch, rows.width, rows.height


class Processes:
    """The guests, of which those that no context uses wait for the next."""

    def __init__(self, url: str) -> None:
        self._guest = Guest(url)
        self._idle: list[subprocess.Popen[bytes]] = []
        self._all: list[subprocess.Popen[bytes]] = []

    def take(self) -> subprocess.Popen[bytes]:
        if self._idle:
            return self._idle.pop()
        # Mode none: a call's error is that call's, as the contract wants it.
        environment = self._guest.environment(sys.executable, "none")
        process = subprocess.Popen(
            [sys.executable, str(GUEST)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
        )
        self._all.append(process)
        return process

    def give_back(self, process: subprocess.Popen[bytes]) -> None:
        self._idle.append(process)

    def close(self) -> None:
        for process in self._all:
            process.communicate(timeout=30)
            assert process.returncode == 0, "a guest of the driver API ended wrongly"


class DriverContext(Context):
    """The primary context of one such process. Memory lies where the driver puts it."""

    def __init__(self, processes: Processes, quota: int) -> None:
        self._processes = processes
        self._process = processes.take()
        self._closed = False
        self.quota = quota
        self.window = Window(0, 0)

    def _ask(self, method: str, *arguments: Any) -> Any:
        assert self._process.stdin
        assert self._process.stdout
        pickle.dump((method, arguments), self._process.stdin)
        self._process.stdin.flush()
        result, value = pickle.load(self._process.stdout)
        if result:
            raise CudaError(result, f"{method} returned {result}", sticky=value)
        return value

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._ask("reset")
            self._processes.give_back(self._process)

    def reset(self) -> None:
        self._ask("reset")

    def allocate(self, address: int, size: int) -> None:
        raise NotImplementedError("the driver chooses addresses")

    def allocate_anywhere(self, size: int) -> int:
        address: int = self._ask("allocate", size)
        return address

    def free(self, address: int) -> None:
        self._ask("free", address)

    def set(self, rows: Rows, value: int, element: int, stream: Any) -> None:
        self._ask("set", _plain(rows), value, element, stream)

    def write(self, rows: Rows, data: memoryview, stream: Any) -> None:
        self._ask("write", _plain(rows), bytes(data), stream)

    def read(self, rows: Rows, stream: Any) -> Iterator[memoryview | bytes]:
        data: bytes = self._ask("read", _plain(rows), stream)
        return iter([data[at : at + PIECE] for at in range(0, len(data), PIECE)])

    def copy(self, destination: Rows, source: Rows, stream: Any) -> None:
        self._ask("copy", _plain(destination), _plain(source), stream)

    def load_module(self, image: bytes) -> Any:
        return self._ask("load_module", image)

    def unload_module(self, module: Any) -> None:
        self._ask("unload_module", module)

    def function(self, module: Any, name: str) -> Any:
        return self._ask("function", module, name)

    def set_function_attribute(self, function: Any, attribute: int, value: int) -> None:
        self._ask("set_function_attribute", function, attribute, value)

    def variable(self, module: Any, name: str) -> tuple[int, int]:
        address, size = self._ask("variable", module, name)
        return address, size

    def launch(self, function: Any, shape: LaunchShape, parameters: memoryview, stream: Any) -> None:
        self._ask("launch", function, shape.grid, shape.block, shape.shared_bytes, bytes(parameters), stream)

    def default_stream(self, number: int) -> Any:
        return number  # CU_STREAM_LEGACY and CU_STREAM_PER_THREAD have the same numbers

    def create_stream(self, flags: int, priority: int) -> Any:
        return self._ask("create_stream", flags, priority)

    def destroy_stream(self, stream: Any) -> None:
        self._ask("destroy_stream", stream)

    def wait_event(self, stream: Any, event: Any) -> None:
        self._ask("wait_event", stream, event)

    def stream_done(self, stream: Any) -> bool:
        return bool(self._ask("stream_done", stream))

    def create_event(self, flags: int) -> Any:
        return self._ask("create_event", flags)

    def destroy_event(self, event: Any) -> None:
        self._ask("destroy_event", event)

    def record_event(self, event: Any, stream: Any, flags: int) -> None:
        self._ask("record_event", event, stream, flags)

    def event_done(self, event: Any) -> bool:
        return bool(self._ask("event_done", event))

    def elapsed_ms(self, start: Any, end: Any) -> float:
        milliseconds: float = self._ask("elapsed_ms", start, end)
        return milliseconds

    def synchronize(self, stream: Any | None = None, event: Any | None = None) -> None:
        self._ask("synchronize", stream, event)

    def set_limit(self, limit: int, value: int) -> None:
        self._ask("set_limit", limit, value)
