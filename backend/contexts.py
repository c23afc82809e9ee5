"""The contexts of a session as the tape names them, and which of them are lost.

Owns which context the records are of, and the sticky errors of the others; that of the context whose records follow is the replay's. Work,
handles and memory are the same for all contexts: what belongs to which is the guest's knowledge.

Locking: none. One session, one thread at a time.
Source: protos/tape.md, "Contexts".
"""

from __future__ import annotations

from farlane.backend.device.base import CudaError
from farlane.backend.errors import ProtocolError
from farlane.backend.handlers.binding import TABLE

LOST_LIMIT = 1 << 16  # lost contexts that have not ended: bounds what a guest can make the host remember

# Operations that say what there is, not what it holds. Where there are several contexts, the error of one does not stop them: what the guest
# mints next, for whichever context, is as free on the host as the guest thinks.
BOOKKEEPING = frozenset(
    operation.code
    for operation in TABLE.values()
    if operation.name.startswith("PHYSICAL_")
    or operation.name
    in (
        "ALLOCATE", "FREE", "STREAM_CREATE", "STREAM_DESTROY", "EVENT_CREATE", "EVENT_DESTROY", "MODULE_CLOSE", "OBJECT_DESTROY",
        "CONTEXT",
    )
)  # fmt: skip


class Contexts:
    """See the module's docstring."""

    def __init__(self) -> None:
        self.current = 0
        self.several = False  # the guest has named a context
        self._lost: dict[int, CudaError] = {}  # by number, without the current one

    def enter(self, context: int, sticky: CudaError | None, *, anew: bool) -> CudaError | None:
        """Records of `context` follow those of the current one, which has this sticky error. Returns that of `context`.

        Raises:
            ProtocolError: too many contexts are lost.
        """
        if sticky is not None:
            self._lost[self.current] = sticky
        self.current, self.several = context, True
        entered = self._lost.pop(context, None)
        if len(self._lost) > LOST_LIMIT:
            raise ProtocolError(f"more than {LOST_LIMIT} contexts are lost, none of them ended")
        return None if anew else entered

    def goes_on(self, code: int) -> bool:
        """Whether this operation is done in a context that is lost."""
        return self.several and code in BOOKKEEPING

    def clear(self) -> None:
        """DEVICE_RESET: none is lost."""
        self._lost.clear()
