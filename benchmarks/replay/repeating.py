"""What an iteration of a loop costs the host: a REPEAT beside the records that it stands for, null and simulated device.

No guest, no wire: `Session.submit` with the bytes that a guest would send, both ways in the same run. The plain records of all
iterations are sent in as many messages as they need. Medians over `ROUNDS` runs; the kernel is empty.

A loop that comes once costs a TEMPLATE, too, and what its first REPEAT has to make: the second table tells it in launches, which is what the recorder's
prices are in (recorder/src/policy.rs) and the host's (backend/loops/plans.py).
"""

from __future__ import annotations

import argparse
import functools
import statistics
import struct
import time
from collections.abc import Callable, Iterator, Sequence

from farlane.backend.device import registry
from farlane.backend.handlers.generated_operations import encode
from farlane.backend.host.greeting import TAPE_VERSION_MAX, Greeting
from farlane.backend.host.host import Host
from farlane.backend.host.session import MESSAGE_BYTES, Session
from farlane.backend.objects.images import digest_of
from farlane.v1 import session_pb2 as pb

ROUNDS = 7
PTX = b"""
.version 7.5
.target sm_75
.address_size 64
.visible .entry nothing(.param .u64 a, .param .u64 b, .param .u32 n) { ret; }
"""
Hole = tuple[int, int]


class Bench:
    """One session of a device."""

    def __init__(self, device: str) -> None:
        self.host = Host(registry.open_device(device), quota=1 << 24)
        admission = self.host.admit(Greeting(1, TAPE_VERSION_MAX))
        self.session: Session = admission.session
        self.base = admission.window.base
        self.group = 0
        digest = digest_of(PTX)
        self.submit(
            encode("ALLOCATE", self.base, 1 << 20)
            + encode("MODULE_BEGIN", len(PTX), digest)
            + encode("MODULE_CHUNK", len(PTX), 0, tail=PTX)
            + encode("MODULE_END", digest)
            + encode("MODULE_OPEN", 16, 0, digest)
            + encode("FUNCTION_OPEN", 16, 16, 7, 0, tail=b"nothing")
            + encode("EVENT_CREATE", 16, 0)
        )

    def submit(self, *messages: bytes) -> None:
        self.group += 1
        for number, message in enumerate(messages):
            for sent in self.session.submit(self.group, message, number == len(messages) - 1):
                reply = pb.HostMessage.FromString(sent).reply
                assert not reply.error, reply.error_message

    def launch(self, number: int = 0) -> bytes:
        parameters = struct.pack("<QQI", self.base, self.base + 4096, number % 2**32)
        return encode("LAUNCH", 16, 1, 1, 1, 1, 32, 1, 1, 0, len(parameters), tail=parameters)

    def close(self) -> None:
        self.host.end(self.session, "done")
        self.host.close()


def affine(start: int, step: int) -> bytes:
    return struct.pack("<BBHIQQ", 0, 0, 0, 0, start, step)


def template(number: int, holes: Sequence[Hole], body: bytes) -> bytes:
    content = b"".join(struct.pack("<IB3x", *hole) for hole in holes) + body
    return encode("TEMPLATE", number, len(holes), len(content), 0, tail=content)


def repeat(number: int, count: int, *columns: bytes) -> bytes:
    whole = b"".join(columns)
    return encode("REPEAT", number, len(whole), count, tail=whole)


def messages(records: list[bytes]) -> list[bytes]:
    parts, part, size = [], [], 0
    for record in records:
        if size + len(record) > MESSAGE_BYTES:
            parts.append(b"".join(part))
            part, size = [], 0
        part.append(record)
        size += len(record)
    return [*parts, b"".join(part)]


def us(call: Callable[[], None], iterations: int) -> float:
    """The median time of an iteration, in microseconds."""
    call()
    times = []
    for _ in range(ROUNDS):
        started = time.perf_counter()
        call()
        times.append((time.perf_counter() - started) / iterations * 1e6)
    return statistics.median(times)


