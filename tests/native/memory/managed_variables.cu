// __managed__ variables: read and written by kernels and by the program, beside variables that are the device's alone.
#include "../support.cuh"

__managed__ int counter = 40;
__managed__ float table[3000] = {1.5f, 2.5f};
__device__ int device_only = 7;  // shares pages with the managed ones

__global__ void count_up(int by) {
    atomicAdd(&counter, by);
    if (threadIdx.x == 0) {
        atomicAdd(&table[2999], 1.0f);
        atomicAdd(&device_only, 1);
    }
}

__global__ void device_value(int *result) { *result = device_only; }

static void variables(Verdict &verdict) {
    counter += 1;
    count_up<<<2, 32>>>(1);
    CHECK_LAUNCH();
    CHECK(cudaDeviceSynchronize());
    std::printf("variables %d %.1f %.1f %.1f\n", counter, table[0], table[1], table[2999]);
    counter = 0;
    count_up<<<1, 1>>>(5);
    int *result, value;
    CHECK(cudaMalloc(&result, sizeof(int)));
    device_value<<<1, 1>>>(result);
    CHECK(cudaMemcpy(&value, result, sizeof(int), cudaMemcpyDeviceToHost));
    verdict.expect(value > 7, "what lies beside managed variables is the device's");
    std::printf("variables %d\n", counter);
    int by_symbol = 8;
    float some[2] = {};
    CHECK(cudaMemcpyToSymbol(counter, &by_symbol, sizeof by_symbol));
    count_up<<<1, 1>>>(5);
    CHECK_LAUNCH();
    CHECK(cudaMemcpyFromSymbol(&by_symbol, counter, sizeof by_symbol));
    CHECK(cudaMemcpyFromSymbol(some, table, sizeof some, sizeof(float)));
    verdict.expect(by_symbol == 13 && counter == 13 && some[0] == 2.5f, "copies that name a managed variable");
    CHECK(cudaFree(result));
}

int main() {
    Verdict verdict;
    variables(verdict);
    return verdict.finish();
}
