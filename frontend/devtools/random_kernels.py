"""Random CUDA programs that check themselves: each kernel is a function compiled for the device and for the CPU.

Owns the generator. A program has several functions of random statements over integers and floats: nested and early-leaving
control flow that diverges between threads, loops, switches, local arrays, calls, and between them barriers with
exchanges through shared memory, warp shuffles and votes, which the CPU's side models. What C++ leaves undefined or
implementation-defined is avoided: arithmetic is unsigned or masked, divisors are not 0, floats use only exactly
rounded operations that the device must not fuse.
"""

from __future__ import annotations

import random

THREADS = 128
BLOCKS = 3

PREAMBLE = """// Random program {seed}: made by farlane.frontend.devtools.random_kernels.
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <vector>
#include <cuda_runtime.h>
#define BOTH __host__ __device__
typedef uint32_t u32;
typedef uint64_t u64;
typedef int32_t s32;
typedef int64_t s64;

#ifdef __CUDA_ARCH__
BOTH inline float add_f(float a, float b) {{ return __fadd_rn(a, b); }}
BOTH inline float mul_f(float a, float b) {{ return __fmul_rn(a, b); }}
BOTH inline double add_d(double a, double b) {{ return __dadd_rn(a, b); }}
BOTH inline double mul_d(double a, double b) {{ return __dmul_rn(a, b); }}
#else
BOTH inline float add_f(float a, float b) {{ volatile float r = a + b; return r; }}
BOTH inline float mul_f(float a, float b) {{ volatile float r = a * b; return r; }}
BOTH inline double add_d(double a, double b) {{ volatile double r = a + b; return r; }}
BOTH inline double mul_d(double a, double b) {{ volatile double r = a * b; return r; }}
#endif
BOTH inline s32 asr(s32 v, u32 n) {{ return v >> (n & 31); }}
BOTH inline u32 rotate(u32 v, u32 n) {{ return v << (n & 31) | v >> (-n & 31); }}
BOTH inline u32 mulhi(u32 a, u32 b) {{ return u32(u64(a) * b >> 32); }}
BOTH inline s32 s_div(s32 a, s32 b) {{ return b == 0 || (b == -1 && a == INT32_MIN) ? a : a / b; }}
BOTH inline s32 s_rem(s32 a, s32 b) {{ return b == 0 || b == -1 ? 0 : a % b; }}
BOTH inline u32 bits(float f) {{ u32 r; memcpy(&r, &f, 4); return f != f ? 0x7FC00000u : r; }}
BOTH inline u32 bits(double d) {{ u64 r; memcpy(&r, &d, 8); return d != d ? 7u : u32(r ^ r >> 32); }}
"""

MAIN = """
int main() {{
    const int n = {blocks} * {threads};
    std::vector<u32> in(n), out(n), expected(n);
    u32 state = {seed}u;
    for (u32 &v : in) {{
        state = state * 1664525u + 1013904223u;
        v = state >> 3 & 1 ? state >> 24 : state;
    }}
    u32 *device_in, *device_out;
    if (cudaMalloc(&device_in, n * 4) || cudaMalloc(&device_out, n * 4) ||
        cudaMemcpy(device_in, in.data(), n * 4, cudaMemcpyHostToDevice)) {{
        return 2;
    }}
    int failures = 0;
{calls}
    std::printf(failures ? "FAIL\\n" : "PASS\\n");
    return failures != 0;
}}
"""

CALL = """    kernel_{k}<<<{blocks}, {threads}>>>(device_in, device_out);
    if (cudaError_t error = cudaMemcpy(out.data(), device_out, n * 4, cudaMemcpyDeviceToHost)) {{
        std::printf("kernel {k}: %s\\n", cudaGetErrorString(error));
        return 1;
    }}
    reference_{k}(in, expected);
    for (int i = 0; i < n; ++i) {{
        if (out[i] != expected[i]) {{
            std::printf("kernel {k}, thread %d: %08x, expected %08x (in %08x)\\n", i, out[i], expected[i], in[i]);
            ++failures;
            break;
        }}
    }}
"""


