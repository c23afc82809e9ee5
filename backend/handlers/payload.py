"""Payloads that the host keeps for a session: PAYLOAD_KEEP, PAYLOAD_DROP, WRITE_KEPT (protos/tape.md, "Payloads")."""

from __future__ import annotations

from farlane.backend.errors import ProtocolError
from farlane.backend.resources import Resources


def payload_keep(resources: Resources, payload: int, raw_bytes: int, data: memoryview) -> None:
    raise ProtocolError("this host keeps no payloads yet")


def payload_drop(resources: Resources, payload: int) -> None:
    raise ProtocolError("this host keeps no payloads yet")


def write_kept(
    resources: Resources, address: int, pitch: int, width: int, height: int, stream: int, payload: int
) -> None:
    raise ProtocolError("this host keeps no payloads yet")
