"""Random loops whose host code decides by what it reads, for slices: the source of one program, by a seed.

Each function has variables of several types on its frame and in global variables, a few launches and copies, and statements that
compute with them: arithmetic that wraps, floating-point arithmetic with whatever numbers come, conversions, conditions, early ends.
"""

from __future__ import annotations

import random

TYPES = {"int": 4, "unsigned": 4, "long": 8, "unsigned char": 1, "short": 2, "float": 4, "double": 8}
INTEGERS = ("int", "unsigned", "long", "unsigned char", "short")


class _Function:
    def __init__(self, draw: random.Random, number: int) -> None:
        self._draw, self._number = draw, number
        self._variables = [(f"v{index}", draw.choice(list(TYPES))) for index in range(draw.randrange(3, 7))]
        self._globals = [("g_int", "int"), ("g_double", "double")] if draw.random() < 0.2 else []
        self._array = (draw.choice(("int", "double", "float")), draw.choice((4, 8))) if draw.random() < 0.6 else None
        self._where = draw.choice(("frame", "malloc", "vector", "global"))
        self._all = [*self._variables, *self._globals]
        # Members of a structure that the function is given; written seldom, which takes its slice.
        self._given = draw.random() < 0.3
        self._read_ = [*self._all, *([("g->i", "int"), ("g->d", "double")] if self._given else [])]
        if self._given and draw.random() < 0.1:
            self._all.append(("g->i", "int"))

    def _literal(self, type_: str) -> str:
        draw = self._draw
        if type_ == "float":
            return f"{draw.choice((0.0, 0.5, 1.5, -2.25, 1e-3, 3e7))}f"
        if type_ == "double":
            return str(draw.choice((0.0, 0.5, 1.5, -2.25, 1e-9, 3e200)))
        return str(draw.choice((0, 1, 2, 3, 7, 10, 100, 127, 4096)))

    def _value(self, wanted: str, depth: int = 0) -> str:
        """An expression that may be assigned to a variable of a type."""
        draw = self._draw
        kind = draw.randrange(9) if depth < 3 else draw.randrange(3)
        if kind == 0:
            return self._literal(wanted)
        if kind in (1, 2):
            name, type_ = draw.choice(self._read_)
            if type_ in ("float", "double") and wanted in INTEGERS:
                return f"whole({name})"
            return name if type_ == wanted else f"({wanted}){name}"
        if kind == 3:
            return (
                f"({self._condition(depth + 1)} ? {self._value(wanted, depth + 1)} : {self._value(wanted, depth + 1)})"
            )
        first, second = self._value(wanted, depth + 1), self._value(wanted, depth + 1)
        if wanted in ("float", "double"):
            if kind == 4:
                name = draw.choice(("sqrt", "fabs", "floor", "ceil", "rint", "trunc"))
                return f"{draw.choice((name + 'f' * (wanted == 'float'), '-'))}({first})"
            return f"({first} {draw.choice('+-*/')} {second})"
        unsigned = {"int": "unsigned", "long": "unsigned long", "short": "unsigned", "unsigned char": "unsigned"}.get(
            wanted, wanted
        )
        if kind == 4:
            return f"({wanted})({first} {draw.choice(('/', '%'))} {draw.choice((3, 7, 10, 16, 1000))})"
        if kind == 5:
            return f"({wanted})(({unsigned}){first} {draw.choice(('<<', '>>'))} {draw.randrange(1, 8)})"
        return f"({wanted})(({unsigned}){first} {draw.choice(('+', '-', '*', '&', '|', '^'))} ({unsigned}){second})"

    def _condition(self, depth: int = 0) -> str:
        draw = self._draw
        if depth < 2 and draw.random() < 0.2:
            return f"({self._condition(depth + 1)} {draw.choice(('&&', '||'))} {self._condition(depth + 1)})"
        name, type_ = draw.choice(self._all)
        return f"({name} {draw.choice(('<', '>', '<=', '>=', '==', '!='))} {self._value(type_, 2)})"

    def _launch(self) -> str:
        draw = self._draw
        grid = draw.choice(("1", "n", "k + 1", f"1 + ({self._value('unsigned', 2)} & 63)"))
        return f"step<<<{grid}, {draw.choice((1, 32, 128))}>>>({draw.choice(('x', 'y', 'from'))}, f, {self._value('float', 1)}, {self._value('double', 1)});"

    def _read(self) -> str:
        name, _ = self._draw.choice(self._all)
        return f"cudaMemcpy(&{name}, f, sizeof {name}, cudaMemcpyDeviceToHost);"

    def _address(self) -> str:
        return "parts.data()" if self._where == "vector" else "parts"

    def _declared(self, type_: str, count: int) -> str:
        """The array, with numbers in it."""
        if self._where == "vector":
            return f"std::vector<{type_}> parts({count}, 2);"
        if self._where == "malloc":
            made = f"{type_} *parts = ({type_} *)malloc({count} * sizeof({type_}));"
            return f"{made} for (int i = 0; i < {count}; ++i) parts[i] = i + 1;"
        kept = "static " if self._where == "global" else ""
        return f"{kept}{type_} parts[{count}] = {{1, 2, 3}};"

    def _loop(self, type_: str, count: int) -> list[str]:
        """Over the array, or at one computed place of it."""
        draw = self._draw
        name, other = draw.choice(self._variables)
        element = "whole(parts[i])" if type_ != "int" and other in INTEGERS else "parts[i]"
        return draw.choice(
            (
                [f"for (int i = 0; i < {count}; ++i) {name} = ({other})({name} + {element});"],
                [f"for (int i = 1; i < {count}; ++i) if (parts[i] < parts[i - 1]) parts[i] = parts[i - 1];"],
                [f"parts[k & {count - 1}] = {self._value(type_, 2)};"],
                [
                    f"for (int i = 0; i < n; ++i) parts[i] = ({type_})(parts[i] {draw.choice('+-')} {self._value(type_, 2)});"
                ],
                [f"cudaMemcpy(f, {self._address()}, {count} * sizeof({type_}), cudaMemcpyHostToDevice);"],
                [f"cudaMemcpy({self._address()}, f, {count} * sizeof({type_}), cudaMemcpyDeviceToHost);"],
            )
        )

    def _statement(self, depth: int = 0) -> list[str]:
        draw = self._draw
        kind = draw.randrange(12)
        if self._array is not None and draw.random() < 0.3:
            return self._loop(*self._array)
        if kind < 5:
            name, type_ = draw.choice(self._all)
            return [f"{name} = {self._value(type_)};"]
        if kind == 5:
            name, type_ = draw.choice(self._all)
            return (
                [f"{name} {draw.choice(('+=', '-='))} {self._literal(type_)};"]
                if type_ in ("unsigned", "float", "double")
                else [f"{name} ^= 5;"]
            )
        if kind == 6:
            return [self._launch()]
        if kind == 7:
            return [self._read()]
        if kind == 8:
            return [f'printf("%g\\n", (double){draw.choice(self._all)[0]});']
        if kind == 9:
            return ["{ float *kept = from; from = to; to = kept; }"]
        if kind == 10 and depth < 2:
            ends = draw.random() < 0.3
            inner = [draw.choice(("break;", "LEFT; return;", "continue;"))] if ends else self._statement(depth + 1)
            other = ["else {", *self._statement(depth + 1), "}"] if not ends and draw.random() < 0.5 else []
            return [f"if ({self._condition()}) {{", *inner, "}", *other]
        name, _ = draw.choice(self._variables)
        return [f"cudaMemcpy(f, &{name}, sizeof {name}, cudaMemcpyHostToDevice);"]

    def text(self) -> str:
        draw = self._draw
        declared = [f"{type_} {name} = ({type_}){self._literal(type_)};" for name, type_ in self._variables]
        if self._array is not None:
            declared.append(self._declared(*self._array))
        body = [self._launch(), self._read()]
        for _ in range(draw.randrange(2, 8)):
            body += self._statement()
        draw.shuffle(body) if all(len(each) and "{" not in each and "}" not in each for each in body) else None
        lines = [
            self._head(),
            *declared,
            "float *from = x, *to = y;",
            f"for (int k = 0; k < 40 && {self._condition()}; ++k) {{",
            *body,
            "}",
            "LEFT;",
            "}",
        ]
        if self._given:
            lines.append(f"PROGRAM(random_{self._number}) {{ given_{self._number}(x, y, f, d, n, &extra); }}")
        return "\n".join(lines)

    def _head(self) -> str:
        if not self._given:
            return f"PROGRAM(random_{self._number}) {{"
        parameters = "float *x, float *y, int *f, double *d, int n, Extra *g"
        return f"__attribute__((noinline, noipa)) static void given_{self._number}({parameters}) {{"


def source(seed: int, functions: int) -> str:
    """A program of so many functions."""
    draw = random.Random(seed)
    text = ["#include <vector>", '#include "common.cuh"', "int g_int = 3;", "double g_double = 0.25;"]
    text.append("struct Extra { double d; int i; } extra = {1.25, 9};")
    text.append("static inline int whole(double value) { return value > -1e9 && value < 1e9 ? (int)value : -7; }")
    text += [_Function(draw, number).text() for number in range(functions)]
    calls = "\n".join(f"random_{number}(x, y, f, d, 3), LEFT;" for number in range(functions))
    text.append(
        "int main() { float *x, *y; int *f; double *d; cudaMalloc(&x, 4096), cudaMalloc(&y, 4096), cudaMalloc(&f, 64), cudaMalloc(&d, 64);\n"
        f"{calls}\n}}\n"
    )
    return "\n".join(text)
