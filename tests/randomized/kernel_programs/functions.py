"""Random functions: of plain values, of structures, by pointer, recursive, through tables and virtual.

Each becomes a `Callee`, so that expressions need not know what is behind a call.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from kernel_programs.expressions import Callee, Expressions, Names
from kernel_programs.kinds import FLOATS, any_kind, literal
from kernel_programs.statements import INDENT, Body, statement

ATTRIBUTES = ["APART", "APART", "BOTH inline", "BOTH __forceinline__"]


def digest(kind: str, text: str) -> str:
    """A value as a number, for sums."""
    return f"u64(bits({text}))" if kind in ("f16", *FLOATS) else f"u64({text})"


class Program:
    """What a program's functions have in common: structures and callees so far."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.parts: list[str] = []
        self.callees: list[Callee] = []
        self.calls: list[tuple[str, tuple[str, ...], int]] = []
        self.structures: dict[str, list[tuple[str, str, int]]] = {}  # name -> (field, kind, length; 0: no array)
        self.pointed: list[
            tuple[str, str, int]
        ] = []  # functions that change what is behind a pointer: name, kind, cost

    # Structures -------------------------------------------------------------------------------------------------------------
    def structure(self) -> str:
        c = self.chance
        name = f"S{len(self.structures)}"
        fields = []
        for number in range(c.randint(1, 6)):
            fields.append((f"f{number}", any_kind(c, 0.3), c.choice([0, 0, 0, 0, 2, 4, 8])))
        alignment = c.choice(["", "", "", "alignas(16) ", "alignas(8) "])
        lines = [f"struct {alignment}{name} {{"]
        lines += [f"{INDENT}{kind} {field}{f'[{length}]' if length else ''};" for field, kind, length in fields]
        self.parts.append("\n".join([*lines, "};"]))
        self.structures[name] = fields
        return name

    def declare(self, body: Body, name: str, structure: str) -> None:
        """A local variable of a structure, whose fields are variables."""
        body.locals.append(f"{structure} {name};")
        for field, kind, length in self.structures[structure]:
            if length:
                body.names.arrays[f"{name}.{field}"] = (kind, length)
                body.locals.append(
                    f"for (u32 k = 0; k < {length}; ++k) {name}.{field}[k] = {self._initial(kind, 'u64(k)')};"
                )
            else:
                body.names.values[f"{name}.{field}"] = body.writable[f"{name}.{field}"] = kind
                body.locals.append(f"{name}.{field} = {literal(self.chance, kind)};")

    def _initial(self, kind: str, text: str) -> str:
        multiplied = f"{text} * {self.chance.getrandbits(40) | 1:#x}ull"
        if kind == "f16":
            return f"half_of(u16({multiplied}))"
        return f"{kind}({multiplied})"

    # Bodies -----------------------------------------------------------------------------------------------------------------
    def body(self, parameters: dict[str, str], returns: str, result: str, size: int, table: bool = False) -> Body:
        """A body with local variables, which begin with the parameters or numbers."""
        c = self.chance
        names = Names(c, values=dict(parameters), callees=self.callees[-6:])
        if table:
            names.tables["data"] = 256
        body = Body(names, Expressions(names, c.choice([2, 3, 3])), returns, result, size, writable=dict(parameters))
        body.calls = self.calls[-4:]
        # An index and loop bounds want one of these.
        for kind in ["u32", "u32", "s32", *(any_kind(c) for _ in range(c.randint(2, 6)))]:
            name = body.fresh("v")
            source = c.choice([*parameters])
            value = Expressions(names).converted(source, parameters[source], kind)
            if c.random() < 0.3:
                value = literal(c, kind)
            body.locals.append(f"{kind} {name} = {value};")
            names.values[name] = body.writable[name] = kind
        for _ in range(c.choice([0, 1, 1, 2])):
            kind, length, name = any_kind(c, 0.2), c.choice([2, 4, 8, 16, 32]), body.fresh("a")
            body.locals.append(f"{kind} {name}[{length}];")
            body.locals.append(f"for (u32 k = 0; k < {length}; ++k) {name}[k] = {self._initial(kind, 'u64(k)')};")
            names.arrays[name] = (kind, length)
        if self.structures and c.random() < 0.5:
            self.declare(body, body.fresh("r"), c.choice([*self.structures]))
        for name, kind, cost in self.pointed[-3:]:
            for array, (its, length) in names.arrays.items():
                if its == kind:
                    body.calls.append((f"{name}(&{array}[{{}} & {length - 1}], {{}});", ("u32", kind), cost))
            for variable in names.of(kind):
                if variable not in parameters:
                    body.calls.append((f"{name}(&{variable}, {{}});", (kind,), cost))
        return body

    @staticmethod
    def text(head: str, body: Body, tail: Sequence[str]) -> str:
        indented = [INDENT + line for line in [*body.locals, "Trace trace = {0};"]]
        return "\n".join([f"{head} {{", *indented, *body.lines, *(INDENT + line for line in tail), "}"])

    def _ending(self, body: Body, kind: str) -> list[str]:
        """A result of a type that depends on everything."""
        lines = [f"trace.take({name});" for name in body.names.values]
        lines += [
            f"for (u32 k = 0; k < {length}; ++k) trace.take({name}[k]);"
            for name, (_, length) in body.names.arrays.items()
        ]
        its = {"f16": "half_of(u16(trace.sum))", "f32": "float_of(u32(trace.sum))", "f64": "double_of(trace.sum)"}
        value = its.get(kind, f"{kind}(trace.sum)")
        own = body.names.of(kind)
        if own and self.chance.random() < 0.4:
            value = self.chance.choice(own)
        return [*lines, f"return {value};"]

    # Kinds of functions -----------------------------------------------------------------------------------------------------
    def plain(self) -> None:
        c = self.chance
        name, kind = f"plain_{len(self.parts)}", any_kind(c)
        parameters = {f"p{number}": any_kind(c) for number in range(c.randint(1, 5))}
        body = self.body(parameters, "return {};", kind, c.randint(3, 10))
        for _ in range(c.randint(1, 4)):
            statement(body)
        head = f"{c.choice(ATTRIBUTES)} {kind} {name}({', '.join(f'{its} {p}' for p, its in parameters.items())})"
        self.parts.append(self.text(head, body, self._ending(body, kind)))
        self.callees.append(Callee(name, kind, tuple(parameters.values()), body.cost + 5))

    def recursive(self) -> None:
        """Calls itself a number of times that a parameter bounds; sometimes with another function between."""
        c = self.chance
        name, kind, most = f"recursive_{len(self.parts)}", any_kind(c), c.choice([2, 4, 7])
        body = self.body({"p0": kind, "p1": "u32"}, "return {};", kind, c.randint(2, 6))
        for _ in range(c.randint(1, 2)):
            statement(body)
        own = body.of(kind)
        body.write(f"if (fuel > 0u && {body.condition()}) {{")
        target = name
        if c.random() < 0.4:
            target = f"{name}_between"
            self.parts.append(f"APART {kind} {name}({kind} p0, u32 p1, u32 fuel);")
            self.parts.append(
                f"APART {kind} {target}({kind} p0, u32 p1, u32 fuel) {{\n    if (p1 & 1u) return p0;\n"
                f"    return {name}(p0, p1 >> 1, fuel);\n}}"
            )
        its = c.choice([its for its, its_kind in body.writable.items() if its_kind == kind])
        body.write(f"{INDENT}{its} = {target}({own}, {body.of('u32')}, fuel - 1u);")
        body.write("}")
        self.parts.append(
            self.text(f"APART {kind} {name}({kind} p0, u32 p1, u32 fuel)", body, self._ending(body, kind))
        )
        self.parts.append(
            f"APART {kind} {name}_begun({kind} p0, u32 p1) {{ return {name}(p0, p1, p1 % {most + 1}u); }}"
        )
        self.callees.append(Callee(f"{name}_begun", kind, (kind, "u32"), (body.cost + 8) * (most + 1)))

    def table(self) -> None:
        """One of several functions, by a pointer that is read from an array or chosen."""
        c = self.chance
        name, kind, other = f"table_{len(self.parts)}", any_kind(c), any_kind(c)
        count, cost = c.choice([2, 3, 4, 5]), 0
        for number in range(count):
            body = self.body({"p0": kind, "p1": other}, "return {};", kind, c.randint(1, 4))
            statement(body)
            cost = max(cost, body.cost)
            self.parts.append(
                self.text(f"APART {kind} {name}_{number}({kind} p0, {other} p1)", body, self._ending(body, kind))
            )
        lines = [f"APART {kind} {name}(u32 which, {kind} p0, {other} p1) {{"]
        if c.random() < 0.5:
            pointers = ", ".join(f"{name}_{number}" for number in range(count))
            lines += [
                f"{INDENT}{kind} (*functions[{count}])({kind}, {other}) = {{{pointers}}};",
                f"{INDENT}return functions[which % {count}u](p0, p1);",
            ]
        else:
            lines += [f"{INDENT}{kind} (*function)({kind}, {other}) = {name}_0;"]
            lines += [f"{INDENT}if (which % {count}u == {k}u) function = {name}_{k};" for k in range(1, count)]
            lines += [f"{INDENT}if (which & 16u) p0 = function(p0, p1);", f"{INDENT}return function(p0, p1);"]
        self.parts.append("\n".join([*lines, "}"]))
        self.callees.append(Callee(name, kind, ("u32", kind, other), 2 * cost + 12))

    def virtual(self) -> None:
        c = self.chance
        name, kind, other = f"Virtual_{len(self.parts)}", any_kind(c), any_kind(c)
        count, cost = c.choice([2, 3]), 0
        lines = [
            f"struct {name} {{",
            f"{INDENT}{other} own;",
            f"{INDENT}BOTH explicit {name}({other} value) : own(value) {{}}",
            f"{INDENT}BOTH virtual {kind} act({kind} p0, u32 p1) = 0;",
            f"{INDENT}BOTH virtual u32 which() const {{ return 7; }}",
            "};",
        ]
        self.parts.append("\n".join(lines))
        for number in range(count):
            body = self.body({"p0": kind, "p1": "u32", "own": other}, "return {};", kind, c.randint(1, 4))
            statement(body)
            cost = max(cost, body.cost)
            extra = f"{INDENT}{any_kind(c)} more[{c.randrange(1, 4)}];\n" if c.random() < 0.4 else ""
            method = self.text(f"BOTH {kind} act({kind} p0, u32 p1) override", body, self._ending(body, kind))
            method = "\n".join(INDENT + line if not line.startswith("#") else line for line in method.split("\n"))
            second = f"{INDENT}BOTH u32 which() const override {{ return {number}; }}\n" if c.random() < 0.5 else ""
            self.parts.append(
                f"struct {name}_{number} : {name} {{\n{extra}"
                f"{INDENT}BOTH explicit {name}_{number}({other} value) : {name}(value) {{}}\n{second}{method}\n}};"
            )
        lines = [f"APART {kind} call_{name}(u32 which, {kind} p0, {other} p1) {{"]
        lines += [f"{INDENT}{name}_{k} o{k}(p1);" for k in range(count)]
        lines += [f"{INDENT}{name} *objects[{count}] = {{{', '.join(f'&o{k}' for k in range(count))}}};"]
        lines += [f"{INDENT}{name} *object = objects[which % {count}u];", f"{INDENT}p0 = object->act(p0, which);"]
        lines += [f"{INDENT}return objects[object->which() % {count}u]->act(p0, which);", "}"]
        self.parts.append("\n".join(lines))
        self.callees.append(Callee(f"call_{name}", kind, ("u32", kind, other), 2 * cost + 20))

    def by_value(self) -> None:
        """A structure goes in and comes back by value."""
        c = self.chance
        if not self.structures or c.random() < 0.6:
            self.structure()
        name, structure, kind = f"by_value_{len(self.parts)}", c.choice([*self.structures]), any_kind(c)
        body = self.body({"p0": kind, "p1": "u32"}, "{{ s.{first} = {{}}; return s; }}", "", c.randint(2, 7))
        for field, its, length in self.structures[structure]:
            if length:
                body.names.arrays[f"s.{field}"] = (its, length)
            else:
                body.names.values[f"s.{field}"] = body.writable[f"s.{field}"] = its
        body.returns = "return s;"
        for _ in range(c.randint(1, 3)):
            statement(body)
        self.parts.append(self.text(f"APART {structure} {name}({structure} s, {kind} p0, u32 p1)", body, ["return s;"]))
        outer = self.body({"p0": kind, "p1": "u32"}, "return {};", kind, 3)
        self.declare(outer, "x", structure)
        statement(outer)
        outer.write(f"{structure} y = {name}(x, p0, p1);")
        if c.random() < 0.5:
            outer.write(f"if (p1 & 2u) y = {name}({c.choice(['x', 'y'])}, p0, p1 + 1u);")
        tail = []
        for field, _, length in self.structures[structure]:
            tail.append(
                f"for (u32 k = 0; k < {length}; ++k) trace.take(y.{field}[k]);" if length else f"trace.take(y.{field});"
            )
        text = self.text(
            f"{c.choice(ATTRIBUTES)} {kind} use_{name}({kind} p0, u32 p1)", outer, [*tail, *self._ending(outer, kind)]
        )
        self.parts.append(text)
        self.callees.append(Callee(f"use_{name}", kind, (kind, "u32"), 2 * body.cost + outer.cost + 20))

    def by_pointer(self) -> None:
        """Changes what is behind a pointer: a local variable or an array's element."""
        c = self.chance
        name, kind = f"by_pointer_{len(self.parts)}", any_kind(c)
        body = self.body({"p0": kind}, "{ *p = {}; return; }", kind, c.randint(1, 4))
        body.returns = "*p = {}; return;"
        statement(body)
        head = f"APART void {name}({kind} *p, {kind} p0)"
        body.writable["(*p)"] = body.names.values["(*p)"] = kind
        for _ in range(c.randint(1, 2)):
            statement(body)
        self.parts.append(self.text(head, body, []))
        self.pointed.append((name, kind, body.cost + 3))

    def thread(self, number: int, words: int) -> None:
        """What one thread of a kernel does: leaves words and a trace."""
        c = self.chance
        body = self.body(
            {"t": "u32", "x": "u64", "y": "u64"},
            "{ trace.take({}); return trace.sum; }",
            "u64",
            c.randint(12, 34),
            True,
        )
        body.returns = "trace.take({}); return trace.sum;"
        for _ in range(c.randint(4, 9)):
            statement(body)
        values = [name for name in body.names.values if name not in ("x", "y", "t")]
        chosen = c.sample(values, min(words, len(values)))
        tail = [f"out[{k}] = {digest(body.names.values[name], name)};" for k, name in enumerate(chosen)]
        tail += self._ending(body, "u64")[:-1]
        head = f"APART u64 thread_{number}(u32 t, u64 x, u64 y, const u8 *data, u64 *out)"
        self.parts.append(self.text(head, body, [*tail, "return trace.sum;"]))


HELPERS = [Program.plain, Program.plain, Program.plain, Program.recursive, Program.table, Program.virtual, Program.by_value, Program.by_value, Program.by_pointer]  # fmt: skip
