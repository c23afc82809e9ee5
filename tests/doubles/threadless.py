"""A system that starts no more threads of a certain name, as one does at its limit of threads or memory."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

import pytest


@contextlib.contextmanager
def threadless(prefix: str) -> Iterator[list[str]]:
    """Within it, starting a thread whose name begins with `prefix` raises what CPython raises; gives the names that were refused."""
    refused: list[str] = []
    start = threading.Thread.start

    def refuse(thread: threading.Thread) -> None:
        if thread.name.startswith(prefix):
            refused.append(thread.name)
            raise RuntimeError("can't start new thread")
        start(thread)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        yield refused
