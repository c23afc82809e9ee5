"""The tape is written by somebody else: whatever it holds, the host answers or ends the session, and goes on.

Mutated groups with a fixed seed, on the null device, and fewer on the simulated one, whose kernels then get random addresses. A run is right when every group either is answered or raises ProtocolError,
when no exception of ours hides in a cudaErrorUnknown, and when all is released afterwards.
"""

from __future__ import annotations

import random
import struct
import threading
from collections import Counter
from typing import Any

import fuzzing
import pytest
from counting_slice import definition, template
from farlane.backend.device import registry
from farlane.backend.device.base import MAPPING_GRANULE as GRANULE
from farlane.backend.device.null import NullDevice
from farlane.backend.errors import DeadTransport, ProtocolError
from farlane.backend.handlers.generated_operations import OPERATIONS, encode
from farlane.backend.host.greeting import TAPE_VERSION_MAX, Greeting
from farlane.backend.host.host import Host
from farlane.backend.objects.images import digest_of
from session_replies import answers

GROUPS = fuzzing.inputs(6000)
INTERESTING = [0, 1, 2, 7, 8, 15, 16, 17, 255, 256, 4096, 2**20, 2**31 - 1, 2**31, 2**32 - 1, 2**48, 2**63, 2**64 - 1]
IMAGE = b"""
.version 7.5
.target sm_75
.address_size 64
.visible .global .align 4 .b8 v[64];
.visible .entry f(.param .u64 address)
{
    .reg .b64 %rd<2>;
    .reg .b32 %r<2>;
    ld.param.u64 %rd1, [address];
    mov.u32 %r1, %tid.x;
    st.global.u32 [%rd1], %r1;
    ret;
}
"""
DIGEST = digest_of(IMAGE)
WHILE = bytes((0x66, 0))  # in a group's bytes where there is one
LEFT_AFTER_3 = (3 << 8 | 1).to_bytes(8, "little")  # a WHILE's value


def number(rng: random.Random, format_: str, base: int) -> int:
    """A value for one field; often a plausible one, so that records get beyond their first check."""
    kind = rng.random()
    if format_ == "Q" and kind < 0.6:
        return base + rng.randrange(16) * 256 if rng.random() < 0.5 else rng.randrange(1, 2048)
    if kind < 0.8:
        return rng.choice([1, 1, 2, 16, 17, 18, rng.randrange(64)])
    bits = struct.calcsize("<" + format_) * 8
    value = rng.choice(INTERESTING) % 2**bits
    return value - 2**bits if format_ == "i" and value >= 2 ** (bits - 1) else value


def plausible(rng: random.Random, base: int) -> bytes:
    """A record that the device gets to see."""
    address = base + rng.randrange(-1, 20) * 4096
    size = rng.choice([1, 4, 63, 256, 4096])
    stream = rng.choice([1, 1, 2, 16, 17])
    handle = rng.randrange(20, 5000)
    pointer = rng.choice([address, address + 1, rng.choice(INTERESTING)])
    return rng.choice(
        [
            lambda: encode("ALLOCATE", address, size),
            lambda: encode("FREE", address),
            lambda: encode("MEMSET", address, 2 * size, size, 3, 7, 1, stream, 0),
            lambda: encode("WRITE", pointer, 0, size, 1, stream, size, tail=bytes(size)),
            lambda: encode("READ", pointer, size + 1, size, 2, stream, 5),
            lambda: encode("COPY", address, size, base, size, size, 2, stream, 0),
            lambda: encode("WRITE", 1 << 63 | 16 << 32 | rng.randrange(70), 0, 4, 1, stream, 4, tail=b"abcd"),
            lambda: encode("STREAM_CREATE", handle, 0, 0, 0),
            lambda: encode("EVENT_RECORD", 16, stream, 0, 0),
            lambda: encode("EVENT_ELAPSED", 16, 16, 5, 0),
            lambda: encode("MODULE_OPEN", handle, 0, DIGEST),
            lambda: encode("FUNCTION_OPEN", handle, 16, 1, 0, tail=rng.choice([b"f", b"v", b"g"])),
            lambda: encode("VARIABLE_OPEN", handle, 16, rng.choice([64, 65]), 1, 0, tail=rng.choice([b"f", b"v"])),
            lambda: encode("LAUNCH", 16, stream, 1, 1, 1, 33, 1, 1, 0, 8, tail=(pointer % 2**64).to_bytes(8, "little")),
            lambda: physical(rng, base),
            lambda: encode("DEVICE_SYNCHRONIZE", 5, 0),
            lambda: encode("CONTEXT", rng.choice([0, 16, 17, 18, 3]), 0, flags=rng.choice([0, 0, 0, 1])),
            lambda: encode("FENCE", 5, 0),
            lambda: decided(rng, base),
        ]
    )()


