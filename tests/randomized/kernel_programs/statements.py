"""Random statements of one function: assignments and control flow that differs from thread to thread.

Every loop ends: it counts, and what it may do at most goes into the function's cost.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from kernel_programs.expressions import Expressions, Names
from kernel_programs.kinds import FLOATS, any_kind

INDENT = "    "


@dataclass
class Body:
    """The text of a function's body in the making."""

    names: Names
    expressions: Expressions
    returns: str  # the statement's text with {} for a value, such as "return {};", and the value's type
    result: str
    statements: int  # how many more may come
    locals: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    depth: int = 1
    times: int = 1  # how often the place runs, at most
    cost: int = 0
    number: int = 0
    loop: str = ""  # "for" or "while" round the place, "" outside: where `break` and `continue` mean a loop
    writable: dict[str, str] = field(default_factory=dict)
    sinks: tuple[str, ...] = ()  # functions with a statement's effect: text with {} per operand is in `calls`
    calls: list[tuple[str, tuple[str, ...], int]] = field(default_factory=list)

    def write(self, text: str) -> None:
        self.lines.append(INDENT * self.depth + text)

    def fresh(self, prefix: str) -> str:
        self.number += 1
        return f"{prefix}{self.number}"

    def of(self, kind: str) -> str:
        self.names.budget = max(0, (4000 - self.cost) // self.times) if self.times < 100 else 0
        before = self.names.budget
        text = self.expressions.of(kind)
        self.cost += (before - self.names.budget) * self.times
        return text

    def condition(self) -> str:
        self.names.budget = 0
        return self.expressions.condition(1)


def assignment(body: Body) -> None:
    c = body.names.chance
    pick = c.random()
    if pick < 0.12:
        name = c.choice([*body.names.values])
        return body.write(f"trace.take({name});")
    if pick < 0.3 and body.names.arrays:
        name, (kind, size) = c.choice([*body.names.arrays.items()])
        return body.write(f"{name}[{body.expressions.index(size)}] = {body.of(kind)};")
    if pick < 0.36 and body.calls:
        text, kinds, cost = c.choice(body.calls)
        if cost * body.times < 4000 - body.cost:
            body.cost += cost * body.times
            return body.write(text.format(*(body.expressions.simple(kind) for kind in kinds)))
    name, kind = c.choice([*body.writable.items()])
    if pick < 0.5 and kind not in ("f16", *FLOATS):
        return body.write(f"{name} = {c.choice(['add', 'sub', 'mul'])}({name}, {body.of(kind)});")
    if pick < 0.55 and kind not in ("f16", "f32", "f64"):
        return body.write(f"{name} {c.choice(['^=', '|=', '&='])} {body.of(kind)};")
    body.write(f"{name} = {body.of(kind)};")


def _inside(body: Body, head: str, most: int, loop: str | None = None, times: int = 1, tail: str = "}") -> None:
    """A block: its head, statements, and its end."""
    before = body.loop, body.times
    body.write(head)
    body.depth += 1
    body.loop = body.loop if loop is None else loop
    body.times *= times
    for _ in range(body.names.chance.randint(1, most)):
        statement(body)
    body.loop, body.times = before
    body.depth -= 1
    body.write(tail)


def branch(body: Body) -> None:
    c = body.names.chance
    other = c.random()
    _inside(body, f"if ({body.condition()}) {{", 4, tail="}" if other < 0.5 else "} else {")
    if other < 0.5:
        return
    body.lines.pop()
    if other > 0.85:
        _inside(body, f"}} else if ({body.condition()}) {{", 3)
        body.lines.pop()
    _inside(body, "} else {", 4)


def _trips(body: Body) -> tuple[str, int]:
    """A loop's bound, and how much it may be."""
    c = body.names.chance
    most = c.choice([1, 2, 3, 4, 6, 9]) if body.times > 1 else c.choice([1, 2, 3, 5, 9, 17, 33])
    if c.random() < 0.35:
        return f"{most}u", most
    return f"{body.expressions.simple('u32')} % {most + 1}u", most


def counted(body: Body) -> None:
    c = body.names.chance
    bound, most = _trips(body)
    i = body.fresh("i")
    kind = c.choice(["u32", "u32", "s32", "s32", "u64", "s64", "u8", "s16"])
    pick = c.random()
    if pick < 0.5:
        head = f"for ({kind} {i} = 0, n{i} = {kind}({bound}); {i} < n{i}; ++{i}) {{"
    elif pick < 0.65:
        head = f"for ({kind} {i} = {kind}({bound}); {i} > 0; --{i}) {{"
    elif pick < 0.8:
        step, start = c.randrange(1, 4), c.randrange(5)
        head = f"for ({kind} {i} = {start}; {i} <= {start + step * (most - 1)}; {i} += {step}) {{"
    elif pick < 0.9:
        head = f"for (u32 {i} = {1 << min(most, 20) - 1}u; {i} != 0; {i} >>= 1) {{"
        kind = "u32"
    else:
        head = f"#pragma unroll {c.choice([1, 2, 4])}\n{INDENT * body.depth}for ({kind} {i} = 0; {i} < {kind}({bound}); ++{i}) {{"
        if "%" in bound:  # the bound may change as the loop runs: of a number only
            head = head.replace(bound, f"{most}u")
    body.names.values[i] = kind
    _inside(body, head, 4, "for", most)
    del body.names.values[i]


def fuelled(body: Body) -> None:
    """A loop on a condition of its own, which ends when its fuel does."""
    c = body.names.chance
    fuel, most = body.fresh("fuel"), c.choice([2, 4, 7, 12])
    body.locals.append(f"u32 {fuel} = {most}u;")
    if body.times > 1 or c.random() < 0.7:
        body.write(f"{fuel} = {most}u;")
    pick = c.random()
    if pick < 0.4:
        _inside(body, f"while ({fuel}-- > 0u && {body.condition()}) {{", 4, "while", most)
    elif pick < 0.6:
        _inside(body, "do {", 4, "while", most + 1, f"}} while ({fuel} != 0u && --{fuel} > 0u && {body.condition()});")
    elif pick < 0.8:
        body.write("for (;;) {")
        body.depth += 1
        body.write(f"if ({fuel} == 0u) break;")
        body.write(f"--{fuel};")
        _inside(body, f"if ({body.condition()}) {{", 3, "while", most)
        body.write(f"if ({body.condition()}) {c.choice(['break', 'continue'])};")
        before, body.loop = body.loop, "while"
        body.times *= most
        statement(body)
        body.times //= most
        body.loop = before
        body.depth -= 1
        body.write("}")
    elif not body.loop:
        # Entered in its middle: a loop of two entries.
        label = body.fresh("middle")
        body.write(f"if ({body.condition()}) goto {label};")
        body.write(f"while ({fuel} > 0u) {{")
        body.write(f"{INDENT}--{fuel};")
        _inside(body, f"{INDENT}if ({body.condition()}) {{", 3, "", most, f"{INDENT}}}")
        body.lines.append(f"{label}:;")
        _inside(body, f"{INDENT}if ({body.condition()}) {{", 3, "", most, f"{INDENT}}}")
        body.write("}")
    else:
        _inside(body, f"while ({fuel} != 0u) {{ --{fuel};", 4, "", most)


def forward(body: Body) -> None:
    """A `goto` over some statements."""
    label = body.fresh("over")
    body.write(f"if ({body.condition()}) goto {label};")
    for _ in range(body.names.chance.randint(1, 3)):
        statement(body)
    body.lines.append(f"{label}:;")


def backward(body: Body) -> None:
    """A loop made of a `goto`."""
    if body.times > 40:
        return assignment(body)
    label, fuel, most = body.fresh("again"), body.fresh("fuel"), body.names.chance.choice([1, 3, 6])
    body.locals.append(f"u32 {fuel} = {most}u;")
    body.lines.append(f"{label}:;")
    before = body.times, body.loop
    body.times *= most + 1
    for _ in range(body.names.chance.randint(1, 3)):
        statement(body)
    body.times, body.loop = before
    body.write(f"if ({fuel} > 0u && {body.condition()}) {{ --{fuel}; goto {label}; }}")


def switch(body: Body) -> None:
    c = body.names.chance
    count = c.randint(2, 7)
    sparse = c.random() < 0.25
    labels = sorted(c.sample(range(count + 2), count)) if not sparse else sorted(c.sample(range(0, 4000, 7), count))
    kind = c.choice(["u32", "u32", "s32", "u64", "u8", "s64"])
    modulus = f" % {count + 3}" if not sparse else " & 0xFFF"
    value = body.expressions.simple(kind) if sparse else body.of(kind)
    if kind in ("u8", "s8") and sparse:
        kind, value = "u32", body.expressions.simple("u32")
    body.write(f"switch ({kind}({value}{modulus})) {{")
    for number, label in enumerate(labels):
        tail = "    break; }" if c.random() < 0.75 else "}"
        _inside(body, f"case {label}: {{", 2, "for" if body.loop == "for" else "", 1, tail)
        if number and c.random() < 0.2:
            body.lines[-1] = body.lines[-1].replace("break; }", "} // falls through")
    if c.random() < 0.6:
        _inside(body, "default: {", 2)
    body.write("}")


def leave(body: Body) -> None:
    c = body.names.chance
    if body.loop and c.random() < 0.7:
        return body.write(f"if ({body.condition()}) {c.choice(['break', 'continue'])};")
    if c.random() < 0.4:
        value = body.returns.format(body.of(body.result)) if body.result else body.returns
        return body.write(f"if ({body.condition()}) {{ {value} }}")
    assignment(body)


KINDS = [
    (8.0, assignment), (2.2, branch), (1.6, counted), (1.0, fuelled), (0.4, forward), (0.2, backward), (0.7, switch), (1.0, leave),
]  # fmt: skip


def statement(body: Body) -> None:
    body.statements -= 1
    body.cost += body.times
    if body.statements <= 0 or body.depth > 6 or body.cost > 3000:
        return assignment(body)
    weights = [weight for weight, _ in KINDS]
    if body.times > 150:
        weights[2] = weights[3] = weights[5] = 0.0
    body.names.chance.choices([kind for _, kind in KINDS], weights)[0](body)


def variable_kinds(body: Body, count: int) -> list[str]:
    return [any_kind(body.names.chance) for _ in range(count)]
