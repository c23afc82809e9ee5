"""What all sessions of one token may have together: device memory, kept payloads, images.

A session gets its part of the memory and of the payloads when it opens, and has it until it ends. So the sum never exceeds
what the token may have, whatever a session's process does. Images are shared: each counts once for a token, while a
session of the token uses it (`ImageQuota`).

Owns who has what. Locking: one lock.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

from farlane.backend.host.greeting import Reason, Refused
from farlane.backend.objects.images import ImageQuota


@dataclass(frozen=True)
class Limits:
    """Of a token; None: no limit."""

    owner: str
    memory: int | None = None  # bytes of device memory
    payloads: int | None = None  # bytes that the host keeps so that guests need not send them again
    images: int | None = None  # bytes of fat binaries, PTX and machine code


@dataclass(frozen=True)
class Allowance:
    """What one session may have."""

    memory: int
    payloads: int
    images: ImageQuota | None = None  # its token's


@dataclass(frozen=True)
class Used:
    """What the sessions of a token have."""

    sessions: int
    memory: int
    payloads: int
    images: int


NOTHING = Used(0, 0, 0, 0)


@dataclass
class _Account:
    images: ImageQuota
    sessions: dict[str, Allowance] = field(default_factory=dict)

    def used(self) -> Used:
        open_now = self.sessions.values()
        memory, payloads = sum(each.memory for each in open_now), sum(each.payloads for each in open_now)
        return Used(len(self.sessions), memory, payloads, self.images.used)


class Allowances:
    """Of one host."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._accounts: dict[str, _Account] = {}

    def join(self, session: str, limits: Limits | None, memory: int, payloads: int) -> Allowance:
        """The part of a session that opens: at most so much, less where its token has no more. Raises Refused."""
        if limits is None:
            return Allowance(memory, payloads)
        with self._lock:
            account = self._accounts.get(limits.owner) or _Account(ImageQuota(limits.owner))
            used = account.used()
            account.images.limit = limits.images
            if limits.memory is not None:
                memory = min(memory, limits.memory - used.memory)
                if memory <= 0:
                    raise Refused(
                        Reason.BUSY,
                        f"the token {limits.owner} allows its sessions {limits.memory} bytes of device memory together, and"
                        f" {used.sessions} open ones have them: try again later, or give each session less (`farlane token"
                        " create --quota`)",
                    )
            if limits.payloads is not None:
                payloads = max(0, min(payloads, limits.payloads - used.payloads))
            self._accounts[limits.owner] = account
            account.sessions[session] = allowance = Allowance(memory, payloads, account.images)
        return allowance

    def leave(self, session: str) -> None:
        """It has ended, and has given its images back. Idempotent."""
        with self._lock:
            owner = next((name for name, each in self._accounts.items() if session in each.sessions), None)
            if owner is None:
                return
            del self._accounts[owner].sessions[session]
            if not self._accounts[owner].sessions:
                del self._accounts[owner]

    def used(self) -> dict[str, Used]:
        """By the names of tokens that have sessions."""
        with self._lock:
            return {owner: account.used() for owner, account in self._accounts.items()}
