"""Random functions that copy to the host several times: destinations of all kinds, and what may look at them between.

A function's copies may join the next call that waits where that is proven. Each copy brings other numbers, and a function
prints what it has read, so a copy that comes too late shows in the output.
"""

from __future__ import annotations

import random

COUNT = 8  # numbers of a copy
HEAD = """#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

int global_a[8], global_b[16], *global_pointer = global_a, *kept, total, global_count = 8;
struct Holder { int *to, *from, count, own[8]; } holder = {global_b, global_a, 8, {}};
#define OPAQUE __attribute__((noinline, noipa))
#define CHECK(call) do { cudaError_t code_ = (call); if (code_ != cudaSuccess) { fprintf(stderr, "failed\\n"); exit(1); } } while (0)

__global__ void fill(int *x, int *y, int by) {
    int i = threadIdx.x;
    x[i] = by + i % 4, y[i] = 2 * by - i % 3;
}

OPAQUE void look() { if (kept) total += kept[1]; total += global_a[2] + *global_pointer; }
OPAQUE int sum(const int *values) { int found = 0; for (int i = 0; i < 8; ++i) found = found * 31 + values[i]; return found; }
inline int plain(const int *values) { return values[0] + values[7]; }
"""


class _Function:
    def __init__(self, draw: random.Random, number: int) -> None:
        self._draw, self._number, self._fresh = draw, number, 0
        self._own = draw.sample(("local", "block", "vector", "other"), draw.randrange(1, 4))
        self._checked = draw.random() < 0.7

    def _place(self) -> str:
        """An address of 8 numbers of the host."""
        own = {"local": "local", "block": "block", "vector": "vector.data()", "other": "other"}
        shared = ("a", "b", "global_a", "global_b", "(global_b + 4)", "global_pointer", "h->to", "h->own", "holder.to")
        if self._draw.random() < 0.6:
            return own[self._draw.choice(self._own)]
        return self._draw.choice(shared)

    def _call(self, text: str) -> str:
        return f"CHECK({text});" if self._checked else f"{text};"

    def _copy(self) -> str:
        draw = self._draw
        size = draw.choice(("32", "32", "n * 4", "global_count * 4", "16", "h->count * 4"))
        source = draw.choice(("x", "y", "x + 1"))
        to = self._place()
        if draw.random() < 0.15:
            return self._call(f"cudaMemcpyAsync({to}, {source}, {size}, cudaMemcpyDeviceToHost)")
        return self._call(f"cudaMemcpy({to}, {source}, {size}, cudaMemcpyDeviceToHost)")

    def _between(self, depth: int = 0) -> str:
        draw = self._draw
        place, at = self._place(), draw.randrange(COUNT)
        self._fresh += 1
        few = (
            f"fill<<<1, 9>>>(x, y, {draw.randrange(1000)});",
            f"fill<<<1, 9>>>(x, y, {draw.randrange(1000)});",
            self._call(f"cudaMemcpy(x, {place}, 32, cudaMemcpyHostToDevice)"),
            self._call("cudaMemset(y, 0, 16)"),
            self._call("cudaDeviceSynchronize()"),
            f"total += {place}[{at}];",
            f"{place}[{at}] = {draw.randrange(50)};",
            f"int t{self._fresh} = {place}[{at}]; total ^= t{self._fresh};",
            f"memmove({place}, {self._place()}, 16);",
            f"total += plain({place});",
            f"kept = {place};",
            "look();",
            f"total += sum({place});",
            "global_pointer = global_pointer == global_a ? global_b : global_a;",
            "h->count = 12 - h->count;",
            "global_count = 12 - global_count;",
            'printf("%d\\n", total);',
            "total++;",
            "a = b;",
            f"if (total & 1) {{ {self._copy()} }}",
        )
        kind = draw.randrange(len(few) + 5)
        if kind < len(few):
            return few[kind]
        if depth > 1 or kind == len(few):
            return f"if (n > 9) {{ kept = nullptr; return; }} total -= {draw.randrange(9)};"
        inner = " ".join(self._copy() if draw.random() < 0.5 else self._between(depth + 1) for _ in range(2))
        if kind == len(few) + 1:
            return f"for (int i = 0; i < {draw.randrange(1, 4)}; ++i) {{ {inner} }}"
        if kind == len(few) + 2:
            return f"if ({place}[{at}] > 40) {{ {inner} }}"
        if kind == len(few) + 3:
            return f"if (n == 8) {{ {inner} }} else {{ {self._copy()} }}"
        return f"{{ int inside[8]; {self._call('cudaMemcpy(inside, y, 32, cudaMemcpyDeviceToHost)')} {inner} }}"

    def text(self) -> str:
        draw = self._draw
        made = {
            "local": "int local[8] = {};",
            "other": "int other[8] = {1};",
            "block": "int *block = (int *)calloc(8, 4);",
            "vector": "std::vector<int> vector(8);",
        }
        lines = [f"OPAQUE void random_{self._number}(int *x, int *y, int *a, int *b, Holder *h, int n) {{"]
        lines += [made[each] for each in self._own]
        for _ in range(draw.randrange(3, 9)):
            lines.append(self._copy() if draw.random() < 0.6 else self._between())
        places = {"local": "local", "block": "block", "vector": "vector.data()", "other": "other"}
        shown = [f"sum({places[each]})" for each in self._own]
        for each in (*shown, "sum(a)", "sum(b)", "sum(global_a)", "sum(global_b + 4)", "sum(h->own)", "total"):
            lines.append(f'printf("%d ", {each});')
        lines.append('printf("\\n"); kept = nullptr;')
        if "block" in self._own:
            lines.append("free(block);")
        return "\n    ".join(lines) + "\n}\n"


def source(seed: int, functions: int) -> str:
    """A program with so many functions, each of which is run with several arguments, some of which overlap."""
    draw = random.Random(seed)
    texts = [_Function(draw, number).text() for number in range(functions)]
    runs = []
    for number in range(functions):
        for arguments in ("p, q, &holder, 8", "p, p + 4, &other, 8", "global_a, global_b, &holder, 8"):
            runs.append(
                f"""    printf("{number}: "); fill<<<1, 9>>>(x, y, {number + 3}); random_{number}(x, y, {arguments});"""
            )
    body = "\n".join(runs)
    return f"""{HEAD}
{"".join(texts)}
int main() {{
    int *x, *y, p[16] = {{}}, q[16] = {{}};
    Holder other = {{p, q, 4, {{}}}};
    CHECK(cudaMalloc(&x, 64));
    CHECK(cudaMalloc(&y, 64));
{body}
}}
"""
