"""What an iteration of a loop that its slice decides costs the host: WHILE beside the same records sent one by one.

No guest, no wire: `Session.submit` with the bytes that a guest would send. An iteration launches an empty kernel, reads 4 bytes, and decides by a
slice of 11 operations, as compilers make one of a loop until convergence: a float is widened and compared with a bound, a counter counts. Medians
over `ROUNDS` runs; the two ways alternate. Processor time beside wall time: it includes that of taking replies, and depends less on other work.
"""

from __future__ import annotations

import argparse
import statistics
import struct
import time
from typing import NamedTuple

from farlane.analyzer.slices import encode as forms
from farlane.analyzer.slices.form import (
    Argument,
    Block,
    Branch,
    Call,
    Called,
    Code,
    Input,
    Leave,
    Operation,
    Origin,
    Place,
    Slice,
)
from farlane.backend.device import registry
from farlane.backend.handlers.generated_operations import encode
from farlane.backend.host.greeting import TAPE_VERSION_MAX, Greeting
from farlane.backend.host.host import Host
from farlane.backend.objects.images import digest_of

ROUNDS = 5
PTX = b"""
.version 7.5
.target sm_75
.address_size 64
.visible .entry nothing(.param .u64 a, .param .u32 n) { ret; }
"""
COUNTER, LIMIT, BOUND, READ, ONE, ANSWER, OTHER = range(7)  # registers


def typical() -> Slice:
    """`do { launch(n); copy(&residual, a, 4); n++; } while (n < limit && residual <= bound)`"""

    def op(code: Code, target: int, *operands: int, width: int = 8, immediate: int = 0) -> Operation:
        return Operation(code, width, target, operands, immediate)

    decides = (
        op(Code.LOAD, READ, width=4),
        op(Code.WIDEN, READ, READ, width=4),
        op(Code.F_LESS_EQUAL, ANSWER, READ, BOUND),
        op(Code.CONSTANT, ONE, immediate=1),
        op(Code.ADD, COUNTER, COUNTER, ONE, width=4),
        op(Code.LOAD, OTHER, width=4, immediate=4),
        op(Code.XOR, OTHER, OTHER, COUNTER, width=4),
        Operation(Code.STORE, 4, -1, (OTHER,), 4),
        op(Code.SIGN, OTHER, COUNTER, width=4),
        op(Code.LESS, OTHER, OTHER, LIMIT),
        op(Code.AND, ANSWER, ANSWER, OTHER),
    )
    return Slice(
        entry=0x1000,
        registers=7,
        memory=8,
        inputs=(Input(Origin.REGISTER, 3, LIMIT),),
        blocks=(
            Block((), Called(0, 1)),
            Block((), Called(1, 2)),
            Block(decides, Branch(ANSWER, 0, 3)),
            Block((), Leave(0x2000)),
        ),
        calls=(
            Call(0x1000, "launch", (Argument(9, 4, COUNTER),)),
            Call(0x1100, "cudaMemcpy", fills=Place(0, 4)),
        ),
        floating=True,
    )


class Cost(NamedTuple):
    """Seconds, those of the processor, replies, and their bytes."""

    wall: float
    processor: float
    replies: int
    size: int


def median(costs: list[Cost], iterations: int, which: str) -> float:
    """In nanoseconds for an iteration."""
    return statistics.median(getattr(cost, which) for cost in costs) / iterations * 1e9


class Bench:
    """A session with the loop."""

    def __init__(self, device: str) -> None:
        self.host = Host(registry.open_device(device), quota=1 << 24)
        admission = self.host.admit(Greeting(1, TAPE_VERSION_MAX))
        self.session = admission.session
        self.base = admission.window.base
        self.group = 0
        digest = digest_of(PTX)
        slice_ = forms.write(typical())
        body = self.launch(0) + self.read(0)
        content = struct.pack("<IB3x", 56, 4) + body
        decided = slice_ + bytes(-len(slice_) % 8) + struct.pack("<II", 0, 1) + struct.pack("<HBBHxx", 0, 0, 0, 0)
        self.submit(
            encode("ALLOCATE", self.base, 1 << 20),
            encode("MODULE_BEGIN", len(PTX), digest),
            encode("MODULE_CHUNK", len(PTX), 0, tail=PTX),
            encode("MODULE_END", digest),
            encode("MODULE_OPEN", 16, 0, digest),
            encode("FUNCTION_OPEN", 16, 16, 7, 0, tail=b"nothing"),
            encode("TEMPLATE", 0, 1, len(content), 0, tail=content),
            encode("SLICE", 0, 0, len(slice_), len(decided), tail=decided),
        )

    def launch(self, number: int) -> bytes:
        parameters = struct.pack("<QI", self.base, number)
        return encode("LAUNCH", 16, 1, 1, 1, 1, 32, 1, 1, 0, len(parameters), tail=parameters)

    def read(self, slot: int) -> bytes:
        return encode("READ", self.base, 4, 4, 1, 1, slot)

    def submit(self, *records: bytes) -> Cost:
        whole = b"".join(records)
        self.group += 1
        begun, worked = time.perf_counter(), time.process_time()
        replies = size = 0
        for message in self.session.submit(self.group, whole, True):
            replies, size = replies + 1, size + len(message)
        return Cost(time.perf_counter() - begun, time.process_time() - worked, replies, size)

    def decided(self, iterations: int) -> Cost:
        return self.submit(encode("WHILE", 0, 1, 0, 0, 8, tail=struct.pack("<Q", iterations)))

    def one_by_one(self, iterations: int, share: int = 4096) -> Cost:
        """As the guest sends them when it need not wait, in messages of `share` iterations."""
        costs = []
        for first in range(0, iterations, share):
            numbers = range(first, min(first + share, iterations))
            records = b"".join(part for number in numbers for part in (self.launch(number), self.read(1)))
            costs.append(self.submit(records))
        return Cost(*(sum(each) for each in zip(*costs, strict=True)))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--iterations", type=int, default=1_000_000)
    parser.add_argument("--device", choices=["null", "sim"], default="null")
    arguments = parser.parse_args()
    bench = Bench(arguments.device)
    many, few = arguments.iterations, max(arguments.iterations // 10, 1)
    decided, sent = [], []
    for _ in range(ROUNDS):
        decided.append(bench.decided(many))
        sent.append(bench.one_by_one(few))
    assert all(cost.size > 40 * many for cost in decided), "a result is missing"
    print(f"{arguments.device}, {many} iterations of a launch, a READ of 4 bytes, 11 operations: ns for each")
    print(f"            {'wall':>8}{'processor':>12}")
    for name, costs, count in (("WHILE", decided, many), ("one by one", sent, few)):
        print(f"{name:12}{median(costs, count, 'wall'):8.0f}{median(costs, count, 'processor'):12.0f}")
    print(f"a reply in {many / decided[-1].replies:.0f} iterations")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
