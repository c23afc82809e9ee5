"""A whole random program: functions of both sides, kernels that run them, and a main that compares word for word."""

from __future__ import annotations

import random
from pathlib import Path

from kernel_programs.functions import HELPERS, Program

HEADERS = [Path(__file__).with_name(name) for name in ("support.cuh", "floats.cuh")]
WORDS = 6
SHAPES = [
    (32, 1, 1),
    (64, 1, 1),
    (48, 1, 1),
    (5, 3, 2),
    (33, 2, 1),
    (128, 1, 1),
    (1, 70, 1),
    (96, 1, 1),
    (7, 7, 1),
    (16, 2, 3),
]

PREAMBLE = """// Random program {seed}. A test makes it again from its number.
#include "support.cuh"

template <typename T> BOTH inline T load(const u8 *data, u32 index, u32 bytes) {{
    return *reinterpret_cast<const T *>(data + (index * u32(sizeof(T)) & (bytes - 1)));
}}
"""

KERNEL = """__global__ void kernel_{k}(const u8 *data, u64 *out) {{
    u32 t = ((blockIdx.x * blockDim.z + threadIdx.z) * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
    u64 words[{words} + 1] = {{0}};
    words[{words}] = thread_{k}(t, drawn({seed} + 2 * t), drawn({seed} + 2 * t + 1), data, words);
    for (u32 k = 0; k <= {words}; ++k) out[t * ({words} + 1) + k] = words[k];
}}
static void reference_{k}(u32 threads, const u8 *data, u64 *out) {{
    for (u32 t = 0; t < threads; ++t) {{
        u64 *words = out + t * ({words} + 1);
        words[{words}] = thread_{k}(t, drawn({seed} + 2 * t), drawn({seed} + 2 * t + 1), data, words);
    }}
}}"""

MAIN = """
int main() {{
    alignas(16) static u8 data[256];
    for (u32 k = 0; k < 32; ++k) {{
        u64 value = drawn({seed} * 32 + k);
        memcpy(data + 8 * k, &value, 8);
    }}
    u8 *device_data;
    u64 *device_out;
    const u32 most = {most} * ({words} + 1);
    if (cudaMalloc(&device_data, sizeof data) || cudaMalloc(&device_out, most * 8) ||
        cudaMemcpy(device_data, data, sizeof data, cudaMemcpyHostToDevice) || cudaDeviceSetLimit(cudaLimitStackSize, 16384)) {{
        return 2;
    }}
    std::vector<u64> out(most), expected(most);
    int failures = 0;
    auto compare = [&](const char *name, u32 words, u32 each) {{
        cudaError_t error = cudaGetLastError();
        if (!error) error = cudaMemcpy(out.data(), device_out, words * 8, cudaMemcpyDeviceToHost);
        if (error) {{
            std::printf("%s: %s\\n", name, cudaGetErrorString(error));
            ++failures;
            return;
        }}
        u32 wrong = 0;
        for (u32 k = 0; k < words; ++k) {{
            if (out[k] == expected[k]) continue;
            if (wrong++ < 6) std::printf("%s, thread %u, word %u: %016llx, expected %016llx\\n", name, k / each, k % each, out[k], expected[k]);
        }}
        if (wrong) std::printf("%s: %u words are wrong\\n", name, wrong), ++failures;
    }};
{calls}
    std::printf(failures ? "FAIL\\n" : "PASS\\n");
    return failures != 0;
}}
"""

CALL = """    std::fill(expected.begin(), expected.end(), 0);
    reference_{k}({threads}, data, expected.data());
    kernel_{k}<<<{blocks}, dim3({x}, {y}, {z})>>>(device_data, device_out);
    compare("kernel_{k}", {threads} * ({words} + 1), {words} + 1);"""


def program(seed: int, kernels: int = 2, helpers: int = 4) -> str:
    """The text of a random program: the same for the same seed."""
    chance = random.Random(seed)
    whole = Program(chance)
    calls, most = [], 0
    for k in range(kernels):
        for _ in range(helpers // kernels + (k == 0)):
            chance.choice(HELPERS)(whole)
        whole.thread(k, WORDS)
        whole.parts.append(KERNEL.format(k=k, words=WORDS, seed=f"{seed * 1000 + k * 300}ull"))
        x, y, z = chance.choice(SHAPES)
        blocks = chance.choice([1, 2, 3])
        threads = x * y * z * blocks
        most = max(most, threads)
        calls.append(CALL.format(k=k, threads=threads, blocks=blocks, x=x, y=y, z=z, words=WORDS))
    main = MAIN.format(seed=seed, most=most, words=WORDS, calls="\n".join(calls))
    return "\n\n".join([PREAMBLE.format(seed=seed), *whole.parts, main])