class _Function:
    """Writes one function `u32 name(u32 x, u32 t)` of random statements. Variables: u32 a..d, s32 p q, u64 w, float f, double g."""

    def __init__(self, chance: random.Random, name: str, callees: list[str]) -> None:
        self.chance = chance
        self.name = name
        self.callees = callees
        self.loops = 0
        self.depth = 0
        self.budget = chance.randint(6, 26)

    def u32(self, depth: int = 0) -> str:
        c = self.chance
        if depth > 3 or c.random() < 0.3:
            return c.choice(
                ["a", "b", "c", "d", "x", "t", f"{c.getrandbits(c.choice([3, 8, 32]))}u", "u32(p)", "array[d & 7]"]
            )
        one, two = self.u32(depth + 1), self.u32(depth + 1)
        kind: int = c.choice([*range(11), *range(9)])  # divisions (the last two) less often: they are slow to compile
        if kind < 4:
            return f"({one} {c.choice(['+', '-', '*', '^', '&', '|'])} {two})"
        forms: list[str] = [
            f"({one} << ({two} & 31))", f"({one} >> ({two} & 31))", f"rotate({one}, {two})", f"mulhi({one}, {two})",
            f"({self.condition(depth + 1)} ? {one} : {two})", f"({one} / ({two} | 1))", f"({one} % ({two} | 1))",
        ]  # fmt: skip
        return forms[kind - 4]

    def condition(self, depth: int = 0) -> str:
        c = self.chance
        kind = c.randrange(7)
        if kind == 0 and depth < 3:
            return f"({self.condition(depth + 1)} {c.choice(['&&', '||'])} {self.condition(depth + 1)})"
        if kind == 1:
            return f"(s32({self.u32(depth + 1)}) {c.choice(['<', '>', '<=', '>='])} q)"
        if kind == 2:
            return f"(f {c.choice(['<', '>', '<=', '!='])} {c.choice(['1.5f', 'float(g)', 'add_f(f, 1.0f)'])})"
        if kind == 3:
            return f"(({self.u32(depth + 1)} & {1 << c.randrange(6)}u) != 0)"
        return f"({self.u32(depth + 1)} {c.choice(['<', '>', '==', '!=', '<=', '>='])} {self.u32(depth + 1)})"

    def assignment(self) -> str:
        c = self.chance
        kind = c.randrange(14)
        if kind < 6:
            return f"{c.choice('abcd')} {c.choice(['=', '+=', '^=', '-='])} {self.u32()};"
        return [
            f"array[{self.u32(2)} & 7] {c.choice(['=', '^=', '+='])} {self.u32(1)};",
            f"p = {c.choice(['asr', 'asr', 'asr', 's_div', 's_rem'])}(s32({self.u32(1)}), s32({self.u32(2)}));",
            f"q = s32({self.u32(1)}) >> {c.randrange(28)};",
            f"w = w * {self.u32(2)} + (u64({self.u32(2)}) << 17);",
            "a ^= u32(w >> (b & 63)); w ^= w >> 7;",
            f"f = {c.choice(['add_f', 'mul_f'])}(f, float(s32({self.u32(2)}) >> 12) * 0.125f); b ^= bits(f);",
            f"g = {c.choice(['add_d', 'mul_d'])}(g, double(s32({self.u32(2)})) * 0.5); c += bits(g);",
            f"d ^= {c.choice(self.callees)}({self.u32(1)}, {self.u32(2)});" if self.callees else f"d ^= {self.u32()};",
        ][kind - 6]  # fmt: skip

    def block(self, indent: str, in_loop: bool) -> list[str]:
        lines: list[str] = []
        for _ in range(self.chance.randint(1, 4)):
            lines += self.statement(indent, in_loop)
        return lines

    def statement(self, indent: str, in_loop: bool) -> list[str]:
        c = self.chance
        self.budget -= 1
        inner = indent + "    "
        kind = c.random()
        if self.budget <= 0 or self.depth >= 4 or kind < 0.45:
            return [indent + self.assignment()]
        self.depth += 1
        try:
            if kind < 0.65:
                lines = [f"{indent}if ({self.condition()}) {{", *self.block(inner, in_loop)]
                if c.random() < 0.5:
                    lines += [f"{indent}}} else {{", *self.block(inner, in_loop)]
                return [*lines, indent + "}"]
            if kind < 0.82:
                self.loops += 1
                i = f"i{self.loops}"
                bound = c.choice([str(c.randint(1, 9)), f"int({self.u32(2)} % {c.randint(2, 12)}u)"])
                head = f"{indent}for (int {i} = 0, n{i} = {bound}; {i} < n{i}; ++{i}) {{"
                return [head, f"{inner}a += {i};", *self.block(inner, True), indent + "}"]
            if kind < 0.9:
                lines = [f"{indent}switch ({self.u32(1)} % 5u) {{"]
                for case in c.sample(range(5), c.randint(2, 4)):
                    lines += [f"{indent}case {case}:", *self.block(inner, False)]
                    if c.random() < 0.75:
                        lines.append(f"{inner}break;")
                return [*lines, f"{indent}default:", inner + self.assignment(), indent + "}"]
            if in_loop and kind < 0.96:
                return [f"{indent}if ({self.condition()}) {{", inner + c.choice(["break;", "continue;"]), indent + "}"]
            return [f"{indent}if ({self.condition()}) {{", f"{inner}return {self.u32()};", indent + "}"]
        finally:
            self.depth -= 1

    def text(self) -> str:
        c = self.chance
        attribute = c.choice(["", "", "__noinline__ "])
        lines = [
            f"BOTH {attribute}u32 {self.name}(u32 x, u32 t) {{",
            f"    u32 a = x, b = t * {c.getrandbits(8)}u, c = x ^ {c.getrandbits(32)}u, d = x >> {c.randrange(1, 31)};",
            f"    s32 p = s32(x) >> {c.randrange(20)}, q = {c.randrange(-1000, 1000)};",
            "    u64 w = u64(x) * 0x9E3779B97F4A7C15ull;",
            "    float f = float(x & 0xFFFF) * 0.25f;",
            "    double g = double(t) + 0.5;",
            f"    u32 array[8] = {{{', '.join(str(c.getrandbits(6)) + 'u' for _ in range(8))}}};",
        ]
        for _ in range(c.randint(3, 7)):
            lines += self.statement("    ", False)
        lines += [
            "    u32 result = a ^ rotate(b, 5) ^ rotate(c, 11) ^ rotate(d, 17) ^ u32(p) ^ u32(q) * 3 ^ u32(w) ^ u32(w >> 32);",
            "    for (int i = 0; i < 8; ++i) {",
            "        result = result * 31 + array[i];",
            "    }",
            "    return result ^ bits(f) ^ bits(g);",
            "}",
        ]
        return "\n".join(lines) + "\n"