def decided(rng: random.Random, base: int) -> bytes:
    """A WHILE, mostly of the slice that the session has from its beginning."""
    size, flags = rng.choice([(8, 0)] * 12 + [(0, 1), (0, 0), (9, 1)])
    tail = rng.choice([3, 3, 3, 50, 2**64 - 1]).to_bytes(8, "little")[:size].ljust(size, b"\0")
    loop = encode("WHILE", rng.choice([0] * 12 + [1]), 5, rng.choice([1, 7, 7, 100]), 500, size, tail=tail, flags=flags)
    return rng.choice([b"", b"", definition(template(base))]) + loop


def physical(rng: random.Random, base: int) -> bytes:
    """A record about physical memory, in the first granules of the window but one."""
    address, memory = base + rng.randrange(1, 4) * GRANULE, rng.choice([16, 17, 18])
    size = rng.choice([GRANULE, 2 * GRANULE])
    return rng.choice(
        [
            encode("PHYSICAL_CREATE", memory, 0, size),
            encode("PHYSICAL_CREATE", memory, 0, size) + encode("PHYSICAL_MAP", address, 0, size, memory, 0),
            encode("PHYSICAL_MAP", address, rng.choice([0, GRANULE]), size, memory, 0),
            encode("PHYSICAL_ACCESS", address, rng.choice([0, 1, 3]), 0),
            encode("PHYSICAL_UNMAP", address),
            encode("PHYSICAL_RELEASE", memory, 0),
            encode("WRITE", address - 2, 0, 4, 1, 1, 4, tail=b"abcd"),
        ]
    )


def arbitrary(rng: random.Random, base: int) -> bytes:
    """A well-formed record of any operation, its fields as they come."""
    operation = rng.choice(list(OPERATIONS.values()))
    tail = rng.randbytes(rng.choice([0, 1, 4, 8, 63])) if operation.tail else b""
    values: list[int | bytes] = []
    for field in operation.fields:
        if field.format.endswith("s"):
            values.append(DIGEST if rng.random() < 0.7 else rng.randbytes(32))
        elif field.name == "reserved":
            values.append(0 if rng.random() < 0.98 else 1)
        elif field.name == operation.length_field:
            values.append(len(tail) if rng.random() < 0.95 else rng.choice(INTERESTING) % 2**32)
        else:
            values += [number(rng, format_, base) for format_ in field.format]
    return encode(operation.name, *values, tail=tail, flags=int(rng.random() < 0.05))


def group(rng: random.Random, base: int) -> bytes:
    records = [
        plausible(rng, base) if rng.random() < 0.85 else arbitrary(rng, base) for _ in range(rng.randrange(1, 10))
    ]
    whole = b"".join(records)
    return mutate(rng, whole) if rng.random() < 0.3 else whole


def opening(base: int) -> bytes:
    """A session with something of each kind in it."""
    return b"".join(
        (
            encode("ALLOCATE", base, 1 << 16),
            encode("STREAM_CREATE", 16, 0, 0, 0),
            encode("EVENT_CREATE", 16, 0),
            encode("MODULE_BEGIN", len(IMAGE), DIGEST),
            encode("MODULE_CHUNK", len(IMAGE), 0, tail=IMAGE),
            encode("MODULE_END", DIGEST),
            encode("MODULE_OPEN", 16, 0, DIGEST),
            encode("FUNCTION_OPEN", 16, 16, 1, 0, tail=b"f"),
            encode("VARIABLE_OPEN", 16, 16, 64, 1, 0, tail=b"v"),
            definition(template(base)),
        )
    )


