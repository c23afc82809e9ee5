// The third unit of `linked`: device functions only.
#include "linked.cuh"

static __device__ int local = 3;
static __device__ int own(int value) { return value + local; }
static __shared__ int scratch[2];

__device__ int third_own(int value) { return own(value); }
__device__ int recursive_sum(int n) { return n == 0 ? 0 : n + recursive_sum(n - 1); }

static __device__ int add(int a, int b) { return a + b; }
static __device__ int multiply(int a, int b) { return a * b; }
__device__ Operation operations[2] = {add, multiply};

__device__ void shared_in_unit(int *out) {
    scratch[0] = third_own(0);
    scratch[1] = 7;
    out[0] = scratch[0];
    out[1] = scratch[1];
}
