"""Statements of the host between CUDA calls: arithmetic, swapped pointers, tables, output. No CUDA calls here."""

from __future__ import annotations

from collections.abc import Callable

from loop_programs.scope import Scope


def compute(scope: Scope) -> None:
    if scope.values:
        target = scope.random.choice(scope.values)
        scope.write(f"{target} = {target} * {scope.random.choice([3, 5, 1664525])}u + {scope.value()};")


def draw(scope: Scope) -> None:
    """A value from a generator whose state is a variable of the program."""
    if scope.values:
        first, second = scope.random.choice(scope.values), scope.random.choice(scope.values)
        if first == second:
            scope.write(f"next_random({first});")
        else:
            scope.write(f"{second} = next_random({first});")


def swap(scope: Scope) -> None:
    """Two pointers change places, within what one stream works on."""
    group = scope.random.choice([group for group in scope.groups if len(group.buffers) > 1])
    first, second = scope.random.sample(group.buffers, 2)
    if scope.chance(0.7):
        scope.write(f"std::swap({first}, {second});")
    else:
        scope.write(f"{{ u32 *other = {first}; {first} = {second}; {second} = other; }}")


def rotate(scope: Scope) -> None:
    """Three pointers change places."""
    groups = [group for group in scope.groups if len(group.buffers) > 2]
    if not groups:
        return swap(scope)
    a, b, c = scope.random.sample(scope.random.choice(groups).buffers, 3)
    scope.write(f"{{ u32 *other = {a}; {a} = {b}; {b} = {c}; {c} = other; }}")


def change_table(scope: Scope) -> None:
    if scope.tables:
        scope.write(f"{scope.random.choice(scope.tables)}[{scope.value(1)} % {scope.TABLE}u] ^= {scope.value()};")


def change_array(scope: Scope) -> None:
    array = scope.random.choice(scope.arrays)
    with scope.braces(f"for (u32 k = {scope.below(3)}; k < {scope.n}u; k += {1 + scope.below(5)}u)") as inner:
        inner.write(f"{array}[k] = {array}[k] * 3u + k;")


def use_array(scope: Scope) -> None:
    """Host data decides a value."""
    if scope.values:
        array, target = scope.random.choice(scope.arrays), scope.random.choice(scope.values)
        scope.write(f"{target} += {array}[{scope.index()}];")


def show(scope: Scope) -> None:
    scope.write(f'out.line("{scope.name("s")} %08x\\n", {scope.value()});')


STATEMENTS: dict[str, Callable[[Scope], None]] = {
    "compute": compute,
    "draw": draw,
    "swap": swap,
    "rotate": rotate,
    "change_table": change_table,
    "change_array": change_array,
    "use_array": use_array,
    "show": show,
}
