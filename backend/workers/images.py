"""A worker's images: what its guest uploads goes to the host, too, for other sessions.

Owns the worker's end of that. The host says whether the session may use the image: its token may have used up what it may have.

Locking: none: one thread uploads, and the one that listens to the host gives the answers.
"""

from __future__ import annotations

import queue

from farlane.backend.device.base import CudaError
from farlane.backend.generated_errors import MEMORY_ALLOCATION
from farlane.backend.objects.images import ImageStore
from farlane.backend.workers.control import Control, Gone, Kind, Message

_ANSWER_SECONDS = 30.0


class ForwardedImages(ImageStore):
    """See the module's page."""

    def __init__(self, control: Control) -> None:
        super().__init__()
        self._control = control
        self._answers: queue.SimpleQueue[str] = queue.SimpleQueue()
        self.forwarding = False

    def add(self, digest: bytes, image: bytes) -> bytes:
        if self.forwarding:
            try:
                self._control.send(Kind.IMAGE, bulk=image, digest=digest.hex())
                refused = self._answers.get(timeout=_ANSWER_SECONDS)
            except (Gone, queue.Empty) as error:
                raise CudaError(MEMORY_ALLOCATION, f"the host does not take an image: {error!r}") from None
            if refused:
                raise CudaError(MEMORY_ALLOCATION, refused)
        return super().add(digest, image)

    def answered(self, message: Message) -> None:
        self._answers.put(message.fields["refused"])
