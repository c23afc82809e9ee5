"""What a guest says first, and why it is refused.

Owns the limits of a greeting and the versions of the tape that this host speaks. Knows no session and no device.
Source: protos/farlane/v1/session.proto, Hello and Refusal.
"""

from __future__ import annotations

import enum
import functools
from collections.abc import Sequence
from dataclasses import dataclass

from farlane.backend.host.manifests import GuestObject
from farlane.backend.objects.images import DIGEST_BYTES
from farlane.limits.generated import IDENTITY_BYTES

# A guest of version 2 waits for the DATA of RUN_AHEAD, which this host does not send: it is spoken to as one of version 1.
TAPE_VERSIONS = (1, 3, 4, 5, 6)
TAPE_VERSION_MIN, TAPE_VERSION_MAX = TAPE_VERSIONS[0], TAPE_VERSIONS[-1]
DIGESTS_LIMIT = 4096  # images named in one Hello
OBJECTS_LIMIT = 256  # objects named in one Hello
CHECKS_LIMIT, CHECK_CHARACTERS = 16, 64  # named in one Hello
MODES = ("none", "calls", "loops")


@functools.cache  # reading it takes a millisecond, and every handshake says it
def version() -> str:
    import importlib.metadata  # takes as long as all else of this module's; the first handshake is the first to need it

    return importlib.metadata.version("farlane")


class Reason(enum.Enum):
    """Why a session is refused (session.proto, Refusal.Reason)."""

    VERSION = 1
    BUSY = 2
    MALFORMED = 3
    DEVICE = 4
    UNAUTHORIZED = 5
    GONE = 6


class Refused(Exception):
    """The session is not admitted; the message is for the guest's user."""

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message


class Elsewhere(Exception):
    """The session is admitted, and opened at another host (session.proto, Elsewhere)."""

    def __init__(self, session: str, url: str, token: str, certificate: bytes) -> None:
        super().__init__(url)
        self.session = session  # its name in logs
        self.url = url
        self.token = token
        self.certificate = certificate  # DER; empty: the host's URL is not encrypted


@dataclass(frozen=True)
class Greeting:
    """What a guest says first (session.proto, Hello)."""

    tape_version_min: int
    tape_version_max: int
    client_version: str = ""
    program: str = ""
    pid: int = 0
    mode: str = "calls"
    module_digests: Sequence[bytes] = ()
    objects: Sequence[GuestObject] = ()
    checks: Sequence[str] = ()
    comes_again: bool = False
    priority: int | None = None  # asked for; None: what the guest may have at most by a token, else 0
    resumes: bool = False
    waits: bool = False  # for a session, where the host is full
    follows: bool = False  # an Elsewhere
    timeline: bool = False  # asked for


def common_version(greeting: Greeting) -> int:
    low, high = greeting.tape_version_min, greeting.tape_version_max
    if not 0 < low <= high:
        raise Refused(Reason.MALFORMED, f"the first message asks for the tape versions {low} to {high}")
    best = max((spoken for spoken in TAPE_VERSIONS if low <= spoken <= high), default=None)
    if best is None:
        older = "guest" if high < TAPE_VERSION_MAX else "host"
        raise Refused(
            Reason.VERSION,
            f"no common tape version: the guest (Farlane {greeting.client_version or 'unknown'}) speaks {low} to {high}, "
            f"the host (Farlane {version()}) {' and '.join(map(str, TAPE_VERSIONS))}; upgrade the {older}",
        )
    return best


def check(greeting: Greeting) -> None:
    if len(greeting.module_digests) > DIGESTS_LIMIT:
        raise Refused(Reason.MALFORMED, f"the first message names more than {DIGESTS_LIMIT} images")
    if any(len(digest) != DIGEST_BYTES for digest in greeting.module_digests):
        raise Refused(Reason.MALFORMED, f"an image digest that has not {DIGEST_BYTES} bytes")
    if len(greeting.objects) > OBJECTS_LIMIT:
        raise Refused(Reason.MALFORMED, f"the first message names more than {OBJECTS_LIMIT} objects")
    if any(not 1 <= len(each.identity) <= IDENTITY_BYTES for each in greeting.objects):
        raise Refused(Reason.MALFORMED, f"an object's identity that has not 1 to {IDENTITY_BYTES} bytes")
    if len(greeting.checks) > CHECKS_LIMIT:
        raise Refused(Reason.MALFORMED, f"the first message asks for more than {CHECKS_LIMIT} checks")
    if any(len(each) > CHECK_CHARACTERS for each in greeting.checks):
        raise Refused(Reason.MALFORMED, f"a check whose name has more than {CHECK_CHARACTERS} characters")
    if greeting.mode not in MODES:
        raise Refused(Reason.MALFORMED, f"unknown mode {greeting.mode!r}")
