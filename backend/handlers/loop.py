"""Loops of the tape: TEMPLATE, REPEAT, RUN_AHEAD, KEEP_AHEAD (protos/tape.md, "Loops" and "Running ahead").

Owns nothing: templates are loops/'s, what a REPEAT stands for is replayed by the replay, and what runs ahead is ahead.py's.
"""

from __future__ import annotations

from farlane.backend.loops.store import Repetition
from farlane.backend.loops.template import Template
from farlane.backend.resources import Resources


def template(resources: Resources, template: int, holes: int, content: memoryview) -> None:
    resources.templates.define(template, holes, content)


def repeat(resources: Resources, flags: int, template: int, count: int, columns: memoryview) -> Repetition:
    """What a REPEAT on the tape itself stands for."""
    return resources.templates.repeat(flags, template, count, columns)


def run_ahead(resources: Resources, template: int, count: int, nanoseconds: int, columns: memoryview) -> Template:
    """The template that runs ahead; the replay has it done."""
    return resources.templates.get(template)


def keep_ahead(resources: Resources, reads: int) -> int:
    """The reads to keep; the replay has the rest undone."""
    return reads