def mutate(rng: random.Random, whole: bytes) -> bytes:
    data = bytearray(whole)
    for _ in range(rng.choice([1, 1, 2, 8])):
        kind = rng.random()
        at = rng.randrange(len(data)) if data else 0
        if not data:
            break
        if kind < 0.5:
            data[at] ^= 1 << rng.randrange(8)
        elif kind < 0.7:
            struct.pack_into("<I", data, min(at & ~3, len(data) - 4), rng.choice(INTERESTING) % 2**32)
        elif kind < 0.8:
            del data[at : at + rng.choice([1, 4, 8, 16])]
        elif kind < 0.9:
            data[at:at] = rng.randbytes(rng.choice([1, 8, 24]))
        else:
            del data[at:]
        if len(data) < 4:
            break
    return bytes(data)


@pytest.mark.parametrize(("device", "seed"), [*(("null", seed) for seed in range(4)), ("sim", 4)])
def test_mutated_groups(device: str, seed: int, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("ERROR", "farlane")
    rounds = GROUPS // 4 if device == "null" else GROUPS // 6
    rng = random.Random(seed)
    host = Host(registry.open_device(device), quota=8 << 20)
    admission: Any = None
    groups = refused = answered = decided_all = 0
    errors: Counter[int] = Counter()
    for _ in range(rounds):
        if admission is None:
            admission = host.admit(Greeting(1, TAPE_VERSION_MAX))
            start = opening(admission.window.base)
            (reply,) = answers(admission.session, 1, start)
            assert reply.error == 0
            groups = 1
        data = group(rng, admission.window.base)
        groups += 1
        timer = threading.Timer(1, admission.session.interrupt)  # a mutated loop may have no end
        if WHILE in data:
            timer.start()
        try:
            replies = list(answers(admission.session, groups, data))
        except (ProtocolError, DeadTransport) as error:
            refused += isinstance(error, ProtocolError)
            host.end(admission.session, "fuzz")
            assert admission.session.closed
            admission = None
        else:
            assert replies[-1].last
            answered += 1
            errors[replies[-1].error] += 1
            decided_all += any(LEFT_AFTER_3 in reply.results for reply in replies)
            if rng.random() < 0.05 or replies[-1].sticky:
                host.end(admission.session, "fuzz")
                admission = None
        finally:
            timer.cancel()
    host.close()
    assert host.sessions == 0
    assert not [entry for entry in caplog.records if entry.levelname == "ERROR"], "an exception of ours"
    # The generator must reach both sides of the checks, or it tests nothing.
    assert refused > rounds // 10
    assert answered > rounds // 10
    assert decided_all > rounds // 200
    assert {0, 1, 400} <= set(errors)
    assert device == "null" or errors[700] > 10


def test_random_bytes() -> None:
    rng = random.Random(7)
    host = Host(NullDevice())
    for _ in range(2000):
        session = host.admit(Greeting(1, TAPE_VERSION_MAX)).session
        data = rng.randbytes(rng.randrange(1, 200))
        with pytest.raises(ProtocolError):
            list(session.submit(1, data, True))
        host.end(session, "fuzz")
    assert host.sessions == 0


@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=lambda operation: operation.name)
def test_every_truncation_is_refused(operation: Any) -> None:
    host = Host(NullDevice())
    tail = b"12345678" if operation.tail else b""
    values = [
        bytes(32) if field.format.endswith("s") else len(tail) if field.name == operation.length_field else 0
        for field in operation.fields
        for _ in (field.format if not field.format.endswith("s") else "s")
    ]
    whole = encode(operation.name, *values, tail=tail)
    for size in range(1, len(whole)):
        for claimed in (len(whole), size, size & ~7):
            session = host.admit(Greeting(1, TAPE_VERSION_MAX)).session
            data = struct.pack("<I", claimed) + whole[4:size]
            with pytest.raises(ProtocolError):
                list(session.submit(1, data[:size], True))
            host.end(session, "fuzz")
    host.close()
