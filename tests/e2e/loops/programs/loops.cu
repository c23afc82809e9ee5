// Loops of deferrable calls, each with one result at its end: what tests/e2e/loops/test_loops.py counts.
//   loops SCENARIO COUNT     prints the result, which the test computes as well
// The kernel's sum does not depend on the order of commutative work, so every lost, repeated or reordered call shows: `step` is not commutative.

#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

static void check(cudaError_t got, int line) {
    if (got != cudaSuccess) {
        std::printf("line %d: %s\n", line, cudaGetErrorString(got));
        std::exit(1);
    }
}
#define OK(call) check((call), __LINE__)

// state = state * 31 + value: every call and its place count.
__global__ void step(unsigned *state, unsigned value) { *state = *state * 31u + value; }
__global__ void store(unsigned *to, unsigned value) { *to = value; }
__global__ void fold(unsigned *state, const unsigned *from) { *state = *state * 31u + *from; }
__global__ void fail_at(unsigned *state, unsigned value, unsigned where) {
    if (value == where) __trap();
    *state = *state * 31u + value;
}

static unsigned *state, *two[2];

static void affine(long n) {
    for (long i = 0; i < n; ++i) step<<<1, 1>>>(state, unsigned(3 * i + 1));
}
static void constant(long n) {
    for (long i = 0; i < n; ++i) step<<<1, 1>>>(state, 7);
}
static void several(long n) {
    for (long i = 0; i < n; ++i) {
        store<<<1, 1>>>(two[0], unsigned(i));
        fold<<<1, 1>>>(state, two[0]);
        OK(cudaMemsetAsync(two[1], 5, 4));
        fold<<<1, 1>>>(state, two[1]);
    }
}
static void ping_pong(long n) {
    for (long i = 0; i < n; ++i) {
        store<<<1, 1>>>(two[i % 2], unsigned(i));
        fold<<<1, 1>>>(state, two[(i + 1) % 2]);
    }
}
static void alternating(long n) {
    static const unsigned values[] = {3, 1, 4, 1, 5, 9, 2};
    for (long i = 0; i < n; ++i) {
        if (i % 2) step<<<1, 1>>>(state, values[i % 7]);
        else fold<<<1, 1>>>(state, two[0]);
    }
}
static void nested(long n) {
    for (long i = 0; i < n; ++i) {
        store<<<1, 1>>>(two[0], unsigned(i));
        for (long j = 0; j < 5; ++j) step<<<1, 1>>>(state, unsigned(i * 10 + j));
        fold<<<1, 1>>>(state, two[0]);
    }
}
static void triangular(long n) {
    for (long i = 0; i < n; ++i) {
        for (long j = 0; j <= i; ++j) step<<<1, 1>>>(state, unsigned(j));
        step<<<1, 1>>>(state, unsigned(1000 + i));
    }
}
static void allocating(long n) {
    for (long i = 0; i < n; ++i) {
        unsigned *memory;
        OK(cudaMalloc(&memory, 256));
        store<<<1, 1>>>(memory, unsigned(i));
        fold<<<1, 1>>>(state, memory);
        OK(cudaFree(memory));
    }
}
static void events(long n) {
    cudaStream_t stream;
    OK(cudaStreamCreate(&stream));
    for (long i = 0; i < n; ++i) {
        cudaEvent_t event;
        OK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
        step<<<1, 1, 0, stream>>>(state, unsigned(i));
        OK(cudaEventRecord(event, stream));
        OK(cudaStreamWaitEvent(0, event, 0));
        OK(cudaEventDestroy(event));
    }
    OK(cudaStreamDestroy(stream));
}
static void random_arguments(long n) {
    unsigned seed = 1;
    for (long i = 0; i < n; ++i) {
        seed = seed * 1664525u + 1013904223u;
        step<<<1, 1>>>(state, seed >> 8);
    }
}
static void left_early(long n) {
    for (int round = 0; round < 20; ++round) {
        for (long i = 0; i < n; ++i) {
            step<<<1, 1>>>(state, unsigned(i));
            if (i == (round * 7) % n) break;
            step<<<1, 1>>>(state, unsigned(2 * i));
        }
    }
}
static void threads(long n) {
    // One after the other in turns: the order is the program's.
    for (int turn = 0; turn < 6; ++turn) {
        std::thread other([=] {
            for (long i = 0; i < n; ++i) step<<<1, 1>>>(state, unsigned(i + turn));
        });
        other.join();
        for (long i = 0; i < n; ++i) step<<<1, 1>>>(state, unsigned(2 * i + turn));
    }
}
static void failing(long n) {
    for (long i = 0; i < n; ++i) fail_at<<<1, 1>>>(state, unsigned(i), unsigned(n / 2));
    cudaError_t error = cudaDeviceSynchronize();
    std::printf("%s, then %s\n", cudaGetErrorName(error), cudaGetErrorName(cudaDeviceSynchronize()));
    std::exit(0);
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        void (*run)(long);
    } scenarios[] = {{"affine", affine},         {"constant", constant},     {"several", several},
                     {"ping_pong", ping_pong},   {"alternating", alternating}, {"nested", nested},
                     {"triangular", triangular}, {"allocating", allocating}, {"events", events},
                     {"random", random_arguments}, {"left_early", left_early}, {"threads", threads},
                     {"failing", failing}};
    if (argc != 3) return 2;
    OK(cudaMalloc(&state, 4));
    OK(cudaMalloc(&two[0], 4));
    OK(cudaMalloc(&two[1], 4));
    OK(cudaMemset(state, 0, 4));
    OK(cudaMemset(two[0], 0, 4));
    OK(cudaMemset(two[1], 0, 4));
    for (auto &scenario : scenarios) {
        if (std::strcmp(scenario.name, argv[1])) continue;
        scenario.run(std::atol(argv[2]));
        unsigned result;
        OK(cudaMemcpy(&result, state, 4, cudaMemcpyDeviceToHost));
        std::printf("%u\n", result);
        return 0;
    }
    return 2;
}
