"""Steps of one thread and of the lanes that a mask names, in random kernels (collective.py). A step takes the mask's name."""

from __future__ import annotations

from kernel_programs.statements import statement
from kernel_programs.twice import FIELDS, Twice


# Steps of one thread ---------------------------------------------------------------------------------------------------------
def step(x: Twice, mask: str) -> None:
    """Statements of each thread for itself, in a function or in place."""
    c = x.chance
    if c.random() < 0.45:
        target = x.variable()
        line = f"{target} = {x.of(FIELDS[target])};"
        if c.random() < 0.4:
            line = f"if ({x.condition()}) {line}"
        return x.write(line, f"EACH({mask}) {{ THREAD {line} }}")
    name = f"step_{len(x.whole.parts)}"
    body = x.whole.body({"t": "u32", "u": "u32"}, "return;", "", c.randint(2, 7))
    body.returns = "return;"
    body.names.values.update(FIELDS)
    body.writable.update(FIELDS)
    for _ in range(c.randint(1, 3)):
        statement(body)
    attribute = c.choice(["APART", "BOTH inline", "BOTH __forceinline__"])
    x.whole.parts.append(x.whole.text(f"{attribute} void {name}(Lane &v, u32 t, u32 u)", body, []))
    x.write(f"{name}(v, t, u);", f"EACH({mask}) {name}(lanes[t], t, u);")


# Steps of a warp -------------------------------------------------------------------------------------------------------------
def shuffle(x: Twice, mask: str) -> None:
    c = x.chance
    target = x.variable("u32", "s32", "u64", "s64", "f32", "f64")
    kind, form, width = FIELDS[target], c.randrange(4), c.choice([32, 32, 32, 16, 8, 4, 2])
    by = c.choice(
        [
            f"{c.randrange(0, width)}u",
            f"{c.choice([1, 2, 4, 8, 16]) % width}u",
            f"(v.b & {width - 1}u)",
            "(t * 5u & 31u)",
        ]
    )
    value, got = x.of(kind), x.fresh("got")
    if form in (1, 2, 3) and "v." not in by and c.random() < 0.5:
        by = f"{c.randrange(width)}u"
    x.write(
        f"{kind} {got} = {value}, own{got} = {got};\n{got} = shuffled({mask}, {got}, {form}, {by}, {width});\n"
        f"if ({mask} >> source({form}, lane, {by}, {width}) & 1u) {target} = {got}; else {target} = own{got};",
        f"{{ {kind} given[T], had[T] = {{0}};\n  EACH({mask}) {{ THREAD given[t] = had[t] = {value}; }}\n"
        f"  EACH({mask}) {{ THREAD u32 from = source({form}, lane, {by}, {width});\n"
        f"    {target} = {mask}[warp] >> from & 1u ? given[warp * 32 + from] : had[t]; }} }}",
    )


def vote(x: Twice, mask: str) -> None:
    c = x.chance
    condition, ballot, target = x.condition(), x.fresh("ballot"), x.variable("u32")
    which = c.randrange(4)
    device = [
        f"__ballot_sync({mask}, {condition})", f"u32(__any_sync({mask}, {condition}))", f"u32(__all_sync({mask}, {condition}))", f"u32(__popc(__ballot_sync({mask}, {condition}) & ((1u << lane) - 1u)))",
    ][which]  # fmt: skip
    host = ["set", "u32(set != 0)", f"u32(set == {mask}[warp])", "u32(__builtin_popcount(set & ((1u << lane) - 1u)))"][
        which
    ]
    x.write(
        f"{target} = add({target}, {device});",
        f"{{ Mask {ballot} = those({mask}, T, [&](u32 t) -> bool {{ THREAD return {condition}; }});\n"
        f"  EACH({mask}) {{ THREAD u32 set = {ballot}[warp]; (void)set; {target} = add({target}, {host}); }} }}",
    )


def match(x: Twice, mask: str) -> None:
    c = x.chance
    kind = c.choice(["u32", "u64"])
    value, target = f"{kind}({x.of(kind)} & {kind}({c.choice([0, 1, 3, 7])}))", x.variable("u32")
    together = c.random() < 0.3
    if together:
        device = f"{{ int all{target[2:]}; u32 same = __match_all_sync({mask}, {value}, &all{target[2:]}); {target} ^= same + u32(all{target[2:]} != 0); }}"
        found = f"same == {mask}[warp] ? same + 1u : 0u"
    else:
        device, found = f"{target} ^= __match_any_sync({mask}, {value});", "same"
    x.write(
        device,
        f"{{ {kind} given[T];\n  EACH({mask}) {{ THREAD given[t] = {value}; }}\n  EACH({mask}) {{ THREAD u32 same = 0;\n"
        f"    for (u32 k = 0; k < 32; ++k) if ({mask}[warp] >> k & 1u && given[warp * 32 + k] == given[t]) same |= 1u << k;\n    {target} ^= {found}; }} }}",
    )


def reduce(x: Twice, mask: str) -> None:
    c = x.chance
    target = x.variable("u32", "s32")
    kind, operation = FIELDS[target], c.randrange(6)
    value = x.of(kind)
    x.write(
        f"{target} = reduced<{kind}>({mask}, {operation}, {value});",
        f"{{ {kind} given[T];\n  EACH({mask}) {{ THREAD given[t] = {value}; }}\n"
        f"  EACH({mask}) {{ THREAD bool first = true; {kind} r = 0;\n"
        f"    for (u32 k = 0; k < 32; ++k) if ({mask}[warp] >> k & 1u) r = first ? given[warp * 32 + k] : combined<{kind}>({operation}, r, given[warp * 32 + k]), first = false;\n"
        f"    {target} = r; }} }}",
    )


