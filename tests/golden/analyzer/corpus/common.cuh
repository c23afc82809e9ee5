// What the corpus' translation units share. A PROGRAM is a function that the optimizer neither inlines nor specialises: it is
// one case, its loops are one nest, and expected.toml names it. main() of every unit calls all its programs, so that the units
// also run.
#pragma once
#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#ifdef __clang__
#define PROGRAM extern "C" __attribute__((noinline)) void
#define APART __attribute__((noinline))
#else
#define PROGRAM extern "C" __attribute__((noinline, noipa)) void
#define APART __attribute__((noinline, noclone))
#endif

constexpr int COUNT = 1024;
constexpr size_t BYTES = COUNT * sizeof(float);

static __global__ void touch(float *data, int offset, int count) {
    int index = blockIdx.x * blockDim.x + threadIdx.x;
    if (index < count) data[index] += offset;
}

static __global__ void shift(float *to, const float *from, int count) {
    int index = blockIdx.x * blockDim.x + threadIdx.x;
    if (index < count) to[index] = from[index] + 1;
}

static __global__ void scale(float *data, float factor, int count) {
    int index = blockIdx.x * blockDim.x + threadIdx.x;
    if (index < count) data[index] *= factor;
}

static __global__ void count_up(int *counter) { atomicAdd(counter, 1); }

// Results of the host's own work go here, so that the optimizer keeps the work.
extern volatile double sink;

// What another translation unit would hold: nothing is known of it.
extern void (*volatile opaque)(void *);

#define CORPUS_MAIN                             \
    volatile double sink;                       \
    static void does_nothing(void *) {}         \
    void (*volatile opaque)(void *) = does_nothing;

struct Arena {
    float *a, *b, *c;
    float host[COUNT];
    Arena() {
        cudaMalloc(&a, 64 * BYTES), cudaMalloc(&b, 64 * BYTES), cudaMalloc(&c, 64 * BYTES);
        cudaMemset(a, 0, 64 * BYTES), cudaMemset(b, 0, 64 * BYTES), cudaMemset(c, 0, 64 * BYTES);
        for (int i = 0; i < COUNT; ++i) host[i] = float(i);
    }
    ~Arena() { cudaFree(a), cudaFree(b), cudaFree(c); }
};
