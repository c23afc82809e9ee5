"""Loops of the tape: TEMPLATE, REPEAT (protos/tape.md, "Loops")."""

from __future__ import annotations

from farlane.backend.errors import ProtocolError
from farlane.backend.resources import Resources


def template(resources: Resources, template: int, holes: int, content: memoryview) -> None:
    raise ProtocolError("this host takes no TEMPLATE yet")


def repeat(resources: Resources, template: int, count: int, columns: memoryview) -> None:
    raise ProtocolError("this host takes no REPEAT yet")
