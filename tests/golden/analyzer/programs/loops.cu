// Loops whose class is known by construction; loops.toml says what the analyzer must find in each function.
#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <utility>

__global__ void touch(float *data, int offset, int count) {
    int index = blockIdx.x * blockDim.x + threadIdx.x;
    if (index < count) data[index] += offset;
}

#define KEEP extern "C" __attribute__((noinline, noipa)) void

KEEP invariant(float *data, int count) {
    for (int i = 0; i < 10; ++i) touch<<<4, 128>>>(data, 7, count);
}

KEEP affine(float *data, int count, int rounds) {
    for (int i = 0; i < rounds; i += 2) {
        cudaMemset(data + 1024 * i, 0, 4096);
        touch<<<4, 128>>>(data, 3 * i + 1, count);
    }
}

KEEP downward(float *data, int count) {
    for (int left = 12; left > 0; --left) touch<<<1, 64>>>(data, left, count);
}

KEEP halving(float *data) {
    for (int stride = 256; stride > 0; stride >>= 1) touch<<<1, 64>>>(data, stride, 256);
}

KEEP allocating(int rounds) {
    for (int i = 0; i < rounds; ++i) {
        float *fresh;
        cudaMalloc(&fresh, 4096);
        touch<<<4, 128>>>(fresh, 1, 1024);
        cudaFree(fresh);
    }
}

KEEP results_only(int rounds) {
    for (int i = 0; i < rounds; ++i) {
        cudaStream_t stream;
        cudaStreamCreate(&stream);
        cudaStreamDestroy(stream);
    }
}

KEEP copied_back(float *data, float *device) {
    float error = 1;
    while (error > 0.5f) {
        touch<<<4, 128>>>(device, 1, 1024);
        cudaMemcpy(&error, data, sizeof error, cudaMemcpyDeviceToHost);
    }
}

KEEP flagged(int *flag, float *device) {
    int go = 1;
    while (go) {
        touch<<<4, 128>>>(device, 1, 1024);
        cudaMemcpy(&go, flag, sizeof go, cudaMemcpyDeviceToHost);
    }
}

KEEP sent_back(int *device, float *data) {
    for (int i = 0; i < 20; ++i) {
        int read = 0;
        cudaMemcpy(&read, device, sizeof read, cudaMemcpyDeviceToHost);
        touch<<<4, 128>>>(data, read, 1024);
    }
}

KEEP arbitrary(float *data) {
    for (int i = 0; i < 9; ++i) touch<<<4, 128>>>(data, rand(), 1024);
}

KEEP swapping(float *first, float *second, int rounds) {
    for (int i = 0; i < rounds; ++i) {
        touch<<<4, 128>>>(first, 1, 1024);
        std::swap(first, second);
    }
}

KEEP conditional(float *data, int rounds) {
    for (int i = 0; i < rounds; ++i)
        if (i % 3 == 1) touch<<<4, 128>>>(data, i, 1024);
}

KEEP checked(float *data, int rounds) {
    for (int i = 0; i < rounds; ++i) {
        touch<<<4, 128>>>(data, 5, 1024);
        if (cudaGetLastError() != cudaSuccess) {
            puts("failed");
            exit(1);
        }
    }
}

KEEP leaving(float *data, int rounds) {
    for (int i = 0; i < rounds; ++i) {
        touch<<<4, 128>>>(data, 5, 1024);
        if (cudaGetLastError() != cudaSuccess) return;
    }
}

KEEP nested(float *data, int rounds) {
    for (int i = 0; i < rounds; ++i)
        for (int j = 0; j < 8; ++j) touch<<<4, 128>>>(data + 64 * j, i, 1024);
}

KEEP table(float **buffers, int count) {
    for (int i = 0; i < count; ++i) touch<<<4, 128>>>(buffers[i], 1, 1024);
}

__attribute__((noinline, noclone)) static void step(float *data, int amount) {
    touch<<<4, 128>>>(data, amount, 1024);
    cudaMemsetAsync(data, 0, 64, nullptr);
}

KEEP in_callee(float *data, int rounds) {
    for (int i = 0; i < rounds; ++i) step(data, i + 4);
}

KEEP step_maybe(float *data, int amount) {
    if (amount % 5 == 2) return;
    for (int j = 0; j < amount; ++j) cudaMemsetAsync(data, j, 64, nullptr);
}

KEEP in_callee_sometimes(float *data, int rounds) {
    for (int i = 0; i < rounds; ++i) step_maybe(data, rounds);
}

static void check(cudaError_t code) {
    if (code == cudaSuccess) return;
    printf("%s\n", cudaGetErrorString(code));
    exit(1);
}

__attribute__((noinline, noclone)) static void checked_clear(float *data) { check(cudaMemsetAsync(data, 0, 64, nullptr)); }

KEEP checked_in_callee(float *data, int rounds) {
    for (int i = 0; i < rounds; ++i) checked_clear(data);
}

KEEP virtual_call(void (*what)(void), float *data, int rounds) {
    for (int i = 0; i < rounds; ++i) {
        touch<<<4, 128>>>(data, 2, 1024);
        what();
    }
}

float *shared;

KEEP through_global(void (*what)(void), int rounds) {
    for (int i = 0; i < rounds; ++i) {
        touch<<<4, 128>>>(shared, 2, 1024);
        what();
    }
}

struct Plan {
    int first, rounds;
};

KEEP planned(float *data, const Plan *plan) {
    for (int i = 0; i < plan->rounds; ++i) touch<<<4, 128>>>(data, i, 1024);
}

static void nothing(void) {}

int main(int argc, char **) {
    float *data, *other;
    cudaMalloc(&data, 1 << 20);
    cudaMalloc(&other, 1 << 20);
    shared = data;
    float *both[2] = {data, other};
    invariant(data, 1024), affine(data, 1024, 5), downward(data, 1024), halving(data), allocating(argc), results_only(argc);
    copied_back(data, other), flagged((int *)data, other), sent_back((int *)data, other), arbitrary(data);
    swapping(data, other, argc), conditional(data, argc), checked(data, argc), leaving(data, argc), nested(data, argc);
    table(both, 2), in_callee(data, argc), in_callee_sometimes(data, argc), checked_in_callee(data, argc);
    Plan plan{0, argc};
    planned(data, &plan);
    virtual_call(nothing, data, argc), through_global(nothing, argc);
    return cudaDeviceSynchronize() != cudaSuccess;
}
