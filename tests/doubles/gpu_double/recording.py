"""Every public method of the double is counted, and may be told to fail."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from farlane.backend.device.gpu.interface import DriverError


def recorded(method: Callable[..., Any]) -> Callable[..., Any]:
    """Counts the call; fails it when that was asked for, or when the context is lost."""
    name = method.__name__

    @functools.wraps(method)
    def call(self: Any, *arguments: Any, **keywords: Any) -> Any:
        self.calls.append((name, arguments))
        self.counts[name] += 1
        planned = self.failures.get(name)
        if planned:
            code = planned.pop(0)
            if code:
                raise DriverError(code, name, "as the test asked")
        if name not in _ALWAYS:
            if name not in _ANYWHERE and not self.entered():
                raise DriverError(INVALID_CONTEXT, name, "no context is current to this thread")
            if self.lost:
                raise DriverError(self.lost, name, "the context is lost")
        return method(self, *arguments, **keywords)

    return call


INVALID_CONTEXT = 201


_ALWAYS = frozenset(
    {"version", "count", "properties", "attribute", "retain", "release", "reset", "set_current", "unreserve",
     "reserve", "granularity"}
)  # fmt: skip

# CUDA documents no need of a context for virtual memory management.
_ANYWHERE = frozenset({"create", "destroy", "map", "unmap", "allow"})


class Record(type):
    def __new__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> Any:
        wrapped = {
            key: recorded(value) if callable(value) and not key.startswith("_") and key not in _OWN else value
            for key, value in namespace.items()
        }
        return super().__new__(cls, name, bases, wrapped)


_OWN = frozenset({"fail", "left", "close", "printed", "complained", "entered"})
