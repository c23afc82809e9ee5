"""Statements about memory that the host and the device share, functions of the host in a stream, and graphs.

Owns the table `STATEMENTS`, like statements.py. What they need is declared by the program (`Scope.managed`, `mapped`, `posted`, `kept_graphs`): where it is not there, each
is a plain launch.

What keeps a program free of races, besides the rules there: the host touches shared memory behind a synchronization of the device only, and what a function of
the host has computed behind one of its stream. A graph runs in a stream of its own, with the whole device synchronized in front of it, and itself behind it; or
in the default stream.
"""

from __future__ import annotations

from collections.abc import Callable

from loop_programs.scope import Scope
from loop_programs.statements import launch


def _launch(scope: Scope, stream: str, target: str, source: str) -> None:
    """A kernel that changes all of `target`, or one element."""
    n = scope.n
    blocks = f"{(n + 63) // 64}u"
    match scope.below(5):
        case 0:
            scope.call(f"LAUNCH(add, {blocks}, 64, 0, {stream}, {target}, {n}u, {scope.value()});")
        case 1:
            scope.call(f"LAUNCH(twist, {blocks}, 64, 0, {stream}, {target}, {n}u);")
        case 2:
            scope.call(f"LAUNCH(blend, {blocks}, 64, 0, {stream}, {target}, {source}, {n}u, {scope.value(1)});")
        case 3:
            scope.call(f"LAUNCH(gather, {blocks}, 64, 0, {stream}, {source}, {target}, {n}u, {scope.value(1)});")
        case _:
            scope.call(f"LAUNCH(poke, 1u, 1, 0, {stream}, {target}, {scope.index()}, {scope.value()});")


def _touch(scope: Scope, memory: str) -> None:
    """The host reads and writes shared memory; the device is synchronized."""
    scope.checked("cudaDeviceSynchronize()")
    if scope.values and scope.chance(0.6):
        scope.write(f"{scope.random.choice(scope.values)} += {memory}[{scope.index()}];")
    if scope.chance(0.5):
        scope.write(f"{memory}[{scope.index()}] ^= {scope.value()};")
    if scope.chance(0.2):
        scope.write(f'out.line("{scope.name("m")} %08x\\n", hash_of({memory}, {scope.n}u));')


