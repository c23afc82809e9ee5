"""The test options of Farlane's driver (`FARLANE_TEST`, docs/explanation/gpu/testing.md), asked from inside a guest."""

from __future__ import annotations

import ctypes
import os


def are_on() -> bool:
    """Whether this process is a guest whose driver has them."""
    return "FARLANE_TEST" in os.environ


def ask(command: str) -> str:
    """The driver's answer to a command."""
    answer = ctypes.create_string_buffer(4096)
    assert ctypes.CDLL(None).farlane_test(command.encode(), answer, len(answer)) >= 0, command
    return answer.value.decode()


def left() -> dict[str, int]:
    """What the driver has that was not given back, by kind.

    Besides, `early`: what was ended while work was pending that may use it; `pageable`: asynchronous copies of memory that is not pinned.
    """
    words = ask("counts").split()
    return {name: int(count) for name, count in zip(words[::2], words[1::2], strict=True)}
