// A kernel that ends only when the host is told to end it: a line before the wait, so that a test can interrupt it.
#include "../support.cuh"

__global__ void endless(volatile unsigned *values) {
    unsigned *own = const_cast<unsigned *>(values) + threadIdx.x;
    unsigned value = threadIdx.x;
    while (values[blockDim.x] == 0) {
        value = value * 1664525u + 1013904223u;
        *own = value;
    }
}

int main() {
    DeviceArray<unsigned> values(65);
    values.zero();
    CHECK(cudaDeviceSynchronize());
    endless<<<1, 64>>>(values.get());
    std::printf("running\n");
    std::fflush(stdout);
    CHECK(cudaDeviceSynchronize());
    return 1;
}
