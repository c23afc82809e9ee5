"""Plans as the plane asks for them: a template's, and some of its iterations by one.

Owns when a plan is worth it. How a device can repeat a body is plan.py's; which plans there are, and when they have to
go, is the plane's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from farlane.backend.device.base import Context
from farlane.backend.device.plan import Results
from farlane.backend.loops.plan import Path, Plan, plan
from farlane.backend.loops.template import Template
from farlane.backend.objects.resources import Resources
from farlane.backend.plane import Columns

if TYPE_CHECKING:
    from farlane.backend.plane import PlainTemplate

Stop = tuple[int, int | None, tuple[int, str, bool] | None, bool]
"""Whole iterations; the step at which the next one has stopped; what it has failed with; whether to ask again."""


class Worth(NamedTuple):
    """When a device is worth asking, in records that are replayed otherwise (benchmarks/replay/repeating.py).

    Args:
        planning, planning_record: a plan, and a device's table of it, take as long as so many, and so many for each
            of the body's.
        asking: fewer are walked sooner than a device that has a plan is asked.
    """

    planning: int
    planning_record: int
    asking: int


# The plane does records by itself, and a plan spares about half of their time. Python is cold when a guest's session comes to its first plan.
BY_PLANE = Worth(2000, 40, 400)
BY_PYTHON = Worth(16, 4, 16)


def make(
    resources: Resources, template: PlainTemplate, constants: Mapping[int, int]
) -> tuple[Plan, Sequence[Path], bool] | None:
    """A plan, where each of its steps stands, and whether it has results. None: no device can repeat this."""
    made = plan(Template.of(template), resources, constants)
    return None if made is None else (made, made.paths, made.answers)


def repeat(
    context: Context, planned: Plan, columns: Columns, first: int, left: int, fresh: bool
) -> tuple[Stop, Results] | None:
    """Hands some of the next iterations to the device. None: it declines.

    Args:
        left: iterations of the REPEAT that are still to be done.
        fresh: it has just begun.
    """
    pace = planned.pace
    if fresh:
        pace.begin()
    size = pace.start(left)
    matrix = planned.columns(columns, first, size)
    results = planned.results(matrix)
    stop = context.repeat(planned.body, matrix, results)
    if stop is None:
        return None
    ended = planned.body.steps[stop.step - 1].result_end if stop.step else 0
    done = results.reshape(-1)[: stop.iterations * results.shape[1] + ended]
    step = stop.step if stop.iterations < size else None
    error = None if stop.error is None else (stop.error.code, stop.error.message, stop.error.sticky)
    return (stop.iterations, step, error, pace.done(stop.iterations, size)), done
