"""Operations of the tape on the device as a whole: CHECK_END. The others of the family are in generated_handlers.py."""

from __future__ import annotations

from farlane.backend.objects.resources import Resources


def check_end(resources: Resources) -> int:
    return resources.context.finish_checks()
