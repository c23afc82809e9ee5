"""Random expressions of a given type over the variables of a place. Each is defined for all values of its variables."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from kernel_programs.kinds import FLOATS, INTEGERS, WIDTHS, any_kind, literal

PACKED = [
    "add4", "add2", "sub4", "sub2", "addss4", "addus4", "addss2", "addus2", "subss4", "subus4", "subss2", "subus2",
    "absdiffs4", "absdiffu4", "absdiffs2", "absdiffu2", "avgu4", "avgu2", "havgu4", "maxs4", "maxu2", "mins2", "minu4",
    "cmpeq4", "cmpgts4", "cmpleu2", "setges2", "setltu4", "abs4", "absss2", "neg2",
]  # fmt: skip
ROUNDINGS = ["rn", "rz", "ru", "rd"]


@dataclass(frozen=True)
class Callee:
    """A function that expressions may call: parameters are types of values. `cost`: statements that one call runs."""

    name: str
    result: str
    parameters: tuple[str, ...]
    cost: int


@dataclass
class Names:
    """What expressions may use: text of a value -> its type."""

    chance: random.Random
    values: dict[str, str] = field(default_factory=dict)
    arrays: dict[str, tuple[str, int]] = field(default_factory=dict)  # name -> element's type, length (a power of 2)
    tables: dict[str, int] = field(default_factory=dict)  # arrays of bytes: name -> length (a power of 2)
    callees: list[Callee] = field(default_factory=list)
    budget: int = 0  # what calls here may cost

    def of(self, kind: str) -> list[str]:
        return [name for name, its in self.values.items() if its == kind]


class Expressions:
    """Writes expressions. `deepest` bounds their nesting."""

    def __init__(self, names: Names, deepest: int = 3) -> None:
        self.names = names
        self.chance = names.chance
        self.deepest = deepest

    def of(self, kind: str, depth: int = 0) -> str:
        c = self.chance
        if depth >= self.deepest or c.random() < 0.22:
            return self.leaf(kind, depth)
        if c.random() < 0.06:
            return self._call(kind, depth) or self.leaf(kind, depth)
        if c.random() < 0.06:
            return f"({self.condition(depth + 1)} ? {self.of(kind, depth + 1)} : {self.of(kind, depth + 1)})"
        if kind == "f16":
            return self._half(depth)
        return self._float(kind, depth) if kind in FLOATS else self._integer(kind, depth)

    def leaf(self, kind: str, depth: int = 0) -> str:
        c, names = self.chance, self.names
        choices: list[str] = list(names.of(kind))
        choices += [f"{name}[{self.index(size)}]" for name, (its, size) in names.arrays.items() if its == kind]
        pick = c.random()
        if choices and pick < 0.65:
            return c.choice(choices)
        if names.tables and pick < 0.72 and kind != "f16":
            name = c.choice([*names.tables])
            return f"load<{kind}>({name}, {self.simple('u32')}, {names.tables[name]}u)"
        if pick > 0.92 or not names.values:
            return literal(c, kind)
        other = c.choice([*names.values])
        return self.converted(other, names.values[other], kind)

    def simple(self, kind: str) -> str:
        """A variable, if there is one of the type, or a number."""
        names = self.names.of(kind)
        return self.chance.choice(names) if names and self.chance.random() < 0.9 else literal(self.chance, kind)

    def index(self, size: int) -> str:
        """An index below a power of 2."""
        c = self.chance
        if c.random() < 0.2:
            return str(c.randrange(size))
        kind = c.choice(["u32", "u32", "s32", "u64", "s64", "u8", "s16"])
        text = self.simple(kind)
        if c.random() < 0.3:
            text = f"add({text}, {kind}({c.randrange(1, 9)}))"
        return f"{text} & {size - 1}"

    def converted(self, text: str, source: str, target: str) -> str:
        """A value as another type."""
        c = self.chance
        if source == target:
            return text
        if source == "f16":
            if target in ("f32", "f64"):
                return f"{target}(__half2float({text}))"
            return f"{target}(bits({text}))"
        if target == "f16":
            if source == "f32":
                return f"__float2half{c.choice(['_rn', '_rn', '_rz', '_ru', '_rd'])}({text})"
            if source == "f64":
                return f"__double2half({text})"
            if source in ("s32", "u32", "s16", "u16", "s64", "u64") and c.random() < 0.5:
                short = {"s32": "int", "u32": "uint", "s16": "short", "u16": "ushort", "s64": "ll", "u64": "ull"}
                return f"__{short[source]}2half_rn({text})"
            return f"half_of(u16({text}))"
        if source in FLOATS:
            if target in FLOATS:
                return (
                    f"{target}({text})"
                    if c.random() < 0.6 or target == "f64"
                    else f"narrowed_{c.choice(ROUNDINGS)}({text})"
                )
            if target in ("s32", "u32", "s64", "u64") and c.random() < 0.6:
                return f"to_{target}({text}, {c.choice(['0u', '1u', '2u', '3u', self.simple('u32')])})"
            return f"truncated<{target}>({text})" if c.random() < 0.6 else f"{target}(bits({text}))"
        if target in FLOATS:
            if source in ("s128", "u128"):
                return f"{target}({'s64' if source[0] == 's' else 'u64'}({text} >> {c.choice([0, 13, 64, 70])}))"
            if target == "f32" and source in ("s32", "u32", "s64", "u64") and c.random() < 0.4:
                return f"from_{source}_{c.choice(ROUNDINGS)}({text})"
            if target == "f64" and source in ("s64", "u64") and c.random() < 0.4:
                return f"double_from_{source}_{c.choice(ROUNDINGS)}({text})"
            if c.random() < 0.3:
                return f"float_of(u32({text}))" if target == "f32" else f"double_of(u64({text}))"
            return f"{target}({text})"
        if c.random() < 0.2:
            return f"saturate<{target}>({text})"
        return f"{target}({text})"

    def _call(self, kind: str, depth: int) -> str | None:
        names, c = self.names, self.chance
        able = [callee for callee in names.callees if callee.result == kind and callee.cost <= names.budget]
        if not able:
            return None
        callee = c.choice(able)
        names.budget -= callee.cost
        return f"{callee.name}({', '.join(self.of(kind, depth + 1) for kind in callee.parameters)})"

    # Integers -----------------------------------------------------------------------------------------------------------------
    def _integer(self, kind: str, depth: int) -> str:
        c = self.chance

        def sub(its: str = kind) -> str:
            return self.of(its, depth + 1)

        def amount() -> str:
            if c.random() < 0.5:
                return f"{c.randrange(WIDTHS[kind] + 3)}u"
            return f"({sub('u32')} & {c.choice([7, 31, 63, 127])}u)" if c.random() < 0.6 else sub("u32")

        if kind in ("u32", "s32", "u64", "s64") and c.random() < 0.3:
            return self._special(kind, depth)
        pick = c.random()
        if pick < 0.3:
            return f"{c.choice(['add', 'add', 'sub', 'sub', 'mul'])}({sub()}, {sub()})"
        if pick < 0.42:
            return f"{kind}({sub()} {c.choice('&|^')} {sub()})"
        if pick < 0.56:
            return (
                f"{c.choice(['left', 'right', 'right', 'left_masked', 'right_masked', 'rotate'])}({sub()}, {amount()})"
            )
        if pick < 0.62:
            return f"{c.choice(['divide', 'modulo'])}({sub()}, {sub() if c.random() < 0.6 else literal(c, kind)})"
        if pick < 0.68:
            return f"{c.choice(['smaller', 'greater', 'distance', 'average', 'narrow_product', 'add_saturated'])}({sub()}, {sub()})"
        if pick < 0.72:
            return f"{c.choice(['neg', 'magnitude'])}({sub()})" if c.random() < 0.7 else f"{kind}(~{sub()})"
        if pick < 0.76:
            length = c.choice([f"{c.randrange(40)}u", sub("u32")])
            if c.random() < 0.5:
                return f"field({sub()}, {amount()}, {length})"
            return f"insert({sub()}, {sub()}, {amount()}, {length})"
        if pick < 0.8:
            return f"{kind}({self.condition(depth + 1)})"
        if pick < 0.84 and kind in ("u8", "s8", "u16", "s16"):
            return f"{kind}({sub()} {c.choice(['+', '-'])} {sub()})"  # in int, which holds it
        if pick < 0.88 and kind in ("s64", "u64", "s128", "u128", "s32", "u32"):
            half = f"{kind[0]}{WIDTHS[kind] // 2}"
            if kind != "u32":
                return f"({kind}({sub(half)}) * {sub(half)})"
        if pick < 0.91:
            which = self.chance.choice(["f32", "f64"])
            return f"{kind}(integral({sub(which)}, {c.randrange(6)}))"
        other = any_kind(c, 0.2)
        return self.converted(sub(other), other, kind)

    def _special(self, kind: str, depth: int) -> str:
        c = self.chance

        def sub(its: str = kind) -> str:
            return self.of(its, depth + 1)

        unsigned = kind.replace("s", "u")
        forms = [
            lambda: f"{kind}({c.choice(['ones', 'leading', 'first'])}({sub(unsigned)}))",
            lambda: f"{kind}(reversed({sub(unsigned)}))",
            lambda: f"high({sub()}, {sub()})",
        ]
        if kind == "u32":
            forms += [
                lambda: f"permuted({sub()}, {sub()}, {c.choice([sub(), f'{c.getrandbits(16):#x}u'])})",
                lambda: f"funnel({sub()}, {sub()}, {sub()}, {c.randrange(4)}u)",
                lambda: f"dot({sub()}, {sub()}, {sub()})",
                lambda: f"sum_of_difference({sub()}, {sub()}, {sub()})",
                lambda: f"sum_of_difference({sub('s32')}, {sub('s32')}, {sub()})",
                lambda: f"packed_{c.choice(PACKED)}({sub()}, {sub()})",
                lambda: f"packed_{c.choice(PACKED)}({sub()}, {sub()})",
                lambda: f"(({sub()} & {sub()}) ^ ({sub()} | ~{sub()}))",
            ]
        if kind == "s32":
            forms += [
                lambda: f"dot({sub()}, {sub()}, {sub()})",
                lambda: f"dot2({sub()}, {sub()}, {sub()}, {c.choice(['true', 'false'])})",
            ]
        if kind in ("u32", "s32"):
            forms += [
                lambda: f"low24({sub()}, {sub()})",
                lambda: f"middle({sub()}, {sub()}, {c.choice(['true', 'false'])})",
            ]
        return c.choice(forms)()

    # Floats -------------------------------------------------------------------------------------------------------------------
    def _float(self, kind: str, depth: int) -> str:
        c = self.chance

        def sub(its: str = kind) -> str:
            return self.of(its, depth + 1)

        pick = c.random()
        if pick < 0.3:
            return f"({sub()} {c.choice(['+', '-', '*', '+', '-', '*', '/'])} {sub()})"
        if pick < 0.5:
            name = c.choice(["sum", "product", "quotient", "fused"])
            operands = [sub() for _ in range(3 if name == "fused" else 2)]
            return f"{name}_{c.choice(ROUNDINGS)}({', '.join(operands)})"
        if pick < 0.55:
            return f"root_{c.choice(ROUNDINGS)}({kind}(fabs({sub()})))"
        if pick < 0.62:
            return f"{c.choice(['least_of', 'greatest_of'])}({sub()}, {sub()})"
        if pick < 0.67:
            return c.choice([f"(-{sub()})", f"{kind}(fabs({sub()}))"])
        if pick < 0.8:
            return f"exact({sub()}, {sub()}, {c.randrange(16)})"
        other = any_kind(c, 0.35)
        return self.converted(sub(other), other, kind)

    def _half(self, depth: int) -> str:
        c = self.chance

        def sub() -> str:
            return self.of("f16", depth + 1)

        pick = c.random()
        if pick < 0.5:
            return f"{c.choice(['__hadd', '__hsub', '__hmul', '__hdiv'])}({sub()}, {sub()})"
        if pick < 0.6:
            return f"fused_half({sub()}, {sub()}, {sub()})"
        if pick < 0.7:
            return f"{c.choice(['__hneg', '__habs'])}({sub()})"
        other = any_kind(c, 0.5)
        return self.converted(self.of(other, depth + 1), other, "f16")

    # Conditions ---------------------------------------------------------------------------------------------------------------
    def condition(self, depth: int = 0) -> str:
        c = self.chance
        pick = c.random()
        if pick < 0.2 and depth < self.deepest:
            return f"({self.condition(depth + 1)} {c.choice(['&&', '||'])} {self.condition(depth + 1)})"
        if pick < 0.25 and depth < self.deepest:
            return f"!{self.condition(depth + 1)}"
        if pick < 0.4:
            kind = c.choice(["u32", "u32", "u64"])
            return f"(({self.of(kind, depth + 1)} & {kind}({1 << c.randrange(6)})) {c.choice(['!=', '=='])} 0)"
        kind = c.choice([*INTEGERS, *FLOATS, *FLOATS, "u32", "s32", "u32"])
        return f"({self.of(kind, depth + 1)} {c.choice(['<', '>', '==', '!=', '<=', '>='])} {self.of(kind, depth + 1)})"
