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
        if self.lost and name not in _ALWAYS:
            raise DriverError(self.lost, name, "the context is lost")
        return method(self, *arguments, **keywords)

    return call


_ALWAYS = frozenset(
    {"version", "count", "properties", "attribute", "retain", "release", "reset", "set_current", "unreserve",
     "reserve", "granularity"}
)  # fmt: skip


class Record(type):
    def __new__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> Any:
        wrapped = {
            key: recorded(value) if callable(value) and not key.startswith("_") and key not in _OWN else value
            for key, value in namespace.items()
        }
        return super().__new__(cls, name, bases, wrapped)


_OWN = frozenset({"fail", "left", "close", "printed", "complained"})