def cases(bench: Bench) -> dict[str, tuple[list[Hole], Callable[[int], list[bytes]], list[bytes]]]:
    """name: holes, the records of an iteration, columns."""
    base = bench.base

    def memset(k: int) -> bytes:
        return encode("MEMSET", base + 256 * (k % 64), 256, 256, 1, 0, 1, 1, 0)

    def copy(k: int) -> bytes:
        return encode("COPY", base, 64, base + 4096, 64, 64, 1, 1, 0)

    def read(k: int) -> bytes:
        return encode("READ", base, 4, 4, 1, 1, 1 + k % 1000)

    n = struct.pack("<BBHI", 2, 0, 0, 64) + b"".join((base + 256 * k).to_bytes(8, "little") for k in range(64))
    record = encode("EVENT_RECORD", 16, 1, 0, 0)
    return {
        "launch, the same (class 1)": ([], lambda k: [bench.launch()], []),
        "launch, one argument counts (class 2)": ([(64, 4)], lambda k: [bench.launch(k)], [affine(0, 1)]),
        "launch, two pointers swap": (
            [(48, 8), (56, 8)],
            lambda k: [bench.launch()],
            [
                struct.pack("<BBHIQ", 3, 1, 0, 1, base),
                struct.pack("<BBHIQ", 3, 1, 0, 0, base + 4096),
            ],
        ),
        "three launches, memset, copy, record": (
            [(64, 4), (72 + 8, 8)],
            lambda k: [bench.launch(k), memset(k), bench.launch(), copy(k), bench.launch(), record],
            [affine(0, 1), n],
        ),
        "launch, read of 4 bytes": (
            [(64, 4), (72 + 44, 4)],
            lambda k: [bench.launch(k), read(k)],
            [affine(0, 1), affine(1, 0)],
        ),
    }


def zeroed(holes: Sequence[Hole], body: bytes) -> bytes:
    data = bytearray(body)
    for at, width in holes:
        data[at : at + width] = bytes(width)
    return bytes(data)


def measure(bench: Bench, iterations: int) -> None:
    """Prints the table of one device."""

    def row(name: str, count: int, plain: list[bytes], loop: bytes) -> None:
        before, after = us(lambda: bench.submit(*plain), count), us(lambda: bench.submit(loop), count)
        print(f"  {name:42}{before:9.2f}{after:9.2f}{before / after:8.1f}")

    print(f"  {'':42}{'records':>9}{'REPEAT':>9}{'ratio':>8}")
    for number, (name, (holes, iteration, columns)) in enumerate(cases(bench).items()):
        body = zeroed(holes, b"".join(iteration(0)))
        bench.submit(template(number, holes, body))
        plain = messages([record for k in range(iterations) for record in iteration(k)])
        row(name, iterations, plain, repeat(number, iterations, *columns))
    # A loop in a loop: the inner one short enough to be unrolled, and long.
    for number, inner in ((100, 8), (102, 1000)):
        outer = max(1, iterations // inner)
        bench.submit(template(number, [(64, 4)], zeroed([(64, 4)], bench.launch())))
        bench.submit(template(number + 1, [(32, 8)], zeroed([(32, 8)], repeat(number, inner, affine(0, 1)))))
        plain = messages([bench.launch(k) for k in range(outer * inner)])
        loop = repeat(number + 1, outer, affine(0, 1000))
        row(f"nested: {outer} times {inner} launches", outer * inner, plain, loop)


BODIES = ((1, 48), (2, 32), (4, 16), (8, 16), (16, 16))  # launches of a body, iterations
AT_ONCE = 32  # loops in one run
FIRST_NUMBER = 200


def loops_that_come_once(bench: Bench, first: int, launches: int, iterations: int) -> list[bytes]:
    """Templates `first` and following, and a REPEAT of each."""
    holes = [(64, 4)]
    body = zeroed(holes, b"".join(bench.launch(number) for number in range(launches)))
    numbers = range(first, first + AT_ONCE)
    return messages([template(k, holes, body) + repeat(k, iterations, affine(0, 1)) for k in numbers])


def measure_once(bench: Bench) -> None:
    """Prints what loops cost that come once."""
    print(f"  {'a loop that comes once, us':42}{'records':>9}{'REPEAT':>9}{'ratio':>8}{'in launches':>13}")
    for launches, iterations in BODIES:
        plain = messages([bench.launch()] * launches * iterations * AT_ONCE)
        before = us(functools.partial(bench.submit, *plain), AT_ONCE)
        firsts = range(FIRST_NUMBER, FIRST_NUMBER + (ROUNDS + 1) * AT_ONCE, AT_ONCE)
        once = iter([loops_that_come_once(bench, first, launches, iterations) for first in firsts])
        after = us(functools.partial(_submit_next, bench, once), AT_ONCE)
        name = f"{iterations} times {launches} {'launch' if launches == 1 else 'launches'}"
        in_launches = after / before * launches * iterations
        print(f"  {name:42}{before:9.2f}{after:9.2f}{before / after:8.1f}{in_launches:13.0f}")


def _submit_next(bench: Bench, messages: Iterator[list[bytes]]) -> None:
    bench.submit(*next(messages))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--iterations", type=int, default=20_000)
    iterations = parser.parse_args().iterations
    for device in ("null", "sim"):
        bench = Bench(device)
        print(f"{device}: us for an iteration, medians of {ROUNDS} runs of {iterations} iterations")
        measure(bench, iterations)
        measure_once(bench)
        bench.close()


if __name__ == "__main__":
    main()
