// A failed assertion: the error, which stays. Helper: its message goes to standard error.
#include <cassert>

#include "../support.cuh"

__global__ void checked(const int *values, int *out) {
    assert(values[threadIdx.x] >= 0);
    out[threadIdx.x] = 2 * values[threadIdx.x];
}

int main() {
    Verdict verdict;
    int values[32], *in, *out;
    for (int i = 0; i < 32; ++i) {
        values[i] = i;
    }
    CHECK(cudaMalloc(&in, sizeof values));
    CHECK(cudaMalloc(&out, sizeof values));
    CHECK(cudaMemcpy(in, values, sizeof values, cudaMemcpyHostToDevice));
    checked<<<1, 32>>>(in, out);
    CHECK_LAUNCH();
    CHECK(cudaMemcpy(values, out, sizeof values, cudaMemcpyDeviceToHost));
    verdict.expect(values[31] == 62, "an assertion that holds changes nothing");

    values[3] = -1;
    CHECK(cudaMemcpy(in, values, sizeof values, cudaMemcpyHostToDevice));
    checked<<<1, 32>>>(in, out); // where launches wait, this one tells already
    printf("%s\n", cudaGetErrorName(cudaDeviceSynchronize()));
    printf("%s\n", cudaGetErrorString(cudaGetLastError()));
    printf("%s\n", cudaGetErrorName(cudaMemcpy(values, out, sizeof values, cudaMemcpyDeviceToHost)));
    return verdict.finish();
}
