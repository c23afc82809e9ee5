// Odd-even sort: the host asks whether anything was swapped, by a variable of the device.
#include "common.cuh"

__device__ int swapped;

__global__ void compare(int *values, int offset, int n) {
    int i = 2 * (blockIdx.x * blockDim.x + threadIdx.x) + offset;
    if (i + 1 < n && values[i] > values[i + 1]) {
        int kept = values[i];
        values[i] = values[i + 1], values[i + 1] = kept, swapped = 1;
    }
}

int main() {
    const int n = 100;
    int values[n], *d_values = on_device<int>(n), flag, zero = 0, phases = 0;
    for (int i = 0; i < n; ++i) values[i] = (i * 71) % n;
    CHECK(cudaMemcpy(d_values, values, sizeof values, cudaMemcpyHostToDevice));
    do {
        CHECK(cudaMemcpyToSymbol(swapped, &zero, sizeof zero));
        compare<<<1, 64>>>(d_values, 0, n);
        compare<<<1, 64>>>(d_values, 1, n);
        CHECK(cudaMemcpyFromSymbol(&flag, swapped, sizeof flag));
        phases++;
    } while (flag);
    printf("%d phases\n", phases);
}
