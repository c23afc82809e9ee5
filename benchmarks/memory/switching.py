"""Sessions of different priorities that share a device's memory: what a switch moves under three rules, and how long the higher one waits.

    python benchmarks/memory/switching.py [--arrivals 200] [--seed 1] [--memory 100 75 50 25]

The first table: a session of priority 0 that changes all of its memory runs on and on; sessions of higher priorities arrive at random, with weights that they only read and a result that they
write. All rules get the same arrivals on the same code (backend/memory/switching.py); outputs are compared. Bytes are exact. `delayed` is what hosts do: what is missing leaves, when it is missing.
`full` saves all of the session that is stopped, and restores all of the one that runs. `pipelined` is PipeSwitch's rule: of the session that is stopped what has changed is saved and all leaves; the
other one's comes as it computes. The memory is a share of what all sessions have together.

The second: sessions of one priority. The third: how long a session of a higher priority waits for one that runs a long launch, beside a block of it and beside all of it;
sessions of one process, and two processes.
The fourth: what an operation costs a session whose listener is another process, beside one of the same process: alone, when it keeps the device between operations, and
as while others wait, when it leaves the device after each.
"""

from __future__ import annotations

import argparse
import random
import statistics
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, NamedTuple

from farlane.backend.device.base import LEGACY_STREAM, LaunchShape, Rows
from farlane.backend.device.sim import Oversubscription, SimDevice
from farlane.backend.device.sim.processes.listener import Member, SharedDevice
from farlane.backend.memory.switching import DELAYED, RULES

TESTS = Path(__file__).resolve().parents[2] / "tests"
MIX = (TESTS / "unit/sim/memory/reuse.ptx").read_bytes()
TURN = (TESTS / "randomized/schedules/turning.ptx").read_bytes()
GRANULE = 2 << 20
A100 = 108 * (64 + 384) << 10  # bytes: multiprocessors, registers and cache of each
A100_BYTES_PER_SECOND = 1.5e12


class Kind(NamedTuple):
    """A session's memory in granules, and its priority."""

    priority: int
    weights: int
    results: int


LOW = Kind(0, 0, 8)
HIGH = [Kind(1, 3, 1), Kind(2, 6, 2), Kind(3, 1, 1), Kind(5, 4, 2)]
EACH = [sum(kind[1:]) + 1 for kind in (LOW, *HIGH)]  # and a granule for a module's variables


