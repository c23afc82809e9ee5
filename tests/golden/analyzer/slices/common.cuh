#pragma once
#include <cmath>
#include <cstdio>
#include <cstdlib>

__global__ void step(float *x, int *f, float a, double b) {
    if (x[threadIdx.x] > a + b) *f = 1;
}

__global__ void hold(const void *address, int *f) {
    *f = address != nullptr;
}

#define PROGRAM(name) __attribute__((noinline, noipa)) static void name(float *x, float *y, int *f, double *d, int n)
#define LEFT (void)cudaProfilerStop()
#define CHECK(call)                                                          \
    do {                                                                     \
        cudaError_t code_ = (call);                                          \
        if (code_ != cudaSuccess) {                                          \
            fprintf(stderr, "%s\n", cudaGetErrorString(code_));              \
            exit(1);                                                         \
        }                                                                    \
    } while (0)

extern "C" cudaError_t cudaProfilerStop();
