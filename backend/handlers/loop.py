"""CONDITIONAL (protos/tape.md, "Conditions"): where its condition is, and what it chooses.

Owns nothing: templates and loops are the plane's. RUN_AHEAD and KEEP_AHEAD are retired: earlier
guests send them, and the host does nothing for them (tape.md, "Retired operations").
"""

from __future__ import annotations

import struct
from typing import Any, NamedTuple

from farlane.backend.device.base import Rows
from farlane.backend.errors import ProtocolError
from farlane.backend.objects.resources import Resources

IF, WHILE, SWITCH = range(3)
NOTHING = 0xFFFF_FFFF


class Conditional(NamedTuple):
    """A CONDITIONAL: where its condition is, and what is done for which value."""

    kind: int
    condition: Rows
    stream: Any
    templates: tuple[int, ...]

    def chosen(self, value: int) -> int | None:
        """The template's number; None: nothing is done."""
        place = value if self.kind == SWITCH else int(value == 0)
        number = self.templates[place] if place < len(self.templates) else NOTHING
        return None if number == NOTHING else number


def conditional(resources: Resources, condition: int, stream: int, kind: int, templates: memoryview) -> Conditional:
    """What the plane follows."""
    count = len(templates) // 4
    most = {IF: 2, WHILE: 1}.get(kind, count)
    if len(templates) % 4 or kind not in (IF, WHILE, SWITCH) or not 0 < count <= most:
        raise ProtocolError(f"a CONDITIONAL of kind {kind} with {len(templates)} bytes of templates")
    numbers = struct.unpack(f"<{count}I", templates)
    return Conditional(kind, resources.rows(condition, 4, 4, 1), resources.streams.get(stream), numbers)


def run_ahead(
    resources: Resources, template: int, count: int, nanoseconds: int, data_slot: int, columns: memoryview
) -> None:
    """Does no iteration, as a host always may."""


def keep_ahead(resources: Resources, reads: int) -> None:
    """Raises ProtocolError: the guest keeps what was not done."""
    if reads:
        raise ProtocolError(f"KEEP_AHEAD of {reads} reads where RUN_AHEAD has done none")
