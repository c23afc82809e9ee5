// What one call costs the guest's thread inside a loop. Prints one line of JSON: medians in microseconds.
//   recorder COUNT     launches of one kernel: with constant arguments, with affine ones, in a body of eight calls, and in no order that repeats;
//                      by the driver API with affine arguments

#include <cuda.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

__global__ void one(int *a, int i) {}
__global__ void two(int *a, int i, int j) {}

static double now() {
    using clock = std::chrono::steady_clock;
    return std::chrono::duration<double, std::micro>(clock::now().time_since_epoch()).count();
}

// The median over batches of the mean time of one of `calls` calls; single calls are too short for the clock.
template <typename Call>
static double each(int count, int calls, Call call) {
    std::vector<double> times;
    for (int done = 0; done < count; done += 200) {
        double start = now();
        for (int i = done; i < done + 200; ++i) call(i);
        times.push_back((now() - start) / (200 * calls));
    }
    cudaDeviceSynchronize();
    std::nth_element(times.begin(), times.begin() + times.size() / 2, times.end());
    return times[times.size() / 2];
}

int main(int argc, char **argv) {
    int count = argc > 1 ? std::atoi(argv[1]) : 100000;
    int *a;
    if (cudaMalloc(&a, 4096) != cudaSuccess) return 1;
    one<<<1, 32>>>(a, 0);
    two<<<1, 32>>>(a, 0, 0);
    cudaDeviceSynchronize();
    double constant = each(count, 1, [&](int) { one<<<1, 32>>>(a, 7); });
    double affine = each(count, 1, [&](int i) { one<<<1, 32>>>(a + i, i); });
    cudaFunction_t function;
    if (cudaGetFuncBySymbol(&function, reinterpret_cast<const void *>(one)) != cudaSuccess) return 1;
    double driver = each(count, 1, [&](int i) {
        int *place = a + i;
        void *parameters[] = {&place, &i};
        cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, nullptr, parameters, nullptr);
    });
    double body = each(count / 8, 8, [&](int i) {
        one<<<1, 32>>>(a, i);
        two<<<1, 32>>>(a, i, 1);
        two<<<2, 32>>>(a, 2, i);
        one<<<3, 32>>>(a, 5);
        one<<<4, 32>>>(a, i);
        cudaMemsetAsync(a, 0, 64);
        two<<<5, 32>>>(a, i, i);
        one<<<6, 32>>>(a, 1);
    });
    // Neither the kernels' order nor their arguments repeat.
    unsigned seed = 1;
    double wild = each(count, 1, [&](int) {
        seed = seed * 1664525u + 1013904223u;
        if (seed >> 31) one<<<1, 32>>>(a, int(seed));
        else two<<<1, 32>>>(a, int(seed), 1);
    });
    double values = each(count, 1, [&](int) {
        seed = seed * 1664525u + 1013904223u;
        one<<<1, 32>>>(a, int(seed));
    });
    std::printf(
        "{\"constant\": %.4f, \"affine\": %.4f, \"driver\": %.4f, \"body of 8\": %.4f, \"values\": %.4f, \"no loop\": %.4f}\n", constant,
        affine, driver, body, values, wild);
    return 0;
}
