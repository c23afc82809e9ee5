"""Binds the tape's operations to their handlers.

A handler is the function named as the operation, in the file of the operation's family, or in generated_handlers.py
where the operation's row says what it calls. It gets the session's resources
and what the generated decoder returns: the fields in the table's order, without slots, lengths and reserved fields, the
tail last. The record's flags stand in front of them where the row defines any. Every row that the plane does not do by
itself (`OF_THE_PLANE`) has a handler, and every handler a row, or importing this module fails.

What a handler returns follows from the row's result: nothing for "none", a cudaError_t for "status", an integer for
"value", a `memory.Reading` for "data". LAUNCH and CONDITIONAL alone give the plane something to do: a prepared
launch, a choice of templates."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import ModuleType
from typing import Any

from farlane.backend.handlers import (
    device,
    event,
    generated_handlers,
    launch,
    loop,
    memory,
    module,
    payload,
    stream,
    texture,
    virtual_memory,
)
from farlane.backend.handlers.generated_operations import OPERATIONS, Decoder, Operation

FAMILIES: dict[str, ModuleType] = {
    "memory": memory,
    "stream": stream,
    "event": event,
    "device": device,
    "module": module,
    "launch": launch,
    "loop": loop,
    "payload": payload,
    "texture": texture,
    "virtual_memory": virtual_memory,
}
OF_THE_PLANE = {"FENCE", "CONTEXT", "TEMPLATE", "REPEAT", "SLICE", "WHILE", "PAYLOAD_DROP"}
Handler = Callable[..., Any]


class Bound:
    """One operation, ready to decode and to call."""

    __slots__ = ("decode", "fixed", "flagged", "handler", "name")

    def __init__(self, row: Operation, handler: Handler) -> None:
        self.name = row.name
        self.fixed = row.fixed
        self.flagged = bool(row.flags)
        self.decode: Decoder = row.decode
        self.handler = handler


def bind(rows: dict[int, Operation]) -> dict[int, Bound]:
    bound = {}
    for code, row in rows.items():
        if row.name in OF_THE_PLANE:
            continue
        places = FAMILIES[row.family], generated_handlers
        handlers = [getattr(place, row.name.lower()) for place in places if hasattr(place, row.name.lower())]
        if len(handlers) != 1:
            raise LookupError(f"{row.name} has {len(handlers)} handlers in {places[0].__name__} and the generated ones")
        bound[code] = Bound(row, handlers[0])
    known = {row.name.lower() for row in rows.values()}
    for family in FAMILIES.values():
        for name, function in inspect.getmembers(family, inspect.isfunction):
            own = function.__module__ == family.__name__ and not name.startswith("_")
            if own and "resources" in inspect.signature(function).parameters and name not in known:
                raise LookupError(f"{family.__name__}.{name} handles no operation")
    return bound


TABLE: dict[int, Bound] = bind(OPERATIONS)
