"""Payloads that the host keeps for a session: compressed PAYLOAD_KEEPs, WRITE_KEPT (protos/tape.md, "Payloads").

Owns nothing: what is kept is the plane's, which keeps and drops plain ones by itself, and compression is payloads.py's.
"""

from __future__ import annotations

from farlane.backend.handlers import memory
from farlane.backend.objects.payloads import expand
from farlane.backend.objects.resources import Resources

_PLAIN = 0


def payload_keep(resources: Resources, flags: int, payload: int, raw_bytes: int, data: memoryview) -> None:
    resources.payloads.check(payload, raw_bytes)
    resources.payloads.keep(payload, expand(data, flags, raw_bytes))


def write_kept(
    resources: Resources, address: int, pitch: int, width: int, height: int, stream: int, payload: int
) -> None:
    memory.write(resources, _PLAIN, address, pitch, width, height, stream, resources.payloads.get(payload))
