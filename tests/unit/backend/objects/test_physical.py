"""Physical memory on the tape: the rules that a guest must keep, and what refusals leave behind."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

import pytest
from farlane.backend.device.base import MAPPING_GRANULE as G
from farlane.backend.device.null import NullDevice
from farlane.backend.device.sim import SimDevice
from farlane.backend.errors import ProtocolError
from farlane.backend.handlers.generated_operations import encode
from farlane.backend.host.greeting import TAPE_VERSION_MAX, Greeting
from farlane.backend.host.host import Host
from session_replies import answers

QUOTA = 16 * G


class Guest:
    """One session, and the groups of it."""

    def __init__(self, host: Host, version: int = TAPE_VERSION_MAX) -> None:
        self.session: Any = host.admit(Greeting(1, version)).session
        self.base = self.session.window.base
        self._group = 0

    def do(self, *records: bytes) -> int:
        """The error of the group, or else of its first result."""
        self._group += 1
        data = b"".join(records)
        replies = list(answers(self.session, self._group, data))
        results = b"".join(reply.results for reply in replies)
        told: int = struct.unpack_from("<i", results, 12)[0] if results else 0
        return replies[-1].error or told

    def read(self, address: int, size: int) -> int:
        return self.do(encode("READ", address, size, size, 1, 1, self._group + 1))


def create(memory: int, granules: int = 1) -> bytes:
    return encode("PHYSICAL_CREATE", memory, 0, granules * G)


def map_(address: int, memory: int, granules: int = 1, offset: int = 0) -> bytes:
    return encode("PHYSICAL_MAP", address, offset * G, granules * G, memory, 0)


def access(address: int, value: int = 3) -> bytes:
    return encode("PHYSICAL_ACCESS", address, value, 0)


@pytest.fixture(params=["null", "sim"])
def host(request: pytest.FixtureRequest) -> Iterator[Host]:
    device = NullDevice() if request.param == "null" else SimDevice(threads=1, total_memory=1 << 30)
    host = Host(device, quota=QUOTA)
    yield host
    host.close()


@pytest.fixture
def guest(host: Host) -> Guest:
    return Guest(host)


BROKEN = {
    "no granules": lambda base: encode("PHYSICAL_CREATE", 20, 0, G + 4096),
    "no bytes": lambda base: encode("PHYSICAL_CREATE", 20, 0, 0),
    "a number that no guest mints": lambda base: create(15),
    "a number twice": lambda base: create(16),
    "a mapping of nothing known": lambda base: map_(base, 20),
    "a mapping of no bytes": lambda base: map_(base, 16, 0),
    "an address inside of a granule": lambda base: map_(base + 4096, 16),
    "an offset inside of a granule": lambda base: encode("PHYSICAL_MAP", base, 4096, G, 16, 0),
    "beyond the memory's end": lambda base: map_(base, 16, 2, 1),
    "an offset that overflows": lambda base: encode("PHYSICAL_MAP", base, 2**64 - G, 2 * G, 16, 0),
    "below the window": lambda base: map_(base - G, 16),
    "above the window": lambda base: map_(2**63, 16),
    "over another mapping": lambda base: map_(base + 3 * G, 16, 2),
    "over its own mapping": lambda base: map_(base + 4 * G, 16),
    "the end of no mapping": lambda base: encode("PHYSICAL_UNMAP", base),
    "the end of a part": lambda base: encode("PHYSICAL_UNMAP", base + 5 * G),
    "access to a part": lambda base: access(base + 5 * G),
    "access of another kind": lambda base: access(base + 4 * G, 2),
    "the release of nothing known": lambda base: encode("PHYSICAL_RELEASE", 17, 0),
    "two releases": lambda base: encode("PHYSICAL_RELEASE", 16, 0) * 2,
}


@pytest.mark.parametrize("why", BROKEN)
def test_a_guest_that_breaks_a_rule_ends_its_session(host: Host, guest: Guest, why: str) -> None:
    other = Guest(host)
    assert guest.do(create(16, 2), map_(guest.base + 4 * G, 16, 2), access(guest.base + 4 * G)) == 0
    with pytest.raises(ProtocolError):
        guest.do(BROKEN[why](guest.base))
    host.end(guest.session, "test")
    assert other.do(create(16), map_(other.base, 16), access(other.base)) == 0
    assert other.read(other.base, G) == 0


def test_an_older_session_has_none_of_it(host: Host) -> None:
    guest = Guest(host, version=3)
    with pytest.raises(ProtocolError, match="PHYSICAL_CREATE"):
        guest.do(create(16))


def test_memory_that_is_refused_poisons_what_is_mapped(guest: Guest) -> None:
    base = guest.base
    assert guest.do(create(16, 17)) == 2
    assert guest.do(map_(base, 16, 17)) == 2
    assert guest.do(access(base)) == 0  # the refusal has been told
    assert guest.read(base + G, 4) == 2
    assert guest.do(encode("PHYSICAL_UNMAP", base), encode("PHYSICAL_RELEASE", 16, 0)) == 0
    assert guest.do(create(17, 16), map_(base, 17, 16), access(base)) == 0
    assert guest.read(base + G, 4) == 0


def test_a_mapping_over_an_allocation_is_poisoned_until_it_ends(guest: Guest) -> None:
    base = guest.base
    assert guest.do(encode("ALLOCATE", base + G, 256), create(16, 2)) == 0
    assert guest.do(map_(base, 16, 2)) == 1
    assert guest.read(base, 4) == 1
    assert guest.do(encode("PHYSICAL_UNMAP", base), encode("FREE", base + G)) == 0
    assert guest.do(map_(base, 16, 2), access(base)) == 0
    assert guest.read(base + G, 4) == 0


def test_memory_ends_with_its_last_user(guest: Guest) -> None:
    base = guest.base
    for _ in range(3):  # the quota has room for one at a time
        memory = 16 + guest._group
        assert guest.do(create(memory, 16), map_(base, memory, 16), map_(base + 32 * G, memory, 8)) == 0
        assert guest.do(encode("PHYSICAL_RELEASE", memory, 0), encode("PHYSICAL_UNMAP", base)) == 0
        assert guest.do(encode("ALLOCATE", base, G)) == 2, "a mapping keeps the memory"
        assert guest.do(encode("FREE", base), encode("PHYSICAL_UNMAP", base + 32 * G)) == 0


def test_a_reset_forgets_it(guest: Guest) -> None:
    base = guest.base
    assert guest.do(create(16, 16), map_(base, 16, 16), access(base)) == 0
    assert guest.do(encode("DEVICE_RESET", 1, 0)) == 0
    assert guest.do(create(16, 16), map_(base, 16, 16), access(base)) == 0


@pytest.mark.parametrize("number", range(5))
def test_no_loop_has_these_operations_in_its_body(guest: Guest, number: int) -> None:
    base = guest.base
    release, unmap = encode("PHYSICAL_RELEASE", 16, 0), encode("PHYSICAL_UNMAP", base)
    body = (create(16), map_(base, 16), access(base), unmap, release)[number]
    with pytest.raises(ProtocolError):
        guest.do(encode("TEMPLATE", 0, 0, len(body), 0, tail=body))
