// Loops that decide by what they read, in one scenario each: what can happen to them while the host leads.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <unistd.h>
#include <cuda_runtime.h>

#define CHECK(call) do { cudaError_t e = (call); if (e) { std::printf("%s\n", cudaGetErrorName(e)); std::exit(2); } } while (0)

// x[0] counts down; x[1] collects.
__global__ void step(int *x, int by) {
    if (threadIdx.x == 0 && blockIdx.x == 0) {
        x[0] -= 1;
        x[1] = x[1] * 31 + by + static_cast<int>(gridDim.x);
    }
}

__global__ void stray(int *x, int at, int *wild) {
    if (threadIdx.x == 0) {
        x[0] -= 1;
        if (x[0] == at) *wild = 1;
    }
}

static int *made(int count) {
    int *x, start[2] = {count, 7};
    CHECK(cudaMalloc(&x, 4096));
    CHECK(cudaMemcpy(x, start, sizeof start, cudaMemcpyHostToDevice));
    return x;
}

static void finish(int *x) {
    int end[2];
    CHECK(cudaMemcpy(end, x, sizeof end, cudaMemcpyDeviceToHost));
    std::printf("%d %d\n", end[0], end[1]);
}

static int count_down(int *x) {
    int left, by = 1, steps = 0;
    do {
        step<<<1, 32>>>(x, by);
        CHECK(cudaMemcpy(&left, x, sizeof left, cudaMemcpyDeviceToHost));
        by = (by * 5 + left) & 1023;
        ++steps;
    } while (left > 0);
    return steps;
}

static void plain(int count) {
    int *x = made(count);
    std::printf("%d steps\n", count_down(x));
    finish(x);
}

// The program prints in each iteration.
static void printing(int count) {
    int *x = made(count), left;
    do {
        step<<<1, 32>>>(x, 3);
        CHECK(cudaMemcpy(&left, x, sizeof left, cudaMemcpyDeviceToHost));
        std::printf("left %d\n", left);
    } while (left > 0);
    finish(x);
}

// An element of a block is looked at that no copy brings: the slice does not know what it is.
static void elsewhere(int count) {
    int *x = made(count), *values = static_cast<int *>(std::calloc(16, sizeof(int))), steps = 0;
    do {
        step<<<1, 32>>>(x, 3);
        CHECK(cudaMemcpy(values + 8, x, 4 * sizeof(int), cudaMemcpyDeviceToHost));
        ++steps;
    } while (values[8] > 0 && values[0] == 0);
    std::printf("%d steps\n", steps);
    std::free(values);
    finish(x);
}

// The same loop, entered again and again, and another one behind it.
static void again(int count) {
    int *x = made(count), total = 0;
    for (int round = 1; round <= 10; ++round) {
        total += count_down(x);
        CHECK(cudaMemcpy(x, &round, sizeof round, cudaMemcpyHostToDevice));
    }
    std::printf("%d steps\n", total);
    finish(x);
}

// The same loop of one iteration, again and again; then longer ones.
static void short_ones(int count) {
    int *x = made(1), total = 0;
    for (int round = 0; round < count; ++round) {
        const int steps = round < count - 3 ? 1 : 20;
        CHECK(cudaMemcpy(x, &steps, sizeof steps, cudaMemcpyHostToDevice));
        total += count_down(x);
    }
    std::printf("%d steps\n", total);
    finish(x);
}

// A grid that the results decide, and a synchronization.
static void shapes(int count) {
    int *x = made(count), left, grid = 1;
    do {
        step<<<grid, 32>>>(x, 3);
        CHECK(cudaDeviceSynchronize());
        CHECK(cudaMemcpy(&left, x, sizeof left, cudaMemcpyDeviceToHost));
        grid = left % 7 + 1;
    } while (left > 0);
    finish(x);
}

// A grid of no blocks in some iterations: the launch fails, the program does not look.
static void failing(int count) {
    int *x = made(count), left, grid = 1, steps = 0;
    do {
        step<<<grid, 32>>>(x, 3);
        cudaMemcpy(&left, x, sizeof left, cudaMemcpyDeviceToHost);
        grid = steps == 20 ? 0 : 1;
        ++steps;
    } while (left > 0 && steps < 1000);
    std::printf("%d steps, %s\n", steps, cudaGetErrorName(cudaGetLastError()));
    finish(x);
}

// A kernel that faults ends the context.
static void faulting(int count) {
    int *x = made(count), left = 0, steps = 0;
    cudaError_t error;
    do {
        stray<<<1, 32>>>(x, count / 2, reinterpret_cast<int *>(16));
        error = cudaMemcpy(&left, x, sizeof left, cudaMemcpyDeviceToHost);
        ++steps;
    } while (error == cudaSuccess && left > 0);
    std::printf("%d steps, left %d, %s, %s\n", steps, left, cudaGetErrorName(error), cudaGetErrorName(cudaDeviceSynchronize()));
}

// The program ends in the middle.
static void leaving(int count) {
    int *x = made(count), left;
    do {
        step<<<1, 32>>>(x, 3);
        CHECK(cudaMemcpy(&left, x, sizeof left, cudaMemcpyDeviceToHost));
        if (left == count / 2) std::exit(3);
    } while (left > 0);
    finish(x);
}

// Another thread uses CUDA while the loop goes on.
static void joined(int count) {
    int *x = made(count), *y = made(5);
    std::thread other([y] {
        usleep(2000);
        for (int i = 0; i < 20; ++i) {
            step<<<1, 32>>>(y, i);
            CHECK(cudaDeviceSynchronize());
        }
    });
    std::printf("%d steps\n", count_down(x));
    other.join();
    finish(x);
    finish(y);
}

// It does not end by itself.
static void endless(int) {
    int *x = made(0), left;
    do {
        step<<<1, 32>>>(x, 3);
        CHECK(cudaMemcpy(&left, x, sizeof left, cudaMemcpyDeviceToHost));
        if (left == -1000) std::puts("under way"), std::fflush(stdout);
    } while (left != 1);
    finish(x);
}

int main(int argc, char **argv) {
    static const struct { const char *name; void (*body)(int); } scenarios[] = {
        {"plain", plain}, {"printing", printing}, {"again", again}, {"short", short_ones}, {"shapes", shapes}, {"failing", failing},
        {"faulting", faulting}, {"leaving", leaving}, {"elsewhere", elsewhere}, {"joined", joined}, {"endless", endless},
    };
    for (const auto &each : scenarios)
        if (argc == 3 && std::strcmp(argv[1], each.name) == 0) each.body(std::atoi(argv[2]));
    return 0;
}
