"""A process that compiles kernels beside this one: LLVM is entered by one thread of a process at a time.

Owns the process, started when it is first needed, and the messages (compiler_main.py is what it runs). One thread at a time.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict
from typing import IO, Protocol

from farlane.backend.jit.compile import cache
from farlane.backend.jit.options import Options
from farlane.backend.jit.ptx.declarations import Module

_HEAD = 16  # bytes in front of a message's two parts: their sizes


class Started(Protocol):
    """A process that reads requests and writes answers (what is used of `subprocess.Popen`)."""

    @property
    def stdin(self) -> IO[bytes] | None: ...
    @property
    def stdout(self) -> IO[bytes] | None: ...
    def poll(self) -> int | None: ...
    def wait(self) -> int: ...
    def kill(self) -> None: ...


def _start() -> Started:
    command = [sys.executable, "-m", "farlane.backend.jit.compile.compiler_main"]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


# A process that may start none itself has one started (workers/process.py). Raises OSError.
start: Callable[[], Started] = _start


class CompilerProcess:
    """Ends with this process at the latest."""

    def __init__(self) -> None:
        self._process: Started | None = None

    def compile(self, module: Module, name: str, block: tuple[int, int, int], options: Options) -> tuple[bytes, bytes]:
        """A kernel's facts and object, as the cache has them. They are in the disk cache, too, if `options.cache`.

        Raises:
            RuntimeError: it cannot be compiled, or the process ended.
            OSError: no process can be started.
        """
        if self._process is None or self._process.poll() is not None:
            self._process = start()
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        head = {"sources": cache.SOURCES.hex(), "name": name, "block": block, "options": asdict(options)}
        send(process.stdin, json.dumps(head).encode(), module.text.encode())
        answer = receive(process.stdout)
        if answer is None:
            raise RuntimeError(f"the compiling process ended with status {process.wait()}")
        described, image = answer
        if not image:
            raise RuntimeError(described.decode())
        return described, image

    def end(self) -> None:
        """Ends the process; the next `compile` starts another one."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            for stream in (self._process.stdin, self._process.stdout):
                if stream is not None:
                    with contextlib.suppress(OSError):
                        stream.close()
            self._process = None


def send(stream: IO[bytes], first: bytes, second: bytes) -> None:
    """A message of two parts."""
    stream.write(len(first).to_bytes(8, "little") + len(second).to_bytes(8, "little") + first + second)
    stream.flush()


def receive(stream: IO[bytes]) -> tuple[bytes, bytes] | None:
    """The next message, None at the end: a socket whose other side has ended with something unread says so by an error."""
    try:
        head = stream.read(_HEAD)
        if len(head) < _HEAD:
            return None
        sizes = int.from_bytes(head[:8], "little"), int.from_bytes(head[8:], "little")
        parts = stream.read(sizes[0]), stream.read(sizes[1])
    except ConnectionError:
        return None
    return parts if (len(parts[0]), len(parts[1])) == sizes else None
