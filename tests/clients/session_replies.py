"""What a session answers, read as a guest reads it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from farlane.v1 import session_pb2 as pb


def answers(session: Any, group: int, records: bytes, last: bool = True) -> Iterator[pb.Reply]:
    """One message of a group, and the replies to it."""
    return (pb.HostMessage.FromString(message).reply for message in session.submit(group, records, last))