def _exchange(chance: random.Random) -> tuple[list[str], list[str]]:
    """A step in which threads see each other's values: (device, CPU). `v` is the thread's, `all` the block's on the CPU."""
    kind = chance.randrange(6)
    k = chance.randrange(1, 32)
    if kind == 0:
        device = ["__syncthreads();", "shared[threadIdx.x] = v;", "__syncthreads();"]
        device.append(f"v ^= shared[(threadIdx.x * {2 * k + 1}u + 7) % {THREADS}];")
        return device, [f"next[i] = all[i] ^ all[(i * {2 * k + 1}u + 7) % {THREADS}];"]
    if kind == 1:
        name, index = chance.choice([("xor", f"(i ^ {k})"), ("down", f"(i % 32 + {k} < 32 ? i + {k} : i)"),
                                     ("up", f"(i % 32 >= {k} ? i - {k} : i)")])  # fmt: skip
        return [f"v += __shfl_{name}_sync(0xFFFFFFFFu, v, {k});"], [f"next[i] = all[i] + all[{index}];"]
    if kind == 2:
        device = [f"v = v * 3 + __shfl_sync(0xFFFFFFFFu, v, (v >> {k}) % 32);"]
        return device, [f"next[i] = all[i] * 3 + all[i / 32 * 32 + (all[i] >> {k}) % 32];"]
    if kind == 3:
        cpu = [
            "u32 ballot = 0;",
            f"for (int j = 0; j < 32; ++j) ballot |= u32((all[i / 32 * 32 + j] >> {k} & 1) != 0) << j;",
        ]
        return [f"v ^= __ballot_sync(0xFFFFFFFFu, v >> {k} & 1);"], [*cpu, "next[i] = all[i] ^ ballot;"]
    if kind == 4:
        cpu = ["u32 count = 0;", f"for (int j = 0; j < {THREADS}; ++j) count += (all[j] & {k}) == 0;"]
        return [f"v += __syncthreads_count((v & {k}) == 0);"], [*cpu, "next[i] = all[i] + count;"]
    device = ["__syncthreads();", "if (threadIdx.x == 0) total = 0;", "__syncthreads();"]
    device += [f"if (v & {k}) atomicAdd(&total, v % 1000);", "__syncthreads();", "v ^= total;"]
    cpu = ["u32 sum = 0;", f"for (int j = 0; j < {THREADS}; ++j) sum += all[j] & {k} ? all[j] % 1000 : 0;"]
    return device, [*cpu, "next[i] = all[i] ^ sum;"]


