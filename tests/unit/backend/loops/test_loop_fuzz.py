"""Mutated templates, columns and payloads: the host refuses them, or does what they say, and holds no more than its bounds."""

from __future__ import annotations

import random
import struct
import threading
from collections import Counter
from typing import Any

import fuzzing
import pytest
from counting_slice import COUNTING, FILLINGS, RECORDS, slice_record
from counting_slice import template as counting_template
from farlane.analyzer.slices import encode as forms
from farlane.backend.device import registry
from farlane.backend.errors import DeadTransport, ProtocolError
from farlane.backend.handlers.generated_operations import encode
from farlane.backend.host.greeting import TAPE_VERSION_MAX, Greeting
from farlane.backend.host.host import Host
from tape_client.loops import slice_content

INTERESTING = [0, 1, 2, 3, 4, 7, 8, 15, 16, 17, 64, 255, 256, 4095, 4096, 2**16, 2**31, 2**32 - 1, 2**40, 2**64 - 1]


def column(rng: random.Random, width: int, count: int, index: int, widths: list[int]) -> bytes:
    kind = rng.randrange(4)
    if kind == 0:
        return struct.pack("<BBHIQQ", 0, 0, 0, 0, rng.choice(INTERESTING), rng.choice(INTERESTING))
    lag, number, amount = 0, count, count
    if kind == 2:
        number = amount = rng.randrange(1, 5)
    elif kind == 3:
        lag = amount = rng.choice([0, 1, 2, 16])
        others = [at for at, other in enumerate(widths) if other == width and (lag or at < index)]
        number = rng.choice(others or [0])
    data = rng.randbytes(width * amount)
    return struct.pack("<BBHI", kind, lag, 0, number) + data + bytes(-len(data) % 8)


def body(rng: random.Random, base: int, inner: list[tuple[int, list[int]]]) -> tuple[list[tuple[int, int]], bytes]:
    """Holes and records."""
    parts: list[bytes] = []
    holes: list[tuple[int, int]] = []
    at = 0
    for _ in range(rng.randrange(1, 5)):
        kind = rng.randrange(6)
        if kind == 0:
            part, places = encode("MEMSET", base, 64, 4, 2, 7, 1, 1, 0), [(8, 8), (16, 8), (40, 4)]
        elif kind == 1:
            part, places = encode("WRITE", base, 0, 8, 1, 1, 8, tail=bytes(8)), [(8, 8), (48, 4), (52, 2)]
        elif kind == 2:
            part, places = encode("READ", base, 0, 8, 1, 1, 5), [(8, 8), (44, 4)]
        elif kind == 3 and inner:
            number, widths = rng.choice(inner)
            count = rng.randrange(1, 4)
            data = b"".join(column(rng, width, count, at, widths) for at, width in enumerate(widths))
            part, places = encode("REPEAT", number, len(data), count, tail=data), [(16, 8)]
        else:
            part, places = encode("FENCE", 3, 0), [(8, 4)]
        for offset, width in places:
            if rng.random() < 0.4:
                holes.append((at + offset, width))
        parts.append(part)
        at += len(part)
    whole = bytearray(b"".join(parts))
    for offset, width in holes:
        whole[offset : offset + width] = bytes(width)
    return holes, bytes(whole)


def mutate(rng: random.Random, data: bytes) -> bytes:
    out = bytearray(data)
    for _ in range(rng.choice([0, 1, 1, 2, 4])):
        if not out:
            break
        kind, at = rng.random(), rng.randrange(len(out))
        if kind < 0.5:
            out[at] ^= 1 << rng.randrange(8)
        elif kind < 0.75:
            size = rng.choice([1, 2, 4, 8])
            number = rng.choice(INTERESTING) % 2 ** (8 * size)
            out[at : at + size] = number.to_bytes(size, "little")[: len(out) - at]
        elif kind < 0.85:
            del out[at : at + rng.choice([1, 8])]
        else:
            out[at:at] = rng.randbytes(rng.choice([1, 8]))
    return bytes(out)


def content(holes: list[tuple[int, int]], records: bytes) -> bytes:
    return b"".join(struct.pack("<IB3x", *hole) for hole in holes) + records


def submitted(
    host: Host, session: Any, group: int, tape: bytes, seconds: float, outcomes: Counter[str]
) -> list[bytes] | None:
    """The replies to a group; None: it has ended the session. A mutated loop may have no end: the guest then goes away."""
    timer = threading.Timer(seconds, session.interrupt)
    timer.start()
    try:
        replies = list(session.submit(group, tape, True))
    except (ProtocolError, DeadTransport) as ended:
        outcomes["refused" if isinstance(ended, ProtocolError) else "interrupted"] += 1
        host.end(session, "fuzz")
        return None
    finally:
        timer.cancel()
        timer.join()
    outcomes["answered"] += 1
    return replies


