"""What a session's guest is known by on its further connections, and what the guest knows the session's process by."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Entrance:
    """What the process of a session has of its own, so that its guest knows it, and it knows its guest (tape.md, "TLS")."""

    certificate: bytes  # PEM
    key: bytes  # PEM
    pinned: bytes  # the certificate as the guest compares it: DER
    token: str


@dataclass(frozen=True)
class Resumption:
    """By what the guest of a session comes again when its connection has broken (tape.md, "Broken connections")."""

    secret: bytes
    grace: float  # seconds