def _kernel(chance: random.Random, number: int, functions: list[str]) -> str:
    device = [f"__global__ void kernel_{number}(const u32 *in, u32 *out) {{", f"    __shared__ u32 shared[{THREADS}];"]
    device += [
        "    __shared__ u32 total;",
        "    u32 i = blockIdx.x * blockDim.x + threadIdx.x, t = threadIdx.x, v = in[i];",
    ]
    device += ["    shared[t] = 0;", "    total = 0;"]
    cpu = [f"static void reference_{number}(const std::vector<u32> &in, std::vector<u32> &out) {{"]
    cpu += [f"    for (int block = 0; block < {BLOCKS}; ++block) {{", f"        u32 all[{THREADS}], next[{THREADS}];"]
    cpu += [f"        memcpy(all, &in[block * {THREADS}], sizeof all);"]

    def everywhere(lines: list[str]) -> list[str]:
        body = [f"            {line}" for line in lines]
        return [
            f"        for (u32 i = 0; i < {THREADS}; ++i) {{",
            *body,
            "        }",
            "        memcpy(all, next, sizeof all);",
        ]

    for _ in range(chance.randint(1, 3)):
        function = chance.choice(functions)
        device.append(f"    v = {function}(v, t);")
        cpu += everywhere([f"next[i] = {function}(all[i], i);"])
        for _ in range(chance.randint(0, 2)):
            on_device, on_cpu = _exchange(chance)
            device += [f"    {line}" for line in on_device]
            cpu += everywhere(on_cpu)
    device += ["    out[i] = v;", "}"]
    cpu += [f"        memcpy(&out[block * {THREADS}], all, sizeof all);", "    }", "}"]
    return "\n".join([*device, *cpu]) + "\n"


def program(seed: int, kernels: int = 4) -> str:
    """The text of a random program: the same for the same seed."""
    chance = random.Random(seed)
    parts = [PREAMBLE.format(seed=seed)]
    functions: list[str] = []
    for number in range(kernels):
        name = f"function_{number}"
        parts.append(_Function(chance, name, functions[-2:]).text())
        functions.append(name)
        parts.append(_kernel(chance, number, functions[-2:]))
    calls = "".join(CALL.format(k=k, blocks=BLOCKS, threads=THREADS) for k in range(kernels))
    parts.append(MAIN.format(blocks=BLOCKS, threads=THREADS, seed=seed, calls=calls))
    return "\n".join(parts)
