"""Steps of a whole block in random kernels (collective.py): barriers, shared memory, atomics, and control flow that all threads agree on."""

from __future__ import annotations

from kernel_programs.twice import Twice
from kernel_programs.warps import warp_statement


# Steps of a block ------------------------------------------------------------------------------------------------------------
def exchange(x: Twice) -> None:
    """All threads write, meet, and read what others wrote."""
    c = x.chance
    width = c.choice([8, 16, 32, 32, 64])
    kind, target = f"u{width}", x.variable(f"u{width}")
    array, value = f"shared{width}", x.of(kind)
    index = c.choice([
        f"(t + {c.randrange(x.threads)}u) % T", "(T - 1u - t)", "v.a % T", f"(t * {c.randrange(1, 40)}u + {c.randrange(50)}u) % T", "t ^ 1u", "t / 2u", f"{c.randrange(x.threads)}u",
    ])  # fmt: skip
    if index == "t ^ 1u":
        index = "(t ^ 1u) % T"
    read = f"{target} = {c.choice(['add', 'sub'])}({target}, {array}[{index}]);"
    if c.random() < 0.3:
        read = f"if ({x.condition()}) {read}"
    x.write(
        f"__syncthreads();\n{array}[t] = {value};\n__syncthreads();\n{read}",
        f"EACH(m0) {{ THREAD {array}[t] = {value}; }}\nEACH(m0) {{ THREAD {read} }}",
    )


def tree(x: Twice) -> None:
    """A reduction in shared memory, with a barrier in its loop."""
    if x.exits:
        return exchange(x)
    c = x.chance
    operation, target = c.randrange(6), x.variable("u32")
    value = x.of("u32")
    x.write(
        f"__syncthreads();\nshared32[t] = {value};\nfor (u32 half = 256u; half > 0u; half >>= 1) {{\n"
        f"    __syncthreads();\n    if (t < half && t + half < T) shared32[t] = combined({operation}, shared32[t], shared32[t + half]);\n}}\n"
        f"__syncthreads();\n{target} ^= shared32[0];",
        f"EACH(m0) {{ THREAD shared32[t] = {value}; }}\nfor (u32 half = 256u; half > 0u; half >>= 1) {{\n"
        f"    EACH(m0) if (t < half && t + half < T) shared32[t] = combined({operation}, shared32[t], shared32[t + half]);\n}}\n"
        f"EACH(m0) {{ THREAD {target} ^= shared32[0]; }}",
    )


def count(x: Twice) -> None:
    """A barrier with a vote: its result is the block's, and decides what the block does."""
    c = x.chance
    condition, which = x.condition(), c.choice(["count", "and", "or"])
    device = f"u32(__syncthreads_{which}({condition}){' != 0' if which != 'count' else ''})"
    x.write(
        f"u = u * 5u + {device};",
        f"{{ u32 n = 0, of = 0; EACH(m0) {{ THREAD ++of; n += ({condition}) ? 1u : 0u; }} (void)of;\n"
        f"  u = u * 5u + {dict(count='n', **{'and': 'u32(n == of)', 'or': 'u32(n != 0)'})[which]}; }}",
    )