def managed(scope: Scope) -> None:
    """Kernels, copies and the host in turn, on managed memory."""
    if not scope.managed:
        return launch(scope)
    memory, n = scope.random.choice(scope.managed), scope.n
    match scope.below(6):
        case 0:
            count = scope.random.choice([1, n // 3])
            scope.checked(f"cudaMemcpy({memory}, {scope.buffer()}, {4 * count}, cudaMemcpyDeviceToDevice)")
        case 1:
            array = scope.random.choice(scope.arrays)
            scope.checked(f"cudaMemcpy({array}, {memory}, {4 * n}, cudaMemcpyDeviceToHost)")
        case 2:
            scope.checked(f"cudaMemset({memory} + {scope.below(n // 2)}, {scope.below(256)}, 20)")
        case _:
            _launch(scope, "0", memory, scope.buffer())
    if scope.chance(0.6):
        _touch(scope, memory)
    if scope.chance(0.5):
        _launch(scope, "0", scope.buffer(), memory)


def mapped(scope: Scope) -> None:
    """Kernels and the host in turn, on page-locked memory that the device sees."""
    if not scope.mapped:
        return launch(scope)
    host, device = scope.mapped
    _launch(scope, "0", device, scope.buffer())
    if scope.chance(0.6):
        _touch(scope, host)
    if scope.chance(0.4):
        _launch(scope, "0", scope.buffer(), device)


def host_function(scope: Scope) -> None:
    """A copy to the host, and a function of the host that looks at it, both in a stream."""
    if not scope.posted:
        return launch(scope)
    group, (posted, folded) = scope.random.choice(list(zip(scope.groups, scope.posted, strict=True)))
    source = scope.random.choice(group.buffers)
    scope.checked(f"cudaMemcpyAsync({posted}, {source}, {4 * scope.n}, cudaMemcpyDeviceToHost, {group.stream})")
    scope.checked(f"cudaLaunchHostFunc({group.stream}, fold, &{folded})")
    if scope.chance(0.5):
        scope.call(f"LAUNCH(twist, {(scope.n + 63) // 64}u, 64, 0, {group.stream}, {source}, {scope.n}u);")
    if scope.chance(0.3):
        scope.checked(f"cudaStreamSynchronize({group.stream})")
        if scope.values and scope.chance(0.6):
            scope.write(f"{scope.random.choice(scope.values)} ^= {folded}.sum;")
        else:
            scope.write(f'out.line("{scope.name("f")} %08x\\n", {folded}.sum);')


def captured(scope: Scope, stream: str, exec_: str) -> None:
    """Captures some work of `stream` and makes `exec_` of it."""
    graph, buffers = scope.name("graph"), [buffer for group in scope.groups for buffer in group.buffers]
    scope.write(f"cudaGraph_t {graph};")
    scope.call(f"CHECK(cudaStreamBeginCapture({stream}, cudaStreamCaptureModeThreadLocal));")
    for _ in range(1 + scope.below(4)):
        target, source = scope.random.sample(buffers, 2)
        match scope.below(6):
            case 0:
                scope.call(f"CHECK(cudaMemsetAsync({target} + {scope.below(scope.n // 2)}, 3, 16, {stream}));")
            case 1:
                size = 4 * (scope.n // 3)
                scope.call(f"CHECK(cudaMemcpyAsync({target}, {source}, {size}, cudaMemcpyDeviceToDevice, {stream}));")
            case _:
                _launch(scope, stream, target, source)
    if scope.posted and scope.chance(0.3):
        posted, folded = scope.posted[0]
        size = 4 * scope.n
        scope.call(f"CHECK(cudaMemcpyAsync({posted}, {buffers[0]}, {size}, cudaMemcpyDeviceToHost, {stream}));")
        scope.call(f"CHECK(cudaLaunchHostFunc({stream}, fold, &{folded}));")
    scope.call(f"CHECK(cudaStreamEndCapture({stream}, &{graph}));")
    scope.call(f"CHECK(cudaGraphInstantiate(&{exec_}, {graph}, 0));")
    scope.call(f"CHECK(cudaGraphDestroy({graph}));")


def graph(scope: Scope) -> None:
    """A graph that the program keeps is launched; or one is captured, launched some times, and destroyed."""
    if scope.kept_graphs and scope.chance(0.8):
        return scope.checked(f"cudaGraphLaunch({scope.random.choice(scope.kept_graphs)}, 0)")
    if scope.threaded or not scope.affordable(12):
        return launch(scope)  # no thread may synchronize the device while another one captures
    with scope.braces("") as inner:
        stream, exec_ = inner.name("stream"), inner.name("exec")
        inner.write(f"cudaStream_t {stream};")
        inner.write(f"cudaGraphExec_t {exec_};")
        if inner.threaded or inner.chance(
            0.5
        ):  # another thread's work in the default stream must not concern what is captured
            inner.checked(f"cudaStreamCreateWithFlags(&{stream}, cudaStreamNonBlocking)")
        else:
            inner.checked(f"cudaStreamCreate(&{stream})")
        captured(inner, stream, exec_)
        inner.checked("cudaDeviceSynchronize()")
        i, times = inner.name("i"), inner.random.choice([1, 2, 5])
        changes = {"loops": (*inner.loops, i), "repeats": inner.repeats * times}
        with inner.braces(f"for (u32 {i} = 0; {i} < {times}u; ++{i})", **changes) as loop:
            loop.checked(f"cudaGraphLaunch({exec_}, {stream})")
            if loop.chance(0.4):
                first, second = loop.two_buffers()
                _launch(loop, stream, first, second)
        inner.checked(f"cudaStreamSynchronize({stream})")
        inner.checked(f"cudaGraphExecDestroy({exec_})")
        inner.checked(f"cudaStreamDestroy({stream})")


STATEMENTS: dict[str, Callable[[Scope], None]] = {
    "managed": managed,
    "mapped": mapped,
    "host_function": host_function,
    "graph": graph,
}