def within(x: Twice, mask: str) -> None:
    """Shared memory between lanes of a mask: written, __syncwarp, read."""
    c = x.chance
    kind = c.choice(["u32", "u64"])
    array, target = f"own{kind[1:]}", x.variable(kind)
    value = x.of(kind)
    index = c.choice(
        [f"(lane + {c.randrange(32)}u) & 31u", f"lane ^ {c.randrange(32)}u", "v.b & 31u", "(lane * 7u + 3u) & 31u"]
    )
    read = f"u32 from = {index}; if ({{mask}} >> from & 1u) {target} = sub({target}, {array}[warp * 32u + from]);"
    x.write(
        f"{array}[t] = {value};\n__syncwarp({mask});\n{{ {read.format(mask=mask)} }}\n__syncwarp({mask});",
        f"EACH({mask}) {{ THREAD {array}[t] = {value}; }}\nEACH({mask}) {{ THREAD {read.format(mask=f'{mask}[warp]')} }}",
    )


def aggregated(x: Twice, mask: str) -> None:
    """One lane counts for all, and tells the others."""
    target = x.variable("u32")
    x.write(
        f"{{ u32 base = 0, leader = u32(__ffs({mask})) - 1u;\n  if (lane == leader) base = atomicAdd(&counters[warp], u32(__popc({mask})));\n"
        f"  base = __shfl_sync({mask}, base, leader);\n  {target} ^= base + __popc({mask} & ((1u << lane) - 1u)); }}",
        f"EACH({mask}) {{ THREAD {target} ^= counters[warp] + u32(__builtin_popcount({mask}[warp] & ((1u << lane) - 1u))); }}\n"
        f"for (u32 k = 0; k < (T + 31) / 32; ++k) counters[k] += u32(__builtin_popcount({mask}[k]));",
    )


def apart(x: Twice, mask: str) -> None:
    """Lanes part: each side goes on with a mask of its own."""
    c = x.chance
    condition, yes, no = x.condition(), x.fresh("m"), x.fresh("m")
    x.write(
        f"{{ const bool go = {condition};\nconst u32 {yes} = __ballot_sync({mask}, go), {no} = {mask} & ~{yes}; (void){no};",
        "{",
    )
    x.write(
        "if (go) {",
        f"const Mask {yes} = those({mask}, T, [&](u32 t) -> bool {{ THREAD return {condition}; }}), {no} = without({mask}, {yes});\n{{",
    )
    inner(x, yes)
    if c.random() < 0.6:
        x.write("} else {", "}\n{")
        inner(x, no)
    x.write("} }", "} }")
    if c.random() < 0.3:
        x.write(f"__syncwarp({mask});", None)


def inner(x: Twice, mask: str) -> None:
    x.depth += 1
    for _ in range(x.chance.randint(1, 3)):
        warp_statement(x, mask)
    x.depth -= 1


def loop(x: Twice, mask: str) -> None:
    """A loop that lanes leave one by one; those that are left vote on each iteration."""
    c = x.chance
    if x.loops >= 2:
        return apart(x, mask)
    x.loops += 1
    condition, most = x.condition(), c.choice([2, 3, 5, 9])
    left, now, i = x.fresh("m"), x.fresh("m"), x.fresh("i")
    if c.random() < 0.5:
        condition = f"{i} <= ({c.choice(['v.a', 'v.b', 'lane', 't', 'v.c >> 3'])} & {c.choice([1, 3, 7])}u)"
    x.write(
        f"u32 {left} = {mask};\nfor (u32 {i} = 0; {i} < {most}u; ++{i}) {{\nconst bool go = {condition};\n"
        f"const u32 {now} = __ballot_sync({left}, go);\nif (!go) break;\n{left} = {now};",
        f"Mask {left} = {mask};\nfor (u32 {i} = 0; {i} < {most}u; ++{i}) {{\n"
        f"const Mask {now} = those({left}, T, [&](u32 t) -> bool {{ THREAD return {condition}; }});\n{left} = {now};",
    )
    inner(x, now)
    if c.random() < 0.6:
        way, stays, also = c.choice(["break", "continue"]), x.fresh("m"), x.condition()
        update = f"\n{left} = {stays};" if way == "break" else ""
        x.write(
            f"const bool out{i} = {also};\nconst u32 {stays} = __ballot_sync({now}, !out{i});\nif (out{i}) {way};{update}",
            f"const Mask {stays} = those({now}, T, [&](u32 t) -> bool {{ THREAD return !({also}); }});{update}",
        )
        inner(x, stays)
    x.write("}", "}")
    x.loops -= 1


WARP = [
    (3.0, step),
    (2.0, shuffle),
    (1.2, vote),
    (0.8, match),
    (0.9, reduce),
    (0.9, within),
    (0.4, aggregated),
    (1.3, apart),
    (0.9, loop),
]


def warp_statement(x: Twice, mask: str) -> None:
    weights = [weight for weight, _ in WARP]
    if x.depth > 4:
        weights[-1] = weights[-2] = 0.0
    x.chance.choices([kind for _, kind in WARP], weights)[0](x, mask)
