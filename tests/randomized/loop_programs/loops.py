"""Loops and conditionals around statements. Owns the table `LOOPS`: kind -> function that writes a loop's head and body.

Every loop ends: a counter bounds those whose exit depends on data.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from loop_programs import host, shared, statements
from loop_programs.scope import Scope

Weights = Mapping[str, float]
Body = Callable[[Scope], None]


def statement(scope: Scope, weights: Weights) -> None:
    """One random statement; `weights` favours kinds of statements."""
    calling = statements.STATEMENTS | shared.STATEMENTS
    kinds = [*calling, *host.STATEMENTS, "condition", "loop"]
    standard = {"launch": 6.0, "loop": 1.2, "condition": 1.0, "mistakes": 0.3, "temporary_stream": 0.3, "show": 0.4}
    chosen = scope.random.choices(kinds, [weights.get(kind, standard.get(kind, 0.6)) for kind in kinds])[0]
    if chosen == "condition":
        condition(scope, weights)
    elif chosen == "loop":
        if len(scope.loops) < 3:
            loop(scope, weights)
    elif chosen in host.STATEMENTS:
        host.STATEMENTS[chosen](scope)
    elif scope.affordable(2):
        calling[chosen](scope)


def block(scope: Scope, weights: Weights, most: int, least: int = 1) -> None:
    """Some statements; at least one of them makes CUDA calls while the budget lasts."""
    before = scope.text.calls
    for _ in range(scope.random.randint(least, most)):
        statement(scope, weights)
    if scope.text.calls == before and scope.affordable(1):
        statements.launch(scope)


def condition(scope: Scope, weights: Weights) -> None:
    """if, if-else, or switch; now and then a way out of the loop."""
    if scope.in_loop and scope.chance(0.25):
        way = scope.random.choice(["break;", "continue;"])
        with scope.braces(f"if ({scope.value(1)} % 11u == {scope.below(11)}u)") as inner:
            if scope.chance(0.5):
                inner.write(f'out.line("{scope.name("x")}\\n");')
            inner.write(way)
    elif scope.chance(0.25):
        scope.write(f"switch ({scope.value(1)} % 3u) {{")
        for label in ("case 0u:", "case 1u:", "default:"):
            with scope.braces(label, repeats=scope.repeats / 3, in_loop=False) as inner:
                block(inner, weights, 2)
            scope.write("break;")
        scope.write("}")
    else:
        with scope.braces(f"if ({scope.condition()})", repeats=scope.repeats / 2) as inner:
            block(inner, weights, 2)
        if scope.chance(0.4):
            with scope.braces("else", repeats=scope.repeats / 2) as inner:
                block(inner, weights, 2)


def trips(scope: Scope) -> int:
    """How often a loop here may run."""
    if not scope.loops and scope.chance(0.35):
        return scope.random.choice([40, 75, 120])
    return scope.random.choice([0, 1, 2, 3, 5, 8, 13, 21]) if len(scope.loops) < 2 else scope.below(4)


def bound(scope: Scope, count: int) -> str:
    """A number, as the compiler may know it or not."""
    return f"opaque({count}u)" if scope.chance(0.5) else f"{count}u"


def _within(scope: Scope, head: str, variables: tuple[str, ...], count: float, body: Body) -> None:
    changes = {"loops": scope.loops + variables, "repeats": scope.repeats * max(count, 1), "in_loop": True}
    with scope.braces(head, **changes) as inner:
        body(inner)


def counted(scope: Scope, count: int, body: Body) -> None:
    i, step, start = scope.name("i"), scope.random.choice([1, 1, 1, 2, 7]), scope.random.choice([0, 0, 1, 5])
    _within(
        scope,
        f"for (u32 {i} = {start}; {i} < {start}u + {step}u * {bound(scope, count)}; {i} += {step})",
        (i,),
        count,
        body,
    )


def downward(scope: Scope, count: int, body: Body) -> None:
    i = scope.name("i")
    _within(scope, f"for (u32 {i} = {bound(scope, count)}; {i} > 0; --{i})", (i,), count, body)


def geometric(scope: Scope, count: int, body: Body) -> None:
    i = scope.name("i")
    limit = 1 << min(count, 12)
    if scope.chance(0.5):
        head = f"for (u32 {i} = 1; {i} <= {bound(scope, limit)}; {i} *= 2)"
    else:
        head = f"for (u32 {i} = {bound(scope, limit)}; {i} > 0; {i} >>= 1)"
    _within(scope, head, (i,), min(count, 12) + 1, body)


def endless(scope: Scope, count: int, body: Body) -> None:
    """Left in the middle."""
    i = scope.name("i")

    def whole(inner: Scope) -> None:
        body(inner)
        inner.write(f"if (++{i} >= {max(count, 1)}u) break;")
        if inner.chance(0.5):
            statements.launch(inner)

    scope.write(f"u32 {i} = 0;")
    # A `continue` in the body would pass by the test: nothing that contains one may stand there.
    changes = {"loops": (*scope.loops, i), "repeats": scope.repeats * max(count, 1), "in_loop": False}
    with scope.braces("for (;;)", **changes) as inner:
        whole(inner)


def do_while(scope: Scope, count: int, body: Body) -> None:
    i = scope.name("i")
    scope.write(f"u32 {i} = 0;")
    changes = {"loops": (*scope.loops, i), "repeats": scope.repeats * max(count, 1), "in_loop": True}
    with scope.braces("do", **changes) as inner:
        body(inner)
    scope.text.lines[-1] += f" while (++{i} < {bound(scope, count)});"


def over_table(scope: Scope, count: int, body: Body) -> None:
    if not scope.tables:
        return counted(scope, count, body)
    i = scope.name("i")
    _within(scope, f"for (u32 {i} : {scope.random.choice(scope.tables)})", (i,), scope.TABLE, body)


def two_counters(scope: Scope, count: int, body: Body) -> None:
    i, j = scope.name("i"), scope.name("j")
    _within(
        scope,
        f"for (u32 {i} = 0, {j} = {scope.below(100)}; {i} < {bound(scope, count)}; ++{i}, {j} = {j} * 3 + 1)",
        (i, j),
        count,
        body,
    )


def triangular(scope: Scope, count: int, body: Body) -> None:
    if not scope.loops:
        return counted(scope, count, body)
    i, outer = scope.name("i"), scope.loops[-1]
    head = f"for (u32 {i} = {scope.below(2)}; {i} <= {outer} % {max(min(count, 9), 1)}u; ++{i})"
    _within(scope, head, (i,), min(count, 9) / 2 + 1, body)


def converging(scope: Scope, count: int, body: Body) -> None:
    """Until the device says so, or often enough: the host reads one value in every iteration."""
    i, flag, buffer = scope.name("i"), scope.name("flag"), scope.buffer()
    target = scope.random.choice([b for group in scope.groups for b in group.buffers if b != buffer])
    scope.write(f"u32 {flag} = 0;")

    def whole(inner: Scope) -> None:
        body(inner)
        inner.call(
            f"LAUNCH(decide, 1, 1, 0, 0, {target}, {buffer}, {inner.below(inner.n)}u, {inner.random.choice([5, 17, 40])}u);"
        )
        inner.checked(f"cudaMemcpy(&{flag}, {target}, sizeof {flag}, cudaMemcpyDeviceToHost)")

    head = f"for (u32 {i} = 0; {flag} == 0 && {i} < {bound(scope, max(count, 1))}; ++{i})"
    _within(scope, head, (i,), count, whole)
    scope.write(f'out.line("{scope.name("c")} %u\\n", {flag});')


def stepwise(scope: Scope, count: int, body: Body) -> None:
    """The step is a host value that changes."""
    i, step = scope.name("i"), scope.name("step")
    head = f"for (u32 {i} = 0, {step} = 1; {i} < {bound(scope, 3 * count)}; {i} += {step}, {step} = {step} % 5u + 1u)"
    _within(scope, head, (i, step), count, body)


def called(scope: Scope, count: int, body: Body) -> None:
    """The body is a lambda, or one behind a std::function."""
    name, i = scope.name("body"), scope.name("i")
    declaration = "const std::function<void(u32)>" if scope.chance(0.4) else "auto"
    changes = {"loops": (*scope.loops, i), "repeats": scope.repeats * max(count, 1), "in_loop": False}
    with scope.braces(f"{declaration} {name} = [&](u32 {i})", **changes) as inner:
        body(inner)
    scope.text.lines[-1] += ";"
    scope.write(
        f"for (u32 {i} = 0; {i} < {bound(scope, count)}; ++{i}) {name}({scope.random.choice([i, f'3u * {i} + 1u'])});"
    )


LOOPS: dict[str, tuple[float, Callable[[Scope, int, Body], None]]] = {
    "counted": (4.0, counted),
    "downward": (1.0, downward),
    "geometric": (1.0, geometric),
    "endless": (0.7, endless),
    "do_while": (0.7, do_while),
    "over_table": (0.7, over_table),
    "two_counters": (0.7, two_counters),
    "triangular": (1.0, triangular),
    "converging": (1.0, converging),
    "stepwise": (0.5, stepwise),
    "called": (0.7, called),
}


def loop(scope: Scope, weights: Weights, kind: str | None = None, count: int | None = None) -> None:
    """A random loop with a random body."""
    if not scope.affordable(3):
        return
    if kind is None:
        kind = scope.random.choices(list(LOOPS), [weight for weight, _ in LOOPS.values()])[0]
    count = trips(scope) if count is None else count
    LOOPS[kind][1](scope, count, lambda inner: block(inner, weights, 5, 1 + (len(scope.loops) == 0)))
