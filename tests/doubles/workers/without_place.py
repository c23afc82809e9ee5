"""A worker that ignores the places of the device: it never asks for one, and works as if it had it.

Its session gets a page of its own, which says that it has a place, instead of the one that the listener reads.
"""

from __future__ import annotations

import os


def begin() -> None:
    from farlane.backend import plane

    attach = plane.Place.attach

    class WithoutPlace:
        @staticmethod
        def attach(page: int, bell: int) -> plane.Place:
            own = plane.Page(shared=True)
            descriptor = os.dup(own.descriptor)  # type: ignore[arg-type]
            os.pwrite(descriptor, bytes(4), 0)
            os.close(page)
            return attach(descriptor, bell)

    plane.Place = WithoutPlace  # type: ignore[misc, assignment]
