"""A worker that ignores the places of the device: it never asks for one, and works as if it had it.

Python runs this module at its start where it is on PYTHONPATH. The worker that is the first to make the file PYTHON_WITHOUT_PLACE is
such a one: its session gets a page of its own, which says that it has a place, instead of the one that the listener reads.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path


def _is_first() -> bool:
    if not any(each.startswith("farlane.backend.workers.") for each in sys.orig_argv):
        return False
    try:
        Path(os.environ["PYTHON_WITHOUT_PLACE"]).touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


if _is_first():
    from farlane.backend import plane

    class _WithoutPlace:
        @staticmethod
        def attach(page: int, bell: int) -> plane.Place:
            own = plane.Page()
            descriptor = os.dup(own.descriptor)
            os.pwrite(descriptor, bytes(4), 0)
            os.close(page)
            return _attach(descriptor, bell)

    _attach = plane.Place.attach
    plane.Place = _WithoutPlace  # type: ignore[misc, assignment]
