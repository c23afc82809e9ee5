// Memory that both sides see: managed variables and allocations, mapped host memory. The host reads it by plain loads.
#include "common.cuh"

__managed__ int remaining = 5;
__managed__ float values[COUNT];

static __global__ void lower(int *counter) { --*counter; }

// The exit test is a plain load of what the device wrote.
PROGRAM until_none_remains(float *data) {
    while (remaining > 0) {
        touch<<<4, 256>>>(data, 1, COUNT);
        lower<<<1, 1>>>(&remaining);
        cudaDeviceSynchronize();
    }
}

PROGRAM managed_read(int rounds) {
    float sum = 0;
    for (int i = 0; i < rounds; ++i) {
        touch<<<4, 256>>>(values, i, COUNT);
        cudaDeviceSynchronize();
        sum += values[i];
    }
    sink = sum;
}

PROGRAM managed_allocation(int rounds) {
    float *shared;
    cudaMallocManaged(&shared, BYTES);
    float sum = 0;
    for (int i = 0; i < rounds; ++i) {
        touch<<<4, 256>>>(shared, i, COUNT);
        cudaDeviceSynchronize();
        sum += shared[i];
    }
    sink = sum;
    cudaFree(shared);
}

// What the device wrote decides the next argument.
PROGRAM managed_argument(float *data, int rounds) {
    for (int i = 0; i < rounds; ++i) {
        touch<<<4, 256>>>(data, (int)values[3], COUNT);
        cudaDeviceSynchronize();
    }
}

PROGRAM mapped_read(int rounds) {
    float *shared;
    cudaHostAlloc((void **)&shared, BYTES, cudaHostAllocMapped);
    float sum = 0;
    for (int i = 0; i < rounds; ++i) {
        touch<<<4, 256>>>(shared, i, COUNT);
        cudaDeviceSynchronize();
        sum += shared[i];
    }
    sink = sum;
    cudaFreeHost(shared);
}

CORPUS_MAIN

int main(int argc, char **argv) {
    const int rounds = argc > 1 ? atoi(argv[1]) : 6;
    Arena arena;
    until_none_remains(arena.a), managed_read(rounds), managed_allocation(rounds), managed_argument(arena.a, rounds);
    mapped_read(rounds);
    return cudaDeviceSynchronize() != cudaSuccess;
}
