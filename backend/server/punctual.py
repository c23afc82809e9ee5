"""Short waits that end in time. Owns one property of the calling thread: its timer slack.

A look at a gRPC completion queue waits on a futex with a deadline that has passed, and Linux lets a thread sleep for 50 us longer than it asks for.
A thread that looks at its queue while it works pays that each time.

Source: prctl(2), PR_SET_TIMERSLACK.
"""

from __future__ import annotations

import contextlib
import ctypes

_PR_SET_TIMERSLACK = 29
_SLACK_NANOSECONDS = 1000


def be_punctual() -> None:
    """For the calling thread, and threads that it starts. Elsewhere than on Linux nothing is changed."""
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).prctl(_PR_SET_TIMERSLACK, _SLACK_NANOSECONDS, 0, 0, 0)
