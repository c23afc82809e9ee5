"""Random kernels with wild addresses: whatever a kernel loads, stores or changes, it stays inside its own memory, or faults.

A kernel is a few accesses of any space, form and size; their addresses come from its parameters and from a table with a value for each
thread, which `addresses` draws near the edges of everything: allocations, windows, powers of two. Memory that is not the kernel's lies all
around what is: in the device's window, beside the arenas of a worker, behind the parameters. It is filled with a mark that is looked at after each launch,
and that no kernel may have read. An access to what is not even mapped ends the process: the seed is printed before it.

Nearly all of the time is compilation. Its fixed part is most of a small kernel's, so kernels are compiled in groups: one entry, whose
parameter selects the kernel. A launch runs one of them and is looked at by itself; where the translator refuses a group, its halves are compiled.

Many: PYTHONPATH=tests/unit/jit python -m jit_tools.wild 100000 [FIRST_SEED] [--progress FILE]
With a file, the command goes on where it was stopped. To see one group again: `wild 16 ITS_FIRST_SEED`, one kernel alone: `wild 1 SEED`.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import mmap
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import ClassVar, TypeVar

import numpy as np
from farlane.backend import jit
from farlane.backend.jit.ptx.declarations import PtxError
from farlane.backend.jit.runtime import arenas
from farlane.backend.jit.runtime.structures import GENERIC_WINDOWS, GENERIC_WINDOWS_END

from jit_tools.device import TinyDevice

MARK = 0xC5A7
HEADER = ".version 8.5\n.target sm_90\n.address_size 64\n"
POINTERS, WORDS = 4, 3  # parameters that are addresses, and 32-bit ones
SMALL = POINTERS - 1  # the parameter that is an offset, if it is not wild
THREADS, LAUNCHES = 48, 6
SHARED, LOCAL, CONSTANT = 1024, 240, 240
STATEMENTS = (1, 1, 1, 1, 2, 2, 3, 5)  # of a kernel, each as likely
GROUP = 16  # kernels that are compiled together
TIER_2 = 8  # one group in so many
GUARD = 64 << 10  # bytes on each side of an arena
REFUSED = -1  # in the place of a status: the translator has seen an access that is wrong

T = TypeVar("T")
_SIZES = {"u8": 1, "s16": 2, "u32": 4, "u64": 8, "f32": 4, "f64": 8}
_ATOMICS = ("add.u32", "max.s32", "exch.b32", "add.u64", "add.f32")


class _Statements:
    """The body of one kernel."""

    def __init__(self, random: Random, number: int) -> None:
        self._random = random
        self.lines: list[str] = []
        self._number, self._labels = number, 0
        self._tame = random.random() < 0.7  # only its parameters are wild
        self._depth = 0

    def _line(self, text: str) -> None:
        self.lines.append(text)

    def _wild(self, tame: Sequence[T], wild: Sequence[T]) -> T:
        return self._random.choice(tame if self._tame or self._random.random() < 0.5 else wild)

    def statement(self) -> None:
        kind = self._random.choices(("access", "if", "loop"), (8, 2 - self._depth, 2 - self._depth))[0]
        if kind == "access":
            self._access()
            return
        self._labels += 1
        label, self._depth = f"L{self._number}_{self._labels}", self._depth + 1
        if kind == "if":
            self._line(f"setp.lt.u32 %p1, %r0, {self._random.randrange(THREADS + 8)}; @%p1 bra {label};")
            self.statement()
            self._line(f"{label}:")
        else:
            counter, step = f"%c{self._depth}", self._wild((16,), (1, 4, 8, 4096, 1 << 20, -4, -64))
            pointer = f"%rd{self._random.randrange(POINTERS)}"
            self._line(f"mov.u32 {counter}, 0;\n{label}:")
            self.statement()
            self._line(f"add.s64 {pointer}, {pointer}, {step}; add.u32 {counter}, {counter}, 1;")
            self._line(f"setp.lt.u32 %p2, {counter}, {self._random.choice((1, 3, 9))}; @%p2 bra {label};")
        self._depth -= 1

    def _access(self) -> None:
        random = self._random
        space = random.choices(("global", "shared", "local", "", "const", "param"), (6, 4, 4, 6, 1, 1))[0]
        address = self._address(space)
        name = f".{space}" if space else ""
        guard = random.choice(("", "", "", "@%p0 "))
        kinds = {"const": ("load",), "param": ("load",), "local": ("load", "store", "wide")}
        kind = random.choice(kinds.get(space, ("load", "store", "atomic", "wide", "reduce")))
        volatile = random.choice(("", "", ".volatile")) if space in ("global", "shared", "") else ""
        if kind == "atomic":
            operation = random.choice(_ATOMICS)
            register, value = self._registers(operation)
            self._line(f"{guard}atom{name}.{operation} {register}, [{address}], {value};")
            self._kept(register, guard)
        elif kind == "reduce":
            self._line(f"{guard}red{name}.add.u32 [{address}], %r0;")
        elif kind == "wide":
            four = ", ".join(f"%w{index}" for index in range(4))
            if random.random() < 0.5:
                self._line(f"{guard}ld{name}.v4.u32 {{{four}}}, [{address}];")
                self._kept("%w3", guard)
            else:
                self._line(f"{guard}st{name}.v4.u32 [{address}], {{{four}}};")
        else:
            kind_of = random.choice(tuple(_SIZES))
            register, _ = self._registers(kind_of)
            if kind == "store":
                self._line(f"{guard}st{volatile}{name}.{kind_of} [{address}], {register};")
            else:
                self._line(f"{guard}ld{volatile}{name}.{kind_of} {register}, [{address}];")
                self._kept(register, guard)

    @staticmethod
    def _registers(kind: str) -> tuple[str, str]:
        """A result and an operand of a type."""
        if "64" in kind:
            return ("%d0", "%d1") if "f" in kind else ("%q0", "%q1")
        return ("%f0", "%f1") if "f" in kind else ("%w0", "%w1")

    def _kept(self, register: str, guard: str) -> None:
        """What has been loaded goes to the kernel's results."""
        kind = {"d": "f64", "q": "u64", "f": "f32", "w": "u32"}[register[1]]
        self._line(f"{guard}st.global.{kind} [%out+{8 * self._random.randrange(4)}], {register};")

    def _address(self, space: str) -> str:
        random = self._random
        offset = self._wild(("", "+16"), ("", "+4", "-4", "+1", "+4092", "+2147483647", "-2147483648"))
        if space in ("shared", "local", "const") and random.random() < 0.3:
            return {"shared": "s", "local": "l", "const": "c"}[space] + self._wild(
                ("", "+16"), ("+4", "+60", "+4096", "+1073741824")
            )
        if space == "param":
            return "p0" + random.choice(("", "+4", "+8"))
        if space in ("shared", "local") and random.random() < 0.5:
            return f"%x{random.randrange(WORDS)}{offset}"
        form = random.choice(("pointer", "row", "table", "symbol" if space in ("", "const") else "row"))
        small = space in ("shared", "local", "const") or (form == "symbol")
        number = SMALL if small else random.randrange(POINTERS - 1)
        pointer = f"%rd{number if random.random() < 0.9 else random.randrange(POINTERS)}"
        if form == "pointer":
            return pointer + offset
        if form == "table":
            return f"%t{int(small)}{offset}"
        if form == "row":
            tame = (0,) if space in ("local", "const") else (16, 0)
            stride = self._wild(tame, (1, 2, 4, 8, 4096, -4, -8, 1 << 20))
            self._line(f"mul.wide.s32 %a0, %r0, {stride}; add.s64 %a0, %a0, {pointer};")
            return "%a0" + offset
        if space == "const":
            self._line(f"mov.u64 %a1, c; add.s64 %a1, %a1, {pointer};")
        else:
            array, named = random.choice((("s", "shared"), ("l", "local"), ("c", "const")))
            self._line(
                f"mov.u64 %a1, {array}; cvta.{named}.u64 %a1, %a1; add.s64 %a1, %a1, {random.choice((pointer, '%t1', '16', '%x0w'))};"
            )
        return "%a1" + offset