class Session:
    def __init__(self, device: SimDevice, kind: Kind, seed: int) -> None:
        self.kind = kind
        self.context = context = device.open_context(256 << 20)
        context.prioritize(kind.priority)
        self.stream = context.default_stream(LEGACY_STREAM)
        self.function = context.function(context.load_module(MIX), "mix")
        self.weights = context.window.base
        self.results = self.weights + kind.weights * GRANULE
        for address, granules in ((self.weights, kind.weights), (self.results, kind.results)):
            if granules:
                context.allocate(address, granules * GRANULE)
                content = memoryview(random.Random(seed).randbytes(granules * GRANULE))
                context.write(Rows(address, 0, len(content), 1), content, self.stream)
        context.rest()

    def step(self) -> None:
        """Once over all of the memory."""
        size = self.kind.results * GRANULE
        if not self.kind.weights:
            self._mix(self.results, self.results + size // 2, size // 2)
            self._mix(self.results + size // 2, self.results, size // 2)
        for start in range(0, self.kind.weights * GRANULE, GRANULE):
            self._mix(self.results, self.weights + start, GRANULE)

    def _mix(self, to: int, source: int, size: int) -> None:
        shape = LaunchShape((size // 512, 1, 1), (128, 1, 1), 0)
        self.context.launch(self.function, shape, memoryview(struct.pack("<QQI", to, source, size // 4)), self.stream)

    def output(self) -> int:
        pieces = self.context.read(Rows(self.results, 0, self.kind.results * GRANULE, 1), self.stream)
        return hash(b"".join(bytes(piece) for piece in pieces))


class Found(NamedTuple):
    outputs: list[int]
    counts: dict[str, int]
    milliseconds: float  # that moving took


def device(granules: int, rule: str) -> SimDevice:
    shared = Oversubscription(shared=granules * GRANULE, rule=rule)
    return SimDevice(threads=1, total_memory=4 << 30, oversubscription=shared)


def arrivals(granules: int, rule: str, count: int, seed: int) -> Found:
    source = random.Random(seed)
    opened = device(granules, rule)
    low, *high = sessions = [Session(opened, kind, number) for number, kind in enumerate((LOW, *HIGH))]
    [before] = opened.report().values()
    for _ in range(count):
        low.step()
        comes = source.choices(high, (4, 1, 4, 2))[0]  # the low one has work still, and gives way
        for _ in range(source.randint(1, 3)):
            comes.step()
        comes.context.rest()
    [after] = opened.report().values()
    counts = {name: after[name] - before[name] for name in after}
    outputs = [each.output() for each in sessions]
    opened.close()
    return Found(outputs, counts, counts["saving_nanoseconds"] / 1e6)


def table(shares: list[int], count: int, seed: int) -> None:
    total = sum(EACH)
    print(f"{count} arrivals; sessions have {total} granules of 2 MiB; MiB to the host and back, over delayed")
    expected: list[int] | None = None
    for share in shares:
        granules = max(max(EACH), total * share // 100)
        found = {rule: arrivals(granules, rule, count, seed) for rule in RULES}
        for rule, each in found.items():
            expected = expected or each.outputs
            assert each.outputs == expected, f"{rule}: another output"
            least = found[DELAYED.name].counts
            out, back = each.counts["bytes_saved"], each.counts["bytes_restored"]
            base = least["bytes_saved"] + least["bytes_restored"]
            ratio = f"{(out + back) / base:7.2f} times" if base else "      -      "
            assert rule != DELAYED.name or out <= each.counts["granules"] * GRANULE
            print(
                f"  memory {granules:3} granules ({share:3} %)  {rule:9}  {each.counts['switches']:4} switches  "
                f"{each.counts['granules']:5} granules left  {out / 2**20:8.1f} out {back / 2**20:8.1f} back  {ratio}  "
                f"saving {each.milliseconds / max(1, each.counts['switches']):6.3f} ms a switch",
                flush=True,
            )


def equals(count: int) -> None:
    """Sessions of one priority, whose memory fits."""
    opened = device(sum(EACH), DELAYED.name)
    sessions = [Session(opened, kind._replace(priority=4), number) for number, kind in enumerate((LOW, *HIGH))]

    def run(session: Session) -> None:
        for _ in range(count):
            session.step()
        session.context.rest()

    threads = [threading.Thread(target=run, args=(session,)) for session in sessions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    [counts] = opened.report().values()
    opened.close()
    print(
        f"one priority, {len(sessions)} sessions at once, {count} steps each: {counts['switches']} switches, "
        f"{counts['granules']} granules left, {counts['bytes_saved']} bytes saved"
    )
    assert (counts["switches"], counts["granules"], counts["bytes_saved"]) == (0, 0, 0)


def waits(count: int) -> None:
    """How long a session waits for the end of a block of another one's launch."""
    opened = device(32, DELAYED.name)
    low, high = Session(opened, LOW, 0), Session(opened, HIGH[2], 1)
    launch = turning(low)
    turn(low, launch)
    whole = turn(low, launch)
    source, found = random.Random(1), []
    for _ in range(count):
        thread = threading.Thread(target=low.context.launch, args=(*launch, low.stream))
        thread.start()
        time.sleep(source.uniform(0.1, 0.6) * whole)
        before = high.context.report()["switching"]["waited_nanoseconds"]
        high.context.set(Rows(high.results, 4, 4, 1), 0, 4, high.stream)
        high.context.rest()
        if thread.is_alive():
            found.append((high.context.report()["switching"]["waited_nanoseconds"] - before) / 1e9)
        thread.join()
    opened.close()
    say_waits("threads", LOW.results * GRANULE // 512, whole, found)


def say_waits(kind: str, blocks: int, whole: float, found: list[float]) -> None:
    block, middle = whole / blocks, statistics.median(found)
    print(
        f"{kind}: a launch of {blocks} blocks takes {whole * 1e3:.0f} ms, {block * 1e6:.0f} us a block; a session of a higher priority waits "
        f"{middle * 1e6:.0f} us (median of {len(found)}; at most {max(found) * 1e6:.0f}): {middle / block:.1f} blocks, "
        f"1/{whole / 2 / middle:.0f} of what it would wait for the launch's end",
        flush=True,
    )


def waits_for_processes(count: int) -> None:
    """The same where both sessions are processes; neither is the listening one."""
    listener = SharedDevice(32 * GRANULE)
    low, low_process = start(listener, "launches", 0)
    assert low_process.stdout
    whole = float(low_process.stdout.readline())
    high, high_process = start(listener, "arrivals", count)
    high.prioritize(1)
    assert high_process.stdout
    found = [int(line) / 1e9 for line in high_process.stdout]
    low_process.kill()
    for member, process in ((low, low_process), (high, high_process)):
        process.wait()
        member.close()
    say_waits("processes", LOW.results * GRANULE // 512, whole, [each for each in found if each])


def start(listener: SharedDevice, what: str, count: int) -> tuple[Member, subprocess.Popen[str]]:
    """A session in a process of its own (`session`)."""
    member = listener.new_member()
    command = [sys.executable, __file__, "--session", what, str(count), *map(str, member.ends)]
    process = subprocess.Popen(command, pass_fds=member.ends, stdout=subprocess.PIPE, text=True)
    member.started()
    member.begin(lambda _: None)
    return member, process


def operations(count: int) -> None:
    """Small sets, whose time is what asking for the device takes."""
    mine = device(32, DELAYED.name)
    here = per_set(Session(mine, HIGH[2], 1), count, False)
    mine.close()
    member, process = start(SharedDevice(32 * GRANULE), "operations", count)
    output, _ = process.communicate()
    member.close()
    kept, left = map(float, output.split())
    print(
        f"{count} sets of 4 bytes, each an operation: {here * 1e6:.1f} us in the listening process; in a process of its own {kept * 1e6:.1f} us "
        f"({kept / here:.2f} times) where it keeps the device, {left * 1e6:.1f} us ({left / here:.1f} times) where it leaves it after each"
    )


def per_set(session: Session, count: int, leaves: bool) -> float:
    """Seconds. `leaves`: the device is asked back during each."""
    rows, context = Rows(session.results, 4, 4, 1), session.context
    found = []
    for _ in range(5):
        began = time.perf_counter()
        for number in range(count // 5):
            if leaves:
                manager = context._manager
                manager.enter(context._task)
                manager._recall(manager._held)
                manager.leave(context._task)
            context.set(rows, number, 4, session.stream)
        found.append((time.perf_counter() - began) / (count // 5))
    return min(found)


def session(what: str, count: int, ends: list[int]) -> None:
    """This process is the session's."""
    shared = Oversubscription(shared=32 * GRANULE)
    opened = SimDevice(threads=1, total_memory=4 << 30, oversubscription=shared, ends=tuple(ends))
    if what == "operations":
        own = Session(opened, HIGH[2], 1)
        print(per_set(own, count, False), per_set(own, count, True))
    elif what == "launches":
        low = Session(opened, LOW, 0)
        launch = turning(low)
        turn(low, launch)
        print(turn(low, launch), flush=True)
        while True:
            turn(low, launch)
    else:
        high, source = Session(opened, HIGH[2], 1), random.Random(1)
        for number in range(count):
            time.sleep(source.uniform(0.05, 0.4))
            before = high.context.report()["switching"]["waited_nanoseconds"]
            high.context.set(Rows(high.results, 4, 4, 1), number, 4, high.stream)
            high.context.rest()
            print(high.context.report()["switching"]["waited_nanoseconds"] - before)
    opened.close()


def turn(low: Session, launch: tuple[Any, LaunchShape, memoryview]) -> float:
    """A launch of many blocks; how long it takes."""
    started = time.perf_counter()
    low.context.launch(*launch, low.stream)
    return time.perf_counter() - started


def turning(low: Session) -> tuple[Any, LaunchShape, memoryview]:
    function = low.context.function(low.context.load_module(TURN), "turn")
    shape = LaunchShape((LOW.results * GRANULE // 512, 1, 1), (128, 1, 1), 0)
    return function, shape, memoryview(struct.pack("<QI", low.results, 600))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--arrivals", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--memory", type=int, nargs="+", default=[100, 75, 50, 25], help="per cent of what all have")
    parser.add_argument("--session", nargs=5, help=argparse.SUPPRESS)
    options = parser.parse_args()
    sys.setswitchinterval(0.0005)  # as a host's
    if options.session:
        session(options.session[0], int(options.session[1]), [int(each) for each in options.session[2:]])
        return
    table(options.memory, options.arrivals, options.seed)
    equals(options.arrivals)
    waits(20)
    waits_for_processes(20)
    operations(5000)
    print(
        f"for comparison, from publications: all registers and caches of an A100 are {A100 / 2**20:.1f} MiB, and "
        f"saving them at 1.5 TB/s takes {A100 / A100_BYTES_PER_SECOND * 1e6:.0f} us; nothing here was measured on a GPU"
    )


if __name__ == "__main__":
    main()
