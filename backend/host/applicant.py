"""A guest that asks for a session, as the transport knows it: how it comes, and what it may have.

Does not own what the guest says of itself (greeting.py).
"""

from __future__ import annotations

from dataclasses import dataclass

from farlane.backend.host.allowances import Limits
from farlane.backend.host.entrance import Entrance, Resumption
from farlane.backend.host.fairness import Terms
from farlane.backend.host.queue import Patience


@dataclass(frozen=True)
class Applicant:
    """See the module.

    Args:
        peer: the transport's name of the guest's address.
        guest: a name for who comes, by which code is kept that the session's process compiles; empty: it is not known.
        quota: the guest's own limit of device memory, below the host's.
        priority: the highest that the guest may have, by its token.
        terms: what it may have of the device's time, by its token.
        limits: what all sessions of its token may have together.
        patience: how the guest waits where the host is full; None: it does not.
        entrance: of the session's process, for a guest that comes by TLS.
        resumption: where the session outlives its connection; its process has to know.
    """

    peer: str = ""
    guest: str = ""
    quota: int | None = None
    priority: int | None = None
    terms: Terms | None = None
    limits: Limits | None = None
    patience: Patience | None = None
    entrance: Entrance | None = None
    resumption: Resumption | None = None


ANY = Applicant()  # of whom nothing is known
