// Relocatable device code of three translation units: functions, variables and kernels that name each other across units, names
// that each unit has for itself, templates that several units instantiate.
#include "linked.cuh"

__device__ int shared_counter = 5;
__constant__ int table[4] = {1, 10, 100, 1000};
extern __device__ int elsewhere[8];
extern __constant__ float factor;
extern __device__ Operation operations[2];

// Each unit has its own `local` and `own`.
static __device__ int local = 1;
static __device__ int own(int value) { return value + local; }

__global__ void across(int *out) {
    out[0] = twice(21);
    out[1] = own(0) + second_own(0) + third_own(0);
    out[2] = elsewhere[3];
    out[3] = static_cast<int>(factor * 4);
    out[4] = recursive_sum(10);
    out[5] = operations[0](6, 7);
    out[6] = operations[1](6, 7);
    out[7] = scaled<3>(5);
    out[8] = bump_counter();
    out[9] = shared_counter;
    shared_in_unit(out + 10);
}

__global__ void lines() { say("the first unit"); }

int main() {
    Verdict verdict;
    DeviceArray<int> out(16);
    out.zero();
    across<<<1, 1>>>(out.get());
    CHECK_LAUNCH();
    std::vector<int> expected{42, 1 + 2 + 3, 33, 6, 55, 13, 42, 15, 8, 8, 3, 7};
    verdict.equal(out.download(), expected, "result");
    second(out.get());
    std::vector<int> after = out.download();
    verdict.expect(after[0] == 1111 && after[1] == 9 && after[2] == 15, "a kernel of the second unit");

    int value = 40;
    CHECK(cudaMemcpyToSymbol(shared_counter, &value, sizeof value));
    second(out.get());
    CHECK(cudaMemcpyFromSymbol(&value, shared_counter, sizeof value));
    verdict.expect(value == 41, "a variable of the first unit");
    verdict.expect(read_elsewhere(3) == 33, "a variable of the second unit");

    lines<<<1, 1>>>();
    CHECK(cudaDeviceSynchronize());
    Verdict *pointer = &verdict;
    template_kernel<int><<<1, 1>>>(out.get(), 4);
    CHECK_LAUNCH();
    pointer->expect(out.download()[0] == 8, "a template that two units instantiate");
    return verdict.finish();
}
