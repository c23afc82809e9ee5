"""Random kernels for the comparison of the translator with the reference interpreter.

Every kernel reads `source` (words, at addresses that are uniform, affine or anything), computes, and writes words of its own to `result`. It is free
of races, and every thread ends. Barriers and warp-wide instructions stand where all threads of the block are: outside of branches and loops that depend on the thread.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from hypothesis import strategies as st

from jit_tools import depots

HEADER = ".version 8.5\n.target sm_90\n.address_size 64\n"
POOL = 10  # registers %r0 ... that statements read and write
SOURCE_WORDS = 1024
SLOTS = 6  # words of `result` for each thread
AFFINE = 4  # registers %x0 ... of statements that keep values affine
COUNTERS = 8
MAX_DEPTH = 3

BINARY = (
    "add.u32", "sub.s32", "mul.lo.u32", "mul.hi.u32", "mul.hi.s32", "min.s32", "min.u32", "max.s32", "max.u32", "and.b32", "or.b32", "xor.b32",
)  # fmt: skip
UNARY = ("not.b32", "neg.s32", "abs.s32", "popc.b32", "clz.b32", "brev.b32", "mov.u32")
COMPARE = ("eq.s32", "ne.s32", "lt.s32", "le.u32", "gt.u32", "ge.s32", "lt.u32", "hi.u32")


@dataclass
class Kernel:
    """The text, and the block that it is for."""

    block: tuple[int, int, int]
    lines: list[str] = field(default_factory=list)
    labels: int = 0
    predicates: int = 0
    counters: int = 0
    scratch: int = 0
    indexed: bool = False  # whether local memory is reached by indices
    local: bool = False  # whether there is any
    group: bool = (
        False  # for warps that run together: no warp-wide instructions, branches that follow from the thread's index
    )
    rows: bool = False  # loops with as many iterations as a thread has, which only read

    def __call__(self, text: str) -> None:
        self.lines.append(text)

    def label(self) -> str:
        self.labels += 1
        return f"L{self.labels}"

    def predicate(self) -> str:
        self.predicates += 1
        return f"%p{self.predicates}"

    def temporary(self) -> str:
        self.scratch += 1
        return f"%t{self.scratch}"

    def address(self) -> str:
        self.scratch += 1
        return f"%a{self.scratch}"

    @property
    def threads(self) -> int:
        x, y, z = self.block
        return x * y * z

    def text(self) -> str:
        declarations = [
            f".reg .pred %p<{self.predicates + 1}>;",
            f".reg .b32 %r<{POOL}>, %x<{AFFINE}>, %t<{self.scratch + 1}>, %c<{self.counters + 1}>, %thread, %global, %sum, %u<2>, %f<4>;",
            f".reg .b64 %a<{self.scratch + 1}>, %source, %result;",
            f".shared .align 4 .b8 tile[{4 * self.threads}];",
            f".shared .align 4 .b8 counts[{4 * COUNTERS}];",
            *(depots.declarations() if self.local else ()),
        ]
        head = ".visible .entry k(.param .u64 source, .param .u64 result, .param .u32 first, .param .u32 second)\n{"
        return "\n".join([HEADER, head, *declarations, *self.lines, "ret;\n}\n"])


@dataclass
class Drawing:
    """Statements drawn one after the other. `budget` bounds how many."""

    random: Random
    kernel: Kernel
    budget: int
    loops: int = 0  # round the statement being drawn

    def number(self, low: int, high: int) -> int:
        return self.random.randint(low, high)

    def pick(self, items: tuple[str, ...]) -> str:
        return self.random.choice(items)

    def register(self) -> str:
        return f"%r{self.number(0, POOL - 1)}"

    def operand(self) -> str:
        """A register, a small number, or any number."""
        kind = self.number(0, 5)
        if kind < 4:
            return self.register()
        return str(self.number(-4, 40) if kind == 4 else self.number(-(1 << 31), (1 << 31) - 1))

    def branching(self) -> str:
        """The condition of a branch."""
        if not self.kernel.group:
            return self.condition()
        predicate = self.kernel.predicate()
        value = self.pick(("%thread", "%global", "%r0", *(f"%x{number}" for number in range(AFFINE))))
        bound = self.pick((str(self.number(-2, 40)), str(self.number(0, 1 << 31)), "%u0", str(self.kernel.threads)))
        if self.number(0, 3) == 0:
            index = self.kernel.temporary()
            self.kernel(f"xor.b32 {index}, {value}, {self.number(0, 70)};")
            value = index
        self.kernel(f"setp.{self.pick(COMPARE)} {predicate}, {value}, {bound};")
        return predicate

    def condition(self) -> str:
        predicate = self.kernel.predicate()
        self.kernel(f"setp.{self.pick(COMPARE)} {predicate}, {self.register()}, {self.operand()};")
        return predicate

    # Statements --------------------------------------------------------------------------------------------------
    def statements(self, depth: int, convergent: bool) -> None:
        for _ in range(self.number(1, 5)):
            if self.budget <= 0:
                return
            self.budget -= 1
            self.statement(depth, convergent)

    def statement(self, depth: int, convergent: bool) -> None:
        simple = (
            self.arithmetic,
            self.affine,
            self.affine,
            self.widen,
            self.shift,
            self.choose,
            self.load,
            self.store,
            self.guarded,
            self.real,
        )
        if self.kernel.rows and self.loops:
            simple = tuple(self.load if item == self.store else item for item in simple)
        if self.kernel.local and self.number(0, 1):
            depots.statement(self)
            return
        kind = self.number(0, 16)
        if kind < len(simple):
            simple[kind]()
        elif kind < 12 and depth < MAX_DEPTH:
            self.branch(depth, convergent)
        elif kind < 14 and depth < MAX_DEPTH:
            self.loop(depth, convergent)
        elif self.kernel.rows and self.loops:
            self.row()
        elif convergent:
            # Lanes that are not there take part in nothing.
            whole = self.kernel.threads % 32 == 0 and not self.kernel.group
            (self.exchange, self.count, self.shuffle, self.vote)[
                self.number(0, 3 if whole else 0 if self.kernel.group else 1)
            ]()
        else:
            self.arithmetic()

    def arithmetic(self) -> None:
        if self.number(0, 3):
            self.kernel(f"{self.pick(BINARY)} {self.register()}, {self.register()}, {self.operand()};")
        elif self.number(0, 1):
            self.kernel(f"mad.lo.s32 {self.register()}, {self.register()}, {self.operand()}, {self.register()};")
        else:
            self.kernel(f"{self.pick(UNARY)} {self.register()}, {self.register()};")

    def affine(self) -> None:
        """Keeps to registers of its own, which stay affine in the thread as long as no branch of some lanes writes them."""
        k = self.kernel
        d, a, b = (f"%x{self.number(0, AFFINE - 1)}" for _ in range(3))
        uniform = self.pick(("%u0", "%u1", "1", "3", "-7", "0x7ffffff8", "0xfffffff0"))
        other = b if self.number(0, 1) else uniform
        text = self.pick(
            (
                f"add.u32 {d}, {a}, {other};",
                f"sub.u32 {d}, {a}, {other};",
                f"sub.s32 {d}, {uniform if uniform[0] == '%' else '%u0'}, {a};",
                f"mul.lo.u32 {d}, {a}, {self.number(-3, 5)};",
                f"mad.lo.s32 {d}, {a}, {self.number(-2, 4)}, {b};",
                f"shl.b32 {d}, {a}, {self.number(0, 5)};",
                f"neg.s32 {d}, {a};",
                f"mov.u32 {d}, {a};",
            )
        )
        k(text)
        if self.number(0, 1):
            k(f"mad.lo.u32 %sum, %sum, 31, {d};")
        elif self.number(0, 1):
            k(f"mov.u32 {self.register()}, {d};")

    def widen(self) -> None:
        """Affine values as 64 bits: lanes may wrap."""
        k = self.kernel
        wide = k.address()
        a = k.temporary()  # near where a lane wraps, mostly
        k(
            f"add.u32 {a}, {self.pick(('%x0', '%x1', '%x2', '%x3', '%thread', '%global'))}, {self.pick(('0', '0x7ffffff0', '-9'))};"
        )
        k(
            self.pick(
                (
                    f"cvt.u64.u32 {wide}, {a};",
                    f"cvt.s64.s32 {wide}, {a};",
                    f"mul.wide.u32 {wide}, {a}, {self.number(1, 9)};",
                    f"mul.wide.s32 {wide}, {a}, {self.number(-4, 4)};",
                )
            )
        )
        if self.number(0, 1):
            k(f"add.s64 {wide}, {wide}, {self.number(-5, 5)};")
        k(f"cvt.u32.u64 {self.register()}, {wide};")
        high = k.temporary()
        k(f"shr.u64 {wide}, {wide}, {self.number(28, 40)};\ncvt.u32.u64 {high}, {wide};")
        k(f"mad.lo.u32 %sum, %sum, 31, {high};")

    def shift(self) -> None:
        operation = self.pick(("shl.b32", "shr.u32", "shr.s32"))
        amount = self.register() if self.number(0, 1) else str(self.number(0, 33))
        self.kernel(f"{operation} {self.register()}, {self.register()}, {amount};")

    def choose(self) -> None:
        predicate = self.condition()
        self.kernel(f"selp.b32 {self.register()}, {self.operand()}, {self.register()}, {predicate};")

    def guarded(self) -> None:
        negated = "!" if self.number(0, 1) else ""
        predicate = self.condition()
        self.kernel(
            f"@{negated}{predicate} {self.pick(BINARY)} {self.register()}, {self.register()}, {self.operand()};"
        )

    def real(self) -> None:
        """Floats never leave a statement: what bits a NaN has is open."""
        k = self.kernel
        for number in range(3):
            k(f"cvt.rn.f32.s32 %f{number}, {self.register()};")
        k(self.pick(("fma.rn.f32 %f3, %f0, %f1, %f2;", "add.rn.f32 %f3, %f0, %f1;", "mul.rn.f32 %f3, %f0, %f2;")))
        k(f"cvt.rzi.s32.f32 {self.register()}, %f3;")

    def load(self) -> None:
        """From an address that is uniform, affine in the thread, or anything; one word or two."""
        k = self.kernel
        index, address = k.temporary(), k.address()
        kind = self.number(0, 4)
        if kind == 4:
            k(f"add.u32 {index}, {self.pick(('%thread', self.register()))}, {self.number(0, 9)};")
            k(f"and.b32 {index}, {index}, {SOURCE_WORDS // 2 - 1};")
            k(f"mul.wide.u32 {address}, {index}, 8;")
            k(f"add.u64 {address}, {address}, %source;")
            k(f"ld.global.v2.u32 {{{self.register()}, %c0}}, [{address}];")
            k(f"xor.b32 {self.register()}, %c0, {self.register()};")
            return
        if kind == 0:
            k(f"and.b32 {index}, {self.register()}, {SOURCE_WORDS - 1};")
        elif kind == 1:
            k(f"mad.lo.u32 {index}, %thread, {self.number(0, 3)}, {self.number(0, 60)};")
        elif kind == 2:
            k(f"and.b32 {index}, %u{self.number(0, 1)}, 255;")
        else:
            k(f"add.u32 {index}, %global, {self.number(0, 200)};")
        k(f"mul.wide.u32 {address}, {index}, 4;")
        k(f"add.u64 {address}, {address}, %source;")
        k(f"ld.global.u32 {self.register()}, [{address}];")

    def row(self) -> None:
        """Some words beside each other, at an address that loops go on from."""
        k = self.kernel
        place, words = k.address(), self.number(1, 5)
        k(f"and.b32 %t0, {self.register()}, {SOURCE_WORDS - 8};\nmul.wide.u32 {place}, %t0, 4;")
        k(f"add.u64 {place}, {place}, %source;")
        for number in self.random.sample(range(words), words):
            k(f"ld.global.u32 %t0, [{place}+{4 * number}];\nmad.lo.u32 %sum, %sum, 31, %t0;")

    def walk(self, trips: str) -> None:
        """A thread's own run of words, one after the other, and what they point at."""
        k = self.kernel
        k.counters += 1
        counter, place, other, again, done = f"%c{k.counters}", k.address(), k.address(), k.label(), k.label()
        k(f"and.b32 {counter}, {self.register()}, {SOURCE_WORDS // 2 - 1};\nmul.wide.u32 {place}, {counter}, 4;")
        k(f"add.u64 {place}, {place}, %source;\nmov.u32 {counter}, {trips};")
        head = k.predicate()
        k(f"setp.eq.u32 {head}, {counter}, 0;\n@{head} bra {done};\n{again}:")
        k(f"ld.global.u32 %t0, [{place}];\nand.b32 %t0, %t0, {SOURCE_WORDS - 1};\nmul.wide.u32 {other}, %t0, 4;")
        k(f"add.u64 {other}, %source, {other};\nld.global.u32 %t0, [{other}];\nmad.lo.u32 %sum, %sum, 31, %t0;")
        k(f"add.u32 {counter}, {counter}, -1;\nadd.s64 {place}, {place}, {4 * self.number(1, 3)};")
        k(f"setp.ne.u32 {head}, {counter}, 0;\n@{head} bra {again};\n{done}:")

    def store(self) -> None:
        """To a word of the thread's own, next to its others or next to its neighbours'."""
        k = self.kernel
        index, address = k.temporary(), k.address()
        slot = self.number(0, SLOTS // 2 - 1)
        if self.number(0, 1):
            k(f"mad.lo.u32 {index}, %global, {SLOTS}, {slot};")
        else:
            k(f"mad.lo.u32 {index}, %global, {SLOTS}, {SLOTS // 2};")
            k(f"add.u32 {index}, {index}, {slot};")
        k(f"mul.wide.u32 {address}, {index}, 4;")
        k(f"add.u64 {address}, {address}, %result;")
        k(f"st.global.u32 [{address}], {self.register()};")

    def branch(self, depth: int, convergent: bool) -> None:
        k = self.kernel
        uniform = self.number(0, 2) == 0 or bool(k.group and self.loops)
        if uniform:
            predicate = k.predicate()
            k(f"setp.{self.pick(COMPARE)} {predicate}, %u{self.number(0, 1)}, {self.number(0, 8)};")
        else:
            predicate = self.branching()
        otherwise, end = k.label(), k.label()
        k(f"@!{predicate} bra {otherwise};")
        self.statements(depth + 1, convergent and uniform)
        if self.number(0, 1):
            k(f"bra {end};")
            k(f"{otherwise}:")
            self.statements(depth + 1, convergent and uniform)
        else:
            k(f"{otherwise}:")
        k(f"{end}:")

    def loop(self, depth: int, convergent: bool) -> None:
        k = self.kernel
        k.counters += 1
        counter, trips, again, done = f"%c{k.counters}", k.temporary(), k.label(), k.label()
        kind = 2 if k.rows and self.number(0, 2) else self.number(0, 1 if k.group else 2)
        inside = convergent and kind < 2
        self.loops += 1
        k(
            (
                f"mov.u32 {trips}, {self.number(1, 3)};",
                f"and.b32 {trips}, %u{self.number(0, 1)}, 3;",
                f"and.b32 {trips}, {self.register()}, 3;",
            )[kind]
        )
        if k.rows and self.number(0, 1):
            self.loops -= 1
            self.walk(trips)
            return
        k(f"mov.u32 {counter}, 0;")
        k(f"{again}:")
        head = k.predicate()
        k(f"setp.ge.u32 {head}, {counter}, {trips};")
        k(f"@{head} bra {done};")
        leaves = k.group and self.loops == 1 and self.number(0, 1) == 0
        self.statements(depth + 1, inside and not leaves)
        if not k.group and not inside and self.number(0, 2) == 0:
            k(f"@{self.condition()} bra {done};")
        if self.number(0, 1):
            k(f"add.u32 {self.register()}, {counter}, {self.register()};")
        k(f"add.u32 {counter}, {counter}, 1;")
        if leaves:
            on, both = self.branching(), k.predicate()
            k(f"setp.lt.u32 {both}, {counter}, {trips};\nand.pred {both}, {both}, {on};\n@!{both} bra {done};")
        k(f"bra {again};")
        k(f"{done}:")
        self.loops -= 1

    # All threads of the block ---------------------------------------------------------------------------------------
    def exchange(self) -> None:
        """Through shared memory, with barriers round it."""
        k = self.kernel
        place, index = k.temporary(), k.temporary()
        k("bar.sync 0;")
        k(f"mov.u32 {place}, tile;")
        k(f"mad.lo.u32 {place}, %thread, 4, {place};")
        k(f"st.shared.u32 [{place}], {self.register()};")
        k("bar.sync 0;")
        source = f"{self.register()}" if self.number(0, 1) else "%thread"
        k(f"add.u32 {index}, {source}, {self.number(0, 40)};")
        k(f"rem.u32 {index}, {index}, {k.threads};")
        other = k.temporary()
        k(f"mov.u32 {other}, tile;")
        k(f"mad.lo.u32 {other}, {index}, 4, {other};")
        k(f"ld.shared.u32 {self.register()}, [{other}];")

    def count(self) -> None:
        """Atomic operations on shared counters: their order does not matter."""
        k = self.kernel
        place, index = k.temporary(), k.temporary()
        operation = self.pick(("add.u32", "max.s32", "min.u32", "xor.b32"))
        k("bar.sync 0;")
        k(f"and.b32 {index}, {self.register()}, {COUNTERS - 1};")
        k(f"mov.u32 {place}, counts;")
        k(f"mad.lo.u32 {place}, {index}, 4, {place};")
        k(f"red.shared.{operation} [{place}], {self.register()};")
        k("bar.sync 0;")
        k(f"ld.shared.u32 {self.register()}, [{place}];")

    def shuffle(self) -> None:
        k = self.kernel
        mode = self.pick(("up", "down", "bfly", "idx"))
        amount = self.register() if self.number(0, 1) else str(self.number(0, 31))
        limit = {"up": 0}.get(mode, 31) | self.random.choice((0, 0, 16, 24, 28)) << 8
        predicate = k.predicate()
        k(f"shfl.sync.{mode}.b32 {self.register()}|{predicate}, {self.register()}, {amount}, {limit}, -1;")
        k(f"@{predicate} add.u32 {self.register()}, {self.register()}, 1;")

    def vote(self) -> None:
        k = self.kernel
        predicate = self.condition()
        if self.number(0, 1):
            k(f"vote.sync.ballot.b32 {self.register()}, {predicate}, -1;")
            return
        result = k.predicate()
        k(f"vote.sync.{self.pick(('all', 'any', 'uni'))}.pred {result}, {predicate}, -1;")
        k(f"selp.u32 {self.register()}, 1, {self.register()}, {result};")


BLOCKS = ((32, 1, 1), (64, 1, 1), (16, 4, 1), (8, 2, 2), (40, 1, 1), (9, 5, 1))
GROUPS = ((64, 1, 1), (128, 1, 1), (16, 4, 1), (8, 8, 2), (32, 2, 1), (64, 2, 1))


def kernels(
    budget: int = 30, local: bool = False, group: bool = False, rows: bool = False
) -> st.SearchStrategy[Kernel]:
    """Kernels with at least so many statements. Every choice is as likely as it looks: hypothesis's own are mostly simple ones."""
    return st.randoms(use_true_random=True).map(lambda random: kernel(random, budget, local, group, rows))


def kernel(random: Random, budget: int, local: bool = False, group: bool = False, rows: bool = False) -> Kernel:
    """A kernel, beginning with registers that are uniform, affine and varying.

    Args:
        local: whether every other statement accesses local variables.
        group, rows: Kernel.group, Kernel.rows.
    """
    blocks = GROUPS if group else BLOCKS
    k = Kernel(random.choice(blocks), local=local, indexed=local and random.random() < 0.25, group=group, rows=rows)
    lane = "%thread" if group else "%laneid"
    x, y, _ = k.block
    k("ld.param.u64 %source, [source];\nld.param.u64 %result, [result];")
    k("ld.param.u32 %u0, [first];\nld.param.u32 %u1, [second];")
    k(f"mov.u32 %t0, %tid.z;\nmov.u32 %r6, %tid.y;\nmad.lo.u32 %t0, %t0, {y}, %r6;")
    k(f"mov.u32 %r0, %tid.x;\nmad.lo.u32 %thread, %t0, {x}, %r0;")
    k(f"mov.u32 %r4, %ctaid.x;\nmad.lo.u32 %global, %r4, {k.threads}, %thread;")
    k(f"mov.u32 %sum, 0;\nmov.u32 %x0, %r0;\nmov.u32 %x1, %global;\nmov.u32 %x2, {lane};\nmov.u32 %x3, %thread;")
    k(f"mov.u32 %r1, %global;\nmov.u32 %r2, %u0;\nmov.u32 %r5, {lane};\nmov.u32 %r7, %u1;\nmov.u32 %r8, 7;")
    k(
        "mul.wide.u32 %a0, %global, 4;\nadd.u64 %a0, %a0, %source;\nld.global.u32 %r3, [%a0];\nld.global.u32 %r9, [%source];"
    )
    k(
        "mov.u32 %t0, counts;\nand.b32 %c0, %thread, 7;\nmad.lo.u32 %t0, %c0, 4, %t0;\nst.shared.u32 [%t0], 0;\nbar.sync 0;"
    )
    if local:
        depots.begin(k)
    drawing = Drawing(random, k, budget)
    while drawing.budget > 0:
        drawing.statements(0, True)
    k(f"mad.lo.u32 %t0, %global, {SLOTS}, 0;\nmul.wide.u32 %a0, %t0, 4;\nadd.u64 %a0, %a0, %result;")
    for number in range(SLOTS - 1):
        k(f"st.global.u32 [%a0+{4 * number}], %r{number};")
    for number in range(SLOTS - 1, POOL):
        k(f"mad.lo.u32 %sum, %sum, 31, %r{number};")
    k(f"st.global.u32 [%a0+{4 * (SLOTS - 1)}], %sum;")
    return k