@pytest.mark.parametrize("device", ["null", "sim"])
def test_mutated_loops(device: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("ERROR", "farlane")
    rng = random.Random(11)
    host = Host(registry.open_device(device), quota=1 << 20)
    outcomes: Counter[str] = Counter()
    session: Any = None
    rounds = fuzzing.inputs(400)
    for _ in range(rounds):
        if session is None:
            admission = host.admit(Greeting(1, TAPE_VERSION_MAX))
            session, base, group = admission.session, admission.window.base, 1
            start = encode("ALLOCATE", base, 1 << 16) + encode("STREAM_CREATE", 16, 0, 0, 0)
            list(session.submit(1, start, True))
            given: dict[int, list[int]] = {}
        number = rng.randrange(4)
        holes, records = body(rng, base, [(other, widths) for other, widths in given.items() if other < number])
        whole = mutate(rng, content(holes, records)) if rng.random() < 0.5 else content(holes, records)
        count = rng.choice([1, 5, 200])
        widths = [width for _, width in holes]
        columns = b"".join(column(rng, width, count, at, widths) for at, width in enumerate(widths))
        payload = rng.randbytes(rng.randrange(1, 40))
        tape = b"".join(
            (
                encode("TEMPLATE", number, len(holes), len(whole), 0, tail=whole),
                encode("REPEAT", number, len(columns), count, tail=columns),
                encode("PAYLOAD_KEEP", group, 20, len(payload), 0, tail=payload, flags=rng.choice([0, 1, 2]))
                if rng.random() < 0.1
                else b"",
            )
        )
        group += 1
        if submitted(host, session, group, tape, 0.5, outcomes) is not None:
            given[number] = widths
        if session.closed or session.resources.standing.interrupted:
            host.end(session, "fuzz")
            session = None
    host.close()
    assert host.sessions == 0
    assert not [entry for entry in caplog.records if entry.levelname == "ERROR"], "an exception of ours"
    assert outcomes["refused"] > rounds // 8
    assert outcomes["answered"] > rounds // 8


@pytest.mark.parametrize("device", ["null", "sim"])
def test_mutated_slices(device: str, caplog: pytest.LogCaptureFixture) -> None:
    """The bytes of a slice, the records of its calls, what is put into the hole, and the WHILE."""
    caplog.set_level("ERROR", "farlane")
    rng = random.Random(12)
    host = Host(registry.open_device(device), quota=1 << 20)
    outcomes: Counter[str] = Counter()
    session: Any = None
    written = forms.write(COUNTING)
    rounds = fuzzing.inputs(800)
    for _ in range(rounds):
        if session is None:
            admission = host.admit(Greeting(1, TAPE_VERSION_MAX))
            session, base, group = admission.session, admission.window.base, 1
            list(session.submit(1, encode("ALLOCATE", base, 1 << 16), True))
        data, records, fillings = written, list(RECORDS), list(FILLINGS)
        kind = rng.random()
        if kind < 0.5:
            data = mutate(rng, written)
        elif kind < 0.6:
            records[rng.randrange(2)] = rng.choice([0, 1, 2, 2**32 - 1])
        elif kind < 0.7:
            fillings = [(rng.randrange(3), rng.randrange(3), rng.randrange(2), rng.choice([0, 1, 4, 5, 65535]))]
        whole = slice_content(data, records, fillings)
        size = len(data) if rng.random() < 0.95 else rng.choice(INTERESTING) % 2**32
        inputs = struct.pack("<Q", rng.choice([1, 3, 70]))
        loop = encode("WHILE", 0, 5, rng.choice([0, 1, 50]), rng.choice([0, 100]), len(inputs), tail=inputs)
        again = encode("WHILE", 0, 5, 2, 0, 0, flags=1)
        tape = counting_template(base) + slice_record(whole, size) + mutate(rng, loop + again * rng.randrange(2))
        group += 1
        replies = submitted(host, session, group, tape, 0.2, outcomes) or []
        values = [3 << 8 | 1, 50 << 8]
        outcomes["decided"] += any(struct.pack("<Q", value) in reply for reply in replies for value in values)
        if session.closed or session.resources.standing.interrupted:
            host.end(session, "fuzz")
            session = None
    host.close()
    assert host.sessions == 0
    assert not [entry for entry in caplog.records if entry.levelname == "ERROR"], "an exception of ours"
    assert outcomes["refused"] > rounds // 8
    assert outcomes["answered"] > rounds // 8
    assert outcomes["decided"] > rounds // 27
