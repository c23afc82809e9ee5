// What a launch costs the calling thread inside a long loop, and what an append of a launch's bytes costs beside it.
//   recorder COUNT    prints one line of JSON: nanoseconds for each call, medians over batches
#include <cuda_runtime.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#define OK(call)                                                       \
    do {                                                               \
        if (cudaError_t got = (call)) {                                \
            std::fprintf(stderr, "%s\n", cudaGetErrorString(got));     \
            std::exit(1);                                              \
        }                                                              \
    } while (0)

// Some 30 us: most batches lie between two expiries of the age timer (200 us), at which the connection's thread and the host work. Where that
// is the other thread of the same core, everything takes about twice as long meanwhile.
constexpr int BATCH = 200;

__global__ void four(int *a, int *b, float scale, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) b[i] = int(a[i] * scale);
}

static double now() {
    return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

static double median(std::vector<double> &values) {
    std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
    return values[values.size() / 2];
}

static char tape[1 << 20];

int main(int count, char **arguments) {
    const int launches = count == 2 ? std::atoi(arguments[1]) : 100000;
    int *a, *b;
    OK(cudaMalloc(&a, 1 << 22));
    OK(cudaMalloc(&b, 1 << 22));
    four<<<1, 32>>>(a, b, 1.0f, 32);
    OK(cudaDeviceSynchronize());
    std::vector<double> constant, affine, append;
    double start = now();
    for (int i = 0; i < launches; ++i) {
        four<<<1, 32>>>(a, b, 1.0f, 32);
        if (i % BATCH == BATCH - 1) {
            constant.push_back((now() - start) / BATCH);
            start = now();
        }
    }
    OK(cudaDeviceSynchronize());
    start = now();
    for (int i = 0; i < launches; ++i) {
        four<<<1, 32>>>(a + i, b, 1.0f, i);
        if (i % BATCH == BATCH - 1) {
            affine.push_back((now() - start) / BATCH);
            start = now();
        }
    }
    OK(cudaDeviceSynchronize());
    char record[80] = {1};
    size_t at = 0;
    start = now();
    for (int i = 0; i < launches; ++i) {
        at = at + sizeof record > sizeof tape ? 0 : at;
        std::memcpy(tape + at, record, sizeof record);
        asm volatile("" ::: "memory");
        at += sizeof record;
        if (i % BATCH == BATCH - 1) {
            append.push_back((now() - start) / BATCH);
            start = now();
        }
    }
    std::printf("{\"constant\": %.2f, \"affine\": %.2f, \"append\": %.2f}\n", median(constant), median(affine), median(append));
}
