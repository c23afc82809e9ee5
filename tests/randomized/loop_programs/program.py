"""A whole random program: declarations, helpers, loops by theme, and what it prints at the end.

A program is a function `program_SEED` of a translation unit, whose main runs those whose numbers it is given. Its theme, dealt out in
turn, favours kinds of statements and loops, so that a few hundred seeds cover each of them many times.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from loop_programs.loops import LOOPS, block, loop
from loop_programs.scope import Group, Scope, Text
from loop_programs.shared import captured

HEADERS = [Path(__file__).with_name(name) for name in ("support.cuh", "emulated.h")]


@dataclass(frozen=True)
class Theme:
    """What a program is about: favoured statements, a first loop of a given kind, and its length."""

    name: str
    weights: dict[str, float] = field(default_factory=dict)
    kind: str | None = None
    count: int | None = None
    streams: int = 0
    helpers: int = 0
    threads: int = 1
    shared: bool = False  # whether the program has what shared.py needs


QUIET = dict.fromkeys(
    ["read_value", "read_array", "read_counted", "read_asynchronously", "synchronize", "mistakes"], 0.05
)
READS = ["read_value", "read_array", "read_element", "read_counted", "read_asynchronously", "read_rectangle"]

THEMES = (
    Theme("repeated", QUIET | {"launch": 12, "loop": 0.5}, "counted", 150),
    Theme("nested", QUIET | {"loop": 6}, "counted", 12),
    Theme("triangular", QUIET | {"loop": 4}, "counted", 14),
    Theme("unread", QUIET | {"read_unused": 5, "read_element": 2}, "counted", 60),
    Theme("elements", QUIET | {"read_element": 5}, "counted", 80),
    Theme("read", dict.fromkeys(READS, 2.0), "counted", 40),
    Theme("converging", {"read_value": 2}, "converging", 60),
    Theme("ping-pong", QUIET | {"swap": 4, "rotate": 2, "launch": 8}, "counted", 90),
    Theme("geometric", QUIET, "geometric", 12),
    Theme("allocating", {"temporary_memory": 5}, "counted", 25),
    Theme("synchronizing", {"synchronize": 6}, "counted", 60),
    Theme("sending", QUIET | {"to_device_array": 4, "to_device_row": 3, "to_device_scalar": 4}, "counted", 50),
    Theme("streams", {"across_streams": 3, "temporary_event": 2, "temporary_stream": 1}, None, None, streams=2),
    Theme("helpers", {"help_out": 4}, None, None, helpers=3),
    Theme("mistakes", {"mistakes": 3}, "counted", 20),
    Theme("host values", {"draw": 3, "compute": 3, "change_table": 2, "use_array": 2, "condition": 3}, "counted", 60),
    Theme("leaving", {"condition": 5, "loop": 3}, "do_while", 30),
    Theme("lambdas", QUIET | {"help_out": 1}, "called", 50, helpers=1),
    Theme("managed", QUIET | {"managed": 6}, "counted", 40, shared=True),
    Theme("mapped", QUIET | {"mapped": 6}, "counted", 40, shared=True),
    Theme("host functions", QUIET | {"host_function": 5}, "counted", 50, streams=2, shared=True),
    Theme("graphs", QUIET | {"graph": 5}, "counted", 40, shared=True),
    Theme("all shared", {"managed": 2, "mapped": 2, "host_function": 2, "graph": 2}, None, None, shared=True),
    Theme("mixed", {}, None, None, streams=2, helpers=2),
    Theme("threads", {}, "counted", 20, streams=1, helpers=1, threads=2),
)


def _helper(text: Text, rng: random.Random, theme: Theme, name: str, n: int, helpers: tuple[str, ...]) -> None:
    """A function with CUDA calls of its own, sometimes with a loop or a call of another one."""
    scope = Scope(
        random=rng,
        text=Text(names=text.names),
        prefix=name,
        n=n,
        groups=(Group("0", ("p", "q")),),
        arrays=("own",),
        values=("value",),
        constants=("a", "b"),
        helpers=helpers,
        budget=8,
        threaded=theme.threads > 1,
    )
    inline = rng.choice(["static APART", "static APART", "static", "static inline"])
    scope.depth = 0
    with scope.braces(f"{inline} void {name}(Out &out, u32 *p, u32 *q, u32 a, u32 b)") as inner:
        inner.write(f"u32 own[{n}], value = a ^ {rng.randrange(1000)}u;")
        inner.write(f"for (u32 k = 0; k < {n}u; ++k) own[k] = k * b + 1u;")
        block(inner, theme.weights, 3)
        inner.write('if (b == 4294967295u) out.line("%08x %08x\\n", value, own[0]);')
    text.names = scope.text.names
    text.functions += scope.text.lines


def _body(text: Text, rng: random.Random, theme: Theme, name: str, helpers: tuple[str, ...], n: int) -> None:
    """The function of a program, or of one of its threads."""
    streams = [f"stream_{k}" for k in range(theme.streams)]
    groups = tuple(Group(s, (f"b{3 * k}", f"b{3 * k + 1}", f"b{3 * k + 2}")) for k, s in enumerate(streams or ["0"]))
    buffers = [buffer for group in groups for buffer in group.buffers]
    arrays, values, tables = ("h0", "h1"), ("v0", "v1", "v2"), ("table_0", "table_1")
    pinned = ("pinned",) if rng.random() < 0.5 else ()
    posted = tuple((f"posted_{k}", f"folded_{k}") for k in range(len(groups))) if theme.shared else ()
    scope = Scope(
        random=rng,
        text=text,
        prefix=name,
        n=n,
        groups=groups,
        arrays=arrays,
        values=values,
        tables=tables,
        pinned=pinned,
        managed=("managed_0", "managed_1") if theme.shared else (),
        mapped=("mapped", "mapped_there") if theme.shared else (),
        posted=posted,
        kept_graphs=("kept_0", "kept_1") if theme.shared and not streams else (),
        helpers=helpers,
        budget=rng.choice([500, 900, 1800]),
        depth=0,
        threaded=theme.threads > 1,
    )
    blocks = (n + 63) // 64
    with scope.braces(f"static void {name}(Out &out)") as inner:
        for array in arrays:
            inner.write(f"u32 {array}[{n}];")
            inner.write(f"for (u32 k = 0; k < {n}u; ++k) {array}[k] = k * {rng.randrange(2**32)}u;")
        for value in values:
            inner.write(f"u32 {value} = opaque({rng.randrange(2**32)}u);")
        for table in tables:
            inner.write(
                f"u32 {table}[{Scope.TABLE}] = {{{', '.join(f'{rng.randrange(300)}u' for _ in range(Scope.TABLE))}}};"
            )
        for buffer in buffers:
            inner.write(f"u32 *{buffer};")
            inner.call(f"CHECK(cudaMalloc(&{buffer}, {4 * n}));")
            inner.call(f"LAUNCH(fill, {blocks}u, 64, 0, 0, {buffer}, {n}u, {rng.randrange(1000)}u);")
        for page_locked in pinned:
            inner.write(f"u32 *{page_locked};")
            inner.call(f"CHECK(cudaMallocHost(&{page_locked}, {4 * n}));")
            inner.write(f"std::memset({page_locked}, 0, {4 * n});")
        for stream in streams:
            inner.write(f"cudaStream_t {stream};")
            inner.call(f"CHECK(cudaStreamCreate(&{stream}));")
        if theme.shared:
            _share(inner, rng)
        inner.call("CHECK(cudaDeviceSynchronize());")
        loop(inner, theme.weights, theme.kind or rng.choice(list(LOOPS)), theme.count)
        for _ in range(rng.randrange(4)):
            if inner.chance(0.6):
                loop(inner, theme.weights)
            else:
                block(inner, theme.weights, 3)
        _end(inner, buffers, streams)


def _share(scope: Scope, rng: random.Random) -> None:
    """Declares what shared.py needs."""
    size = 4 * scope.n
    for managed in scope.managed:
        scope.write(f"u32 *{managed};")
        scope.call(f"CHECK(cudaMallocManaged(&{managed}, {size}));")
        scope.write(f"for (u32 k = 0; k < {scope.n}u; ++k) {managed}[k] = k * {rng.randrange(1000)}u;")
    host, device = scope.mapped
    scope.write(f"u32 *{host}, *{device};")
    scope.call(f"CHECK(cudaHostAlloc(&{host}, {size}, cudaHostAllocMapped));")
    scope.write(f"for (u32 k = 0; k < {scope.n}u; ++k) {host}[k] = k ^ {rng.randrange(1000)}u;")
    scope.call(f"CHECK(cudaHostGetDevicePointer(&{device}, {host}, 0));")
    for posted, folded in scope.posted:
        scope.write(f"u32 *{posted};")
        scope.call(f"CHECK(cudaMallocHost(&{posted}, {size}));")
        scope.write(f"Folded {folded}{{{posted}, {scope.n}u, 0u}};")
    for kept in scope.kept_graphs:
        scope.write(f"cudaGraphExec_t {kept};")
        with scope.braces("") as inner:
            inner.write("cudaStream_t capturing;")
            inner.call("CHECK(cudaStreamCreate(&capturing));")
            captured(inner, "capturing", kept)
            inner.call("CHECK(cudaStreamDestroy(capturing));")


def _end(scope: Scope, buffers: list[str], streams: list[str]) -> None:
    """Everything that a program worked on is printed, everything is released."""
    scope.call("CHECK(cudaDeviceSynchronize());")
    for array in (*scope.arrays, *scope.pinned, *scope.managed, *scope.mapped[:1]):
        scope.write(f'out.line("{array} %08x\\n", hash_of({array}, {scope.n}u));')
    for buffer in buffers:
        scope.call(f"CHECK(cudaMemcpy(h0, {buffer}, {4 * scope.n}, cudaMemcpyDeviceToHost));")
        scope.write(f'out.line("{buffer} %08x\\n", hash_of(h0, {scope.n}u));')
        scope.call(f"CHECK(cudaFree({buffer}));")
    for value in scope.values:
        scope.write(f'out.line("{value} %08x\\n", {value});')
    for stream in streams:
        scope.call(f"CHECK(cudaStreamDestroy({stream}));")
    for posted, folded in scope.posted:
        scope.write(f'out.line("{folded} %08x\\n", {folded}.sum);')
        scope.call(f"CHECK(cudaFreeHost({posted}));")
    for page_locked in (*scope.pinned, *scope.mapped[:1]):
        scope.call(f"CHECK(cudaFreeHost({page_locked}));")
    for managed in scope.managed:
        scope.call(f"CHECK(cudaFree({managed}));")
    for kept in scope.kept_graphs:
        scope.call(f"CHECK(cudaGraphExecDestroy({kept}));")
    scope.call('out.line("last error %s\\n", cudaGetErrorName(cudaGetLastError()));')


def program(seed: int) -> str:
    """The text of one program's functions; `program_SEED()` runs it."""
    rng = random.Random(seed)
    theme = THEMES[seed % len(THEMES)]
    text = Text()
    n = rng.choice([32, 64, 96, 136])
    helpers: tuple[str, ...] = ()
    for k in range(theme.helpers):
        name = f"helper_{seed}_{k}"
        _helper(text, rng, theme, name, n, helpers)
        helpers = (*helpers, name)
    parts = [f"part_{seed}_{k}" for k in range(theme.threads)]
    for part in parts:
        text.calls = 0
        _body(text, rng, theme, part, helpers, n)
    lines = [f"// Program {seed}: {theme.name}.", *text.functions, *text.lines, f"static void program_{seed}() {{"]
    if len(parts) == 1:
        lines += ["    Out out;", f"    {parts[0]}(out);"]
    else:
        for part in parts:
            lines += [f"    Out out_{part}(true);", f"    std::thread thread_{part}([&] {{ {part}(out_{part}); }});"]
        for part in parts:
            lines += [f"    thread_{part}.join();", f"    out_{part}.print_kept();"]
    return "\n".join([*lines, "}", ""])


def translation_unit(seeds: Iterable[int]) -> str:
    """A source file; what it makes takes seeds as its arguments, and runs their programs one after another."""
    chosen = list(seeds)
    text = ['#include "support.cuh"\n', *(program(seed) for seed in chosen)]
    text += ["static int run(int seed) {", '    std::printf("program %d\\n", seed);', "    switch (seed) {"]
    text += [f"        case {seed}: program_{seed}(); return 0;" for seed in chosen]
    text += ["    }", "    return 2;", "}", "", "int main(int count, char **arguments) {"]
    text += ["    for (int i = 1; i < count; ++i)", "        if (run(std::atoi(arguments[i])) != 0) return 2;"]
    return "\n".join([*text, "    return count < 2 ? 2 : 0;", "}", ""])
