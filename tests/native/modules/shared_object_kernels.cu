// The shared library that `shared_object` loads at run time: kernels and a variable behind a C interface.
#include "../support.cuh"

__device__ int calls = 0;

__global__ void multiply_add(int *values, int factor, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i == 0) {
        ++calls;
    }
    if (i < n) {
        values[i] = values[i] * factor + 1;
    }
}

extern "C" int library_run(int *device_values, int factor, int n) {
    multiply_add<<<(n + 63) / 64, 64>>>(device_values, factor, n);
    return cudaGetLastError();
}

extern "C" int library_calls(void) {
    int value = -1;
    return cudaMemcpyFromSymbol(&value, calls, sizeof value) == cudaSuccess ? value : -1;
}
