"""Random kernels whose threads meet: shuffles, votes, shared memory and atomics, under masks and barriers.

Each statement is written twice: for the device, and for the host as a loop over the threads that take part. Which those are follows
from masks that the device computes with votes, so that what a statement means does not depend on how warps are scheduled: three levels
of places, the whole block, lanes of a warp that a mask names, and one thread. Atomics are of one kind between two barriers.
"""

from __future__ import annotations

import random
from pathlib import Path

from kernel_programs.blocks import block_statement
from kernel_programs.functions import Program
from kernel_programs.twice import Twice

HEADERS = [Path(__file__).with_name("collective.cuh")]
SHAPES = [
    (32, 1, 1), (64, 1, 1), (128, 1, 1), (256, 1, 1), (20, 1, 1), (45, 1, 1), (100, 1, 1), (7, 5, 3), (16, 8, 1), (33, 3, 1), (8, 8, 2), (1, 96, 1),
]  # fmt: skip

KERNEL = """__global__ void kernel_{k}(u64 *out, u64 *totals) {{
    constexpr u32 T = {threads};
    __shared__ u64 shared64[T], own64[T], cells64[CELLS];
    __shared__ u32 shared32[T], own32[T], cells32[CELLS], counters[(T + 31) / 32];
    __shared__ s32 cellss32[CELLS];
    __shared__ u16 shared16[T];
    __shared__ u8 shared8[T];
    const u32 t = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x, lane = t % 32, warp = t / 32;
    shared64[t] = own64[t] = 0, shared32[t] = own32[t] = 0, shared16[t] = 0, shared8[t] = 0;
    if (t < (T + 31) / 32) counters[t] = 0;
    u32 u = blockIdx.x * 77u + {salt}u;
    u32 m0 = T - warp * 32 >= 32 ? 0xFFFFFFFFu : (1u << (T - warp * 32)) - 1;
    Lane v = begun({seed} + 16 * (blockIdx.x * T + t));
    __syncthreads();
{device}
    leave(v, out + (blockIdx.x * T + t) * LANE_WORDS);
}}
static void reference_{k}(u32 blocks, u64 *out, u64 *totals) {{
    constexpr u32 T = {threads};
    for (u32 block = 0; block < blocks; ++block) {{
        u64 shared64[T] = {{0}}, own64[T] = {{0}}, cells64[CELLS];
        u32 shared32[T] = {{0}}, own32[T] = {{0}}, cells32[CELLS], counters[(T + 31) / 32] = {{0}};
        s32 cellss32[CELLS];
        u16 shared16[T] = {{0}};
        u8 shared8[T] = {{0}};
        (void)own64, (void)own32, (void)cells64, (void)cells32, (void)cellss32, (void)counters, (void)shared64, (void)shared32, (void)shared16, (void)shared8;
        u32 u = block * 77u + {salt}u;
        Lane lanes[T];
        Mask m0 = everyone(T);
        EACH(m0) lanes[t] = begun({seed} + 16 * (block * T + t));
{host}
        EACH(everyone(T)) leave(lanes[t], out + (block * T + t) * LANE_WORDS);
    }}
}}"""

MAIN = """
int main() {{
    const u32 most = {most} * LANE_WORDS;
    u64 *device_out, *device_totals;
    if (cudaMalloc(&device_out, most * 8) || cudaMalloc(&device_totals, CELLS * 8)) return 2;
    std::vector<u64> out(most), expected(most), totals(CELLS), expected_totals(CELLS);
    int failures = 0;
    auto compare = [&](const char *name, const char *what, const std::vector<u64> &got, const std::vector<u64> &want, u32 words, u32 each) {{
        u32 wrong = 0;
        for (u32 k = 0; k < words; ++k) {{
            if (got[k] == want[k]) continue;
            if (wrong++ < 6) std::printf("%s, %s %u, word %u: %016llx, expected %016llx\\n", name, what, k / each, k % each, got[k], want[k]);
        }}
        if (wrong) std::printf("%s: %u words are wrong\\n", name, wrong), ++failures;
    }};
    auto fetch = [&](const char *name, u32 words) {{
        cudaError_t error = cudaGetLastError();
        if (!error) error = cudaMemcpy(out.data(), device_out, words * 8, cudaMemcpyDeviceToHost);
        if (!error) error = cudaMemcpy(totals.data(), device_totals, CELLS * 8, cudaMemcpyDeviceToHost);
        if (error) std::printf("%s: %s\\n", name, cudaGetErrorString(error)), ++failures;
        return !error;
    }};
{calls}
    std::printf(failures ? "FAIL\\n" : "PASS\\n");
    return failures != 0;
}}
"""

CALL = """    std::fill(expected_totals.begin(), expected_totals.end(), 0);
    reference_{k}({blocks}, expected.data(), expected_totals.data());
    cudaMemset(device_totals, 0, CELLS * 8);
    kernel_{k}<<<{blocks}, dim3({x}, {y}, {z})>>>(device_out, device_totals);
    if (fetch("kernel_{k}", {threads} * {blocks} * LANE_WORDS)) {{
        compare("kernel_{k}", "thread", out, expected, {threads} * {blocks} * LANE_WORDS, LANE_WORDS);
        compare("kernel_{k}", "total", totals, expected_totals, CELLS, 1);
    }}"""


def collective_program(seed: int, kernels: int = 2) -> str:
    """The text of a random program whose threads meet: the same for the same seed."""
    chance = random.Random(f"collective {seed}")
    whole = Program(chance)
    calls, most = [], 0
    for k in range(kernels):
        x, y, z = chance.choice(SHAPES)
        blocks, threads = chance.choice([1, 2, 3, 5]), x * y * z
        twice = Twice(whole, chance, threads)
        for _ in range(chance.randint(3, 7)):
            block_statement(twice)
        whole.parts.append(
            KERNEL.format(
                k=k,
                threads=threads,
                salt=chance.randrange(1000),
                seed=f"{seed * 100000 + k * 30000}ull",
                device="\n".join(twice.device),
                host="\n".join(twice.host),
            )
        )
        most = max(most, threads * blocks)
        calls.append(CALL.format(k=k, threads=threads, blocks=blocks, x=x, y=y, z=z))
    head = f'// Random program {seed} of threads that meet. A test makes it again from its number.\n#include "collective.cuh"'
    return "\n\n".join([head, *whole.parts, MAIN.format(most=most, calls="\n".join(calls))])
