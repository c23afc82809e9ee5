// Two translation units, each with a fat binary of its own, that use the same names for kernels and variables.
#include "many_modules.cuh"
#include "../support.cuh"

static __device__ int setting = 1;

static __global__ void apply(int *values, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        values[i] = values[i] * 10 + setting;
    }
}

int main() {
    const int n = 300;
    Verdict verdict;
    std::vector<int> values(n), expected(n);
    int sum = 0;
    for (int i = 0; i < n; ++i) {
        values[i] = i;
        expected[i] = i * 10 + 6;
        sum += expected[i];
    }
    DeviceArray<int> device(values);
    int host_setting = 6;
    CHECK(cudaMemcpyToSymbol(setting, &host_setting, sizeof host_setting));
    second_unit_set(1000);
    apply<<<3, 100>>>(device.get(), n);
    CHECK_LAUNCH();
    verdict.equal(device.download(), expected, "values of the first unit");

    int second = second_unit_sum(device.get(), n);
    verdict.expect(second == sum + n * 1000, "sum of the second unit");
    CHECK(cudaMemcpyFromSymbol(&host_setting, setting, sizeof host_setting));
    verdict.expect(host_setting == 6 && second_unit_get() == 1000, "variables of the same name are two variables");
    std::printf("many_modules %d\n", second);
    return verdict.finish();
}