def _body(random: Random, number: int) -> str:
    """A kernel's statements, which run where the parameter `which` is its number."""
    body = _Statements(random, number)
    for _ in range(random.choice(STATEMENTS)):
        body.statement()
    lines = "\n".join(body.lines)
    return f"setp.ne.u32 %p1, %which, {number}; @%p1 bra next{number};\n{lines}\nret;\nnext{number}:"


def kernels(randoms: Sequence[Random]) -> str:
    """The module with a kernel from each of them."""
    bodies = "\n".join(_body(random, number) for number, random in enumerate(randoms))
    pointers = ", ".join(f".param .u64 p{index}" for index in range(POINTERS))
    words = ", ".join(f".param .u32 x{index}" for index in range(WORDS))
    loads = "".join(f"ld.param.u64 %rd{index}, [p{index}]; " for index in range(POINTERS))
    loads += "".join(f"ld.param.u32 %x{index}, [x{index}]; " for index in range(WORDS))
    return f"""{HEADER}
.const .align 16 .b8 c[{CONSTANT}] = {{1, 2, 3, 4}};
.visible .entry k({pointers}, {words}, .param .u64 table, .param .u64 out, .param .u32 which)
{{
.reg .pred %p<3>; .reg .b32 %r<2>; .reg .b32 %x<{WORDS}>; .reg .b32 %c<4>; .reg .b32 %w<4>; .reg .b64 %rd<{POINTERS}>;
.reg .b64 %a<2>; .reg .b64 %t<2>; .reg .b64 %q<2>; .reg .f32 %f<2>; .reg .f64 %d<2>; .reg .b64 %out; .reg .b64 %x0w; .reg .b32 %which;
.shared .align 16 .b8 s[{SHARED}]; .local .align 16 .b8 l[{LOCAL}];
mov.u32 %r0, %tid.x; ld.param.u32 %which, [which]; {loads}
cvt.s64.s32 %x0w, %x0;
ld.param.u64 %a0, [table]; mul.wide.u32 %a1, %r0, 16; add.s64 %a0, %a0, %a1; ld.global.u64 %t0, [%a0]; ld.global.u64 %t1, [%a0+8];
ld.param.u64 %out, [out]; mul.wide.u32 %a1, %r0, 32; add.s64 %out, %out, %a1;
mov.u32 %w0, 1; mov.u32 %w1, 2; mov.u32 %w2, 3; mov.u32 %w3, 4; mov.u64 %q0, 5; mov.u64 %q1, 6;
mov.f32 %f0, 0f3F800000; mov.f32 %f1, 0f40000000; mov.f64 %d0, 0d3FF0000000000000; mov.f64 %d1, 0d4000000000000000;
and.b32 %r1, %r0, 1; setp.eq.u32 %p0, %r1, 0; mov.u64 %a0, 0; mov.u64 %a1, 0;
{bodies}
ret;
}}
"""


