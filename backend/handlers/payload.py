"""Payloads that the host keeps for a session: PAYLOAD_KEEP, PAYLOAD_DROP, WRITE_KEPT (protos/tape.md, "Payloads").

Owns nothing: what is kept, and compression, are payloads.py's.
"""

from __future__ import annotations

from farlane.backend.handlers import memory
from farlane.backend.objects.resources import Resources

_PLAIN = 0


def payload_keep(resources: Resources, flags: int, payload: int, raw_bytes: int, data: memoryview) -> None:
    resources.payloads.keep(payload, raw_bytes, data, flags)


def payload_drop(resources: Resources, payload: int) -> None:
    resources.payloads.drop(payload)


def write_kept(
    resources: Resources, address: int, pitch: int, width: int, height: int, stream: int, payload: int
) -> None:
    memory.write(resources, _PLAIN, address, pitch, width, height, stream, resources.payloads.get(payload))
