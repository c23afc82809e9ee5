"""Loops of the tape: TEMPLATE, REPEAT (protos/tape.md, "Loops").

Owns nothing: templates are loops/'s, and what a REPEAT stands for is replayed by the replay.
"""

from __future__ import annotations

from farlane.backend.loops.store import Repetition
from farlane.backend.resources import Resources


def template(resources: Resources, template: int, holes: int, content: memoryview) -> None:
    resources.templates.define(template, holes, content)


def repeat(resources: Resources, flags: int, template: int, count: int, columns: memoryview) -> Repetition:
    """What a REPEAT on the tape itself stands for."""
    return resources.templates.repeat(flags, template, count, columns)