class _Guarded(arenas._Arena):
    """An arena between two guards, in one mapping."""

    every: ClassVar[list[_Guarded]] = []

    def reserve(self, size: int) -> bool:
        if size <= self.size:
            return False
        self.size = (size + arenas.PAGE - 1) & -arenas.PAGE
        self._map = mmap.mmap(-1, self.size + 2 * GUARD)
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self._map)) + GUARD
        whole = np.frombuffer(self._map, np.uint16)
        self._guards = whole[: GUARD // 2], whole[-GUARD // 2 :]
        for guard in self._guards:
            guard[:] = MARK
        if self not in self.every:
            self.every.append(self)
        return True

    def is_whole(self) -> bool:
        return all(bool((guard == MARK).all()) for guard in self._guards)


class WildDevice:
    """A device for a group of kernels: allocations of their own, and their results, in memory that is not theirs."""

    def __init__(self, text: str) -> None:
        _Guarded.every.clear()
        kept, arenas._Arena = arenas._Arena, _Guarded  # type: ignore[misc]
        try:
            self.device = TinyDevice()
        finally:
            arenas._Arena = kept  # type: ignore[misc]
        device = self.device
        self.own = [device.allocate(4096), device.allocate(3 * 4096), device.allocate(4096, jit.PAGE_READABLE)]
        self.table, self.out = device.allocate(16 * THREADS), device.allocate(32 * THREADS)
        self.module = device.load(text)
        extent = device.top + 16 * 4096
        self._bytes = np.frombuffer((ctypes.c_char * extent).from_address(device.base), np.uint16)
        # A whole page is a kernel's or it is not; one that it may only read is not changed, but not secret either.
        pages = device.flags[: extent >> 12]
        self._bytes[np.repeat(pages == 0, 2048)] = MARK
        self._others = np.repeat(pages & jit.PAGE_WRITABLE == 0, 2048)
        self._before = self._bytes[self._others].copy()

    def addresses(self, random: Random) -> Iterator[int]:
        """Wild ones."""
        device = self.device
        ends = [device.base, device.base + (64 << 20), GENERIC_WINDOWS_END, 0, 1 << 32, 1 << 47, 1 << 63, 1 << 64]
        ends += [GENERIC_WINDOWS + (index << 32) for index in range(6)]
        ends += [address + size for address in self.own for size in (0, 4096)]
        ends += [
            device.workers[0].state.shared or 0,
            device.workers[0].state.local or 0,
            ctypes.addressof(device.fault),
        ]
        while True:
            kind = random.random()
            if kind < 0.5:
                value = random.choice(ends) + random.choice((0, -1, 1, 4, -4, -16, 64, 1024, -4096, 4096, 1 << 31))
            elif kind < 0.8:
                value = (
                    GENERIC_WINDOWS
                    + (random.randrange(6) << 32)
                    + random.choice((0, 16, 64, 239, 240, 1020, 1024, 4096, 1 << 24, -8))
                )
            elif kind < 0.95:
                value = random.choice(
                    (0, 4, 16, 236, 239, 240, 1008, 1020, 1024, 4096, 0xFFFF_FFFF, 0x8000_0000, 1 << 24)
                )
            else:
                value = random.getrandbits(64)
            yield value & (1 << 64) - 1

    def drawn(self, random: Random, wildness: float, *, small: bool) -> Iterator[int]:
        """Addresses (or offsets) that are right, but for some."""
        wild = self.addresses(random)
        while True:
            if random.random() < wildness:
                yield next(wild)
            else:
                yield 16 * random.randrange(3) if small else random.choice(self.own[:2]) + 16 * random.randrange(180)

    def launch(self, random: Random, options: jit.Options, which: int = 0) -> int:
        """One of the kernels, with addresses of its own. Raises AssertionError: it has reached what is not the kernel's."""
        wildness = random.choice((0.0, 0.001, 0.01, 0.1, 0.5))
        right, small = (self.drawn(random, wildness, small=small) for small in (False, True))
        table = np.array([next(each) for _ in range(THREADS) for each in (right, small)], np.uint64)
        if random.random() < 0.5:
            table[:] = np.tile(table[:2], THREADS)
        ctypes.memmove(self.table, table.ctypes.data, table.nbytes)
        words = [next(small) & 0xFFFF_FFFF for _ in range(WORDS)]
        arguments = [*(next(right) for _ in range(SMALL)), next(small), *words, self.table, self.out, which]
        status = self.device.launch(self.module, "k", random.choice((1, 3)), THREADS, arguments, options=options)
        assert (self._bytes[self._others] == self._before).all(), "memory of others in the window was changed"
        assert all(arena.is_whole() for arena in _Guarded.every), "memory beside an arena was changed"
        results = np.frombuffer(ctypes.string_at(self.out, 32 * THREADS), np.uint16)
        assert MARK not in results, "memory of others was read"
        return status


def run(seeds: Sequence[int]) -> Counter[int]:
    """A kernel for each seed, launched with several sets of addresses: how many launches ended with which status. Raises AssertionError."""
    randoms = [Random(seed) for seed in seeds]
    device = WildDevice(kernels(randoms))
    options = jit.Options(cache=False, tier=2 if Random(seeds[0]).randrange(TIER_2) == 0 else 1)
    statuses = Counter[int]()
    try:
        for which, random in enumerate(randoms):
            for _ in range(LAUNCHES):
                try:
                    statuses[device.launch(random, options, which)] += 1
                except AssertionError as error:
                    error.add_note(f"kernel {seeds[which]}, compiled together with {seeds[0]} to {seeds[-1]}")
                    raise
    except PtxError:  # before the first launch
        if len(seeds) == 1:
            return Counter([REFUSED])
        half = len(seeds) // 2
        return run(seeds[:half]) + run(seeds[half:])
    return statuses


class Progress:
    """Of a command over many seeds: how many are done, and how many launches ended with which status."""

    def __init__(self, count: int, first: int, file: Path | None) -> None:
        self._task, self._file = [count, first], file
        self.done, self.statuses = 0, Counter[int]()
        if file is not None and file.exists():
            kept = json.loads(file.read_text())
            if kept["task"] != self._task:
                raise SystemExit(
                    f"{file} is of {kept['task'][0]} kernels from seed {kept['task'][1]}: name another file"
                )
            self.done = kept["done"]
            self.statuses.update({int(status): number for status, number in kept["statuses"].items()})

    def add(self, kernels: int, statuses: Counter[int]) -> None:
        self.done += kernels
        self.statuses += statuses
        if self._file is not None:
            new = self._file.with_suffix(".new")
            new.write_text(json.dumps({"task": self._task, "done": self.done, "statuses": self.statuses}))
            new.replace(self._file)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("count", type=int)
    parser.add_argument("first", type=int, nargs="?", default=0)
    parser.add_argument(
        "--progress", type=Path, metavar="FILE", help="says how far the command is, and where it goes on"
    )
    arguments = parser.parse_args()
    progress = Progress(arguments.count, arguments.first, arguments.progress)
    while progress.done < arguments.count:
        first = arguments.first + progress.done
        seeds = range(first, min(first + GROUP, arguments.first + arguments.count))
        print(f"\rseeds {seeds[0]} to {seeds[-1]}", end="", flush=True)
        try:
            statuses = run(seeds)
        except Exception:
            print()
            raise
        progress.add(len(seeds), statuses)
    ended = {jit.STATUS_DONE: "done", jit.STATUS_FAULT: "faults", REFUSED: "refused"}
    counts = ", ".join(f"{number} {ended[status]}" for status, number in sorted(progress.statuses.items()))
    print(f"\r{progress.done} kernels: {counts}")


if __name__ == "__main__":
    main()
