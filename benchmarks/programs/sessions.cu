// What benchmarks/sessions.py runs, many times at once.
//   sessions SECONDS [STEPS BLOCKS]
// Says how many steps take one block a millisecond, waits for a line, launches and synchronizes for SECONDS, and says how
// often it did. All as JSON.

#include <cuda_runtime.h>

#include "check.cuh"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>

__global__ void work(unsigned *out, int steps) {
    unsigned value = threadIdx.x + 1;
    for (int i = 0; i < steps; ++i) value = value * 1664525u + 1013904223u ^ (value >> 7);
    out[threadIdx.x] = value;
}

int main(int argc, char **argv) {
    if (argc != 2 && argc != 4) return 2;
    using clock = std::chrono::steady_clock;
    const std::chrono::duration<double> limit(std::atof(argv[1]));
    unsigned *out;
    OK(cudaMalloc(&out, 32 * sizeof *out));
    int steps = 1000;
    work<<<1, 32>>>(out, steps);  // compiles it
    OK(cudaDeviceSynchronize());
    for (;;) {  // as many as take a millisecond on this machine, as it is now
        auto best = clock::duration::max();
        for (int i = 0; i < 10; ++i) {
            auto start = clock::now();
            work<<<1, 32>>>(out, steps);
            OK(cudaDeviceSynchronize());
            best = std::min(best, clock::now() - start);
        }
        if (best > std::chrono::microseconds(700) || steps > 1 << 28) break;
        steps *= 2;
    }
    int blocks = 1;
    if (argc == 4) steps = std::atoi(argv[2]), blocks = std::atoi(argv[3]);
    std::printf("{\"steps\": %d}\n", steps);
    std::fflush(stdout);
    if (std::getchar() == EOF) return 2;
    long rounds = 0;
    for (auto start = clock::now(); clock::now() - start < limit; ++rounds) {
        work<<<blocks, 32>>>(out, steps);
        OK(cudaDeviceSynchronize());
    }
    std::printf("{\"rounds\": %ld}\n", rounds);
    return 0;
}
