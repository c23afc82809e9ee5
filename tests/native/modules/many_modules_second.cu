// The second translation unit of `many_modules`: same names, other kernels.
#include "many_modules.cuh"
#include "../support.cuh"

static __device__ int setting = 2;

static __global__ void apply(const int *values, int *sum, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        atomicAdd(sum, values[i] + setting);
    }
}

int second_unit_sum(const int *device_values, int n) {
    DeviceArray<int> sum(1);
    sum.zero();
    apply<<<2, 150>>>(device_values, sum.get(), n);
    CHECK_LAUNCH();
    return sum.download()[0];
}

void second_unit_set(int value) { CHECK(cudaMemcpyToSymbol(setting, &value, sizeof value)); }

int second_unit_get() {
    int value = 0;
    CHECK(cudaMemcpyFromSymbol(&value, setting, sizeof value));
    return value;
}
