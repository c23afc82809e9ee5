"""The plans of a template: when one is made, and which one a REPEAT has.

Owns what decides that a plan is worth it. How a device can repeat a body is plan.py's; when plans have to go is the replay's.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import NamedTuple

from farlane.backend.loops import columns
from farlane.backend.loops.plan import Plan, plan
from farlane.backend.loops.template import Hole, Template
from farlane.backend.objects.resources import Resources

MAX_PLANS = 16  # of one template


class Worth(NamedTuple):
    """When a device is worth asking, in records that are replayed otherwise (benchmarks/replay_loops.py).

    Args:
        planning, planning_record: a plan, and a device's table of it, take as long as so many, and so many for each of the body's.
        asking: fewer are walked sooner than a device that has a plan is asked.
    """

    planning: int
    planning_record: int
    asking: int


BY_PLANE = Worth(400, 16, 100)  # the plane does records by itself
BY_PYTHON = Worth(16, 4, 16)


def worth(resources: Resources) -> Worth:
    return BY_PLANE if resources.context.direct.enabled else BY_PYTHON


# Where in a record a hole can only be planned with a constant in it: handles, shapes, and how often an inner loop goes round.
_FIXED = {
    "LAUNCH": (8, 48),
    "MEMSET": (48, 56),
    "COPY": (56, 64),
    "WRITE": (40, 44),
    "WRITE_KEPT": (40, 44),
    "READ": (24, 44),
    "STREAM_SYNCHRONIZE": (8, 12),
    "EVENT_SYNCHRONIZE": (8, 12),
    "EVENT_RECORD": (8, 24),
    "STREAM_WAIT_EVENT": (8, 16),
    "REPEAT": (16, 24),
}


class Plans:
    """A template's plans: one, or one for each set of values of the holes that only a constant may fill: loops are entered with another stream, or another grid.

    What is not planned is walked; a plan is made once so many records were.
    """

    def __init__(self, template: Template) -> None:
        self._template = template
        self._fixed = tuple(index for index, hole in enumerate(template.holes) if _is_fixed(template, hole))
        self._known: OrderedDict[tuple[int, ...], Plan | int | None] = OrderedDict()  # a number: of records walked

    @property
    def declined(self) -> bool:
        """Whether something could not be planned, or not repeated."""
        return any(known is None or (isinstance(known, Plan) and known.declined) for known in self._known.values())

    @property
    def made(self) -> list[Plan]:
        return [known for known in self._known.values() if isinstance(known, Plan)]

    def of(self, columns: columns.Columns, count: int, resources: Resources) -> Plan | None:
        """The plan for so many iterations with these columns, when there is one, and it is worth it. None: they are to be walked."""
        values = [columns.constant(index) for index in self._fixed]
        key = tuple(value for value in values if value is not None)
        price = worth(resources)
        if len(key) < len(values):
            return None
        known = self._known.get(key, 0)
        if isinstance(known, int):
            known += count * len(self._template.records)
            if known >= price.planning + price.planning_record * len(self._template.records):
                known = plan(self._template, resources, dict(zip(self._fixed, key, strict=True)))
            self._known[key] = known
            if len(self._known) > MAX_PLANS:
                self._known.popitem(last=False)
        if not isinstance(known, Plan) or known.declined or count * len(known.body.steps) < price.asking:
            return None
        return known

    def look_again(self) -> None:
        """What could not be planned may be possible now."""
        for key, known in list(self._known.items()):
            if known is None or (isinstance(known, Plan) and known.declined):
                del self._known[key]


def _is_fixed(template: Template, hole: Hole) -> bool:
    record = template.records[hole.record]
    begin, end = _FIXED.get(record.row.name, (0, 0))
    return begin < hole.offset - record.offset + hole.width and hole.offset - record.offset < end