def atomics(x: Twice) -> None:
    """Atomics of one kind on a few cells, in any order; then all read them."""
    c = x.chance
    kind = c.choice(["u32", "u32", "s32", "u64"])
    cells = {"u32": "cells32", "s32": "cellss32", "u64": "cells64"}[kind]
    operation, swapping = c.randrange(6), c.random() < 0.3
    index = c.choice(["v.a % CELLS", "lane % CELLS", "t / 32u % CELLS", "v.b % 3u", f"{c.randrange(8)}u"])
    value, condition, target = x.of(kind), x.condition(), x.variable(kind)
    every = c.random() < 0.4
    x.write(
        f"__syncthreads();\nif (t == 0u) for (u32 k = 0; k < CELLS; ++k) {cells}[k] = {kind}(k * 1000003u);\n__syncthreads();\n"
        + ("" if every else f"if ({condition}) ")
        + f"atomically(&{cells}[{index}], {operation}, {value}, {str(swapping).lower()});\n__syncthreads();\n{target} = add({target}, {cells}[t % CELLS]);",
        f"for (u32 k = 0; k < CELLS; ++k) {cells}[k] = {kind}(k * 1000003u);\n"
        f"EACH(m0) {{ THREAD {'' if every else f'if ({condition}) '}{{ {kind} &cell = {cells}[{index}]; cell = combined<{kind}>({operation}, cell, {value}); }} }}\n"
        f"EACH(m0) {{ THREAD {target} = add({target}, {cells}[t % CELLS]); }}",
    )


def total(x: Twice) -> None:
    """Atomics on global memory, from all blocks: sums alone, since other operations do not go with them."""
    value, index = x.of("u64"), x.chance.choice(["t % CELLS", "v.a % CELLS", "u % CELLS"])
    guard = f"if ({x.condition()}) " if x.chance.random() < 0.5 else ""
    x.write(
        f"{guard}atomicAdd(&totals[{index}], {value});",
        f"EACH(m0) {{ THREAD {guard}{{ u64 &cell = totals[{index}]; cell += {value}; }} }}",
    )


def by_warps(x: Twice) -> None:
    """Steps of the warps."""
    for _ in range(x.chance.randint(1, 4)):
        warp_statement(x, "m0")


def together(x: Twice) -> None:
    """Control flow that all threads of the block agree on, with barriers inside."""
    c = x.chance
    if x.depth > 3:
        return exchange(x)
    condition = c.choice([f"(u >> {c.randrange(4)} & 1u)", f"u % {c.randrange(2, 5)}u != 0u"])
    if c.random() < 0.5:
        x.write(f"if ({condition}) {{", f"if ({condition}) {{")
        block(x, 2)
        if c.random() < 0.5:
            x.write("} else {", "} else {")
            block(x, 2)
        x.write("}", "}")
        return
    i = x.fresh("i")
    bound = c.choice([f"{c.randrange(1, 4)}u", f"u % {c.randrange(2, 5)}u"])
    n = x.fresh("n")
    head = f"for (u32 {i} = 0, {n} = {bound}; {i} < {n}; ++{i}) {{"
    x.write(head, head)
    block(x, 2)
    if c.random() < 0.3:
        way = f"if (u % 7u == {c.randrange(7)}u) {c.choice(['break', 'continue'])};"
        x.write(way, way)
        block(x, 1)
    x.write("}", "}")


def exit_some(x: Twice) -> None:
    """Some threads end; later barriers and masks do without them. Thread 0 stays."""
    if x.depth > 1:
        return count(x)
    x.exits = True
    condition, stay = x.condition(), x.fresh("stay")
    condition = f"({condition}) && t != 0u"
    x.write(
        f"{{ const bool done = {condition};\n  m0 = __ballot_sync(m0, !done);\n"
        f"  if (done) {{ leave(v, out + (blockIdx.x * T + t) * LANE_WORDS); return; }} }}",
        f"{{ const Mask {stay} = those(m0, T, [&](u32 t) -> bool {{ THREAD return !({condition}); }}); m0 = {stay}; }}",
    )


BLOCK = [
    (2.0, exchange),
    (0.7, tree),
    (1.0, count),
    (1.2, atomics),
    (0.5, total),
    (3.0, by_warps),
    (1.0, together),
    (0.5, exit_some),
]


def block(x: Twice, most: int) -> None:
    x.depth += 1
    for _ in range(x.chance.randint(1, most)):
        block_statement(x)
    x.depth -= 1


def block_statement(x: Twice) -> None:
    x.chance.choices([kind for _, kind in BLOCK], [weight for weight, _ in BLOCK])[0](x)
