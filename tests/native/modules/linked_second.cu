// The second unit of `linked`: definitions for the first, a kernel and a host function of its own.
#include "linked.cuh"

extern __device__ int shared_counter;
extern __constant__ int table[4];

__device__ int elsewhere[8] = {0, 11, 22, 33, 44, 55, 66, 77};
__constant__ float factor = 1.5f;

static __device__ int local = 2;
static __device__ int own(int value) { return value + local; }

__device__ int twice(int value) { return 2 * value; }
__device__ int second_own(int value) { return own(value); }
__device__ int bump_counter() { return shared_counter += 3; }
__device__ void say(const char *text) { printf("said by the second unit: %s\n", text); }

__global__ void uses_first(int *out) {
    out[0] = table[0] + table[1] + table[2] + table[3];
    shared_counter += 1;
    out[1] = shared_counter;
    out[2] = scaled<3>(5);
    say("the second unit");
}

void second(int *out) {
    uses_first<<<1, 1>>>(out);
    CHECK(cudaDeviceSynchronize());
    template_kernel<int><<<1, 1>>>(out + 12, 1);
    CHECK(cudaDeviceSynchronize());
}

int read_elsewhere(int index) {
    int values[8];
    CHECK(cudaMemcpyFromSymbol(values, elsewhere, sizeof values));
    return values[index];
}
