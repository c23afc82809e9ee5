"""The plans of a template: when one is made, and which one a REPEAT has.

Owns what decides that a plan is worth it. How a device can repeat a body is plan.py's; when plans have to go is the replay's.
"""

from __future__ import annotations

from collections import OrderedDict

from farlane.backend.loops import columns
from farlane.backend.loops.plan import Plan, plan
from farlane.backend.loops.template import Hole, Template
from farlane.backend.objects.resources import Resources

MAX_PLANS = 16  # of one template
# A plan, and a table of it, take as long as walking so many records more than the body has, so many times, so far (benchmarks/replay_loops.py).
PLANNING, PLANNING_RECORD = 16, 4
WORTH_ASKING = 16  # records: fewer are walked sooner than a device is asked

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
        if len(key) < len(values):
            return None
        known = self._known.get(key, 0)
        if isinstance(known, int):
            known += count * len(self._template.records)
            if known >= PLANNING + PLANNING_RECORD * len(self._template.records):
                known = plan(self._template, resources, dict(zip(self._fixed, key, strict=True)))
            self._known[key] = known
            if len(self._known) > MAX_PLANS:
                self._known.popitem(last=False)
        if not isinstance(known, Plan) or known.declined or count * len(known.body.steps) < WORTH_ASKING:
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
