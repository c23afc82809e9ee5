// What benchmarks/host/fairness.py runs, many times at once.
//   fairness                               says how many steps take one block a millisecond
//   fairness SECONDS PERIOD STEPS BLOCKS   waits for a line, then launches and synchronizes every PERIOD milliseconds
// Says how many blocks have run, and how long the launches took, in microseconds: median and 99th percentile. As JSON.

#include <cuda_runtime.h>

#include "check.cuh"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

using Clock = std::chrono::steady_clock;

__global__ void work(unsigned *out, int steps) {
    unsigned value = threadIdx.x + 1;
    for (int i = 0; i < steps; ++i) value = value * 1664525u + 1013904223u ^ (value >> 7);
    out[blockIdx.x * blockDim.x + threadIdx.x] = value;
}

static double run(unsigned *out, int steps, int blocks) {
    auto start = Clock::now();
    work<<<blocks, 32>>>(out, steps);
    OK(cudaDeviceSynchronize());
    return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

static double at(const std::vector<double> &sorted, double part) {
    return sorted.empty() ? 0 : sorted[std::min(sorted.size() - 1, size_t(part * sorted.size()))];
}

int main(int argc, char **argv) {
    if (argc != 1 && argc != 5) return 2;
    const int blocks = argc == 1 ? 1 : std::atoi(argv[4]);
    unsigned *out;
    OK(cudaMalloc(&out, 32 * blocks * sizeof *out));
    run(out, 1000, blocks);  // compiles it
    if (argc == 1) {
        int steps = 1000;
        for (double best = 0; best < 700; steps *= 2) {
            best = 1e9;
            for (int i = 0; i < 20; ++i) best = std::min(best, run(out, steps, 1));
            if (best >= 700) break;
        }
        std::printf("{\"steps\": %d}\n", steps);
        return 0;
    }
    const std::chrono::duration<double> limit(std::atof(argv[1]));
    const auto period = std::chrono::microseconds(int(1000 * std::atof(argv[2])));
    const int steps = std::atoi(argv[3]);
    run(out, steps, blocks);
    std::printf("ready\n");
    std::fflush(stdout);
    if (std::getchar() == EOF) return 2;
    std::vector<double> times;
    auto next = Clock::now();
    for (auto start = next; Clock::now() - start < limit;) {
        times.push_back(run(out, steps, blocks));
        next = std::max(next + period, Clock::now());
        if (period.count()) std::this_thread::sleep_until(next);
    }
    const auto rounds = times.size();
    std::sort(times.begin(), times.end());
    std::printf("{\"blocks\": %zu, \"median\": %.0f, \"p99\": %.0f}\n", rounds * blocks, at(times, 0.5), at(times, 0.99));
    return 0;
}
