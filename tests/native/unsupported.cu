// Functions that are not there yet: each call fails with cudaErrorNotSupported, and the rest of the program is unharmed.
#include "support.cuh"

__global__ void fill(int *data) { data[threadIdx.x] = threadIdx.x; }

int main() {
    Verdict verdict;
    DeviceArray<int> data(32);
    for (int round = 0; round < 3; ++round) {
        void *pointer = nullptr;
        verdict.expect(cudaMallocManaged(&pointer, 64) == cudaErrorNotSupported, "cudaMallocManaged");
        verdict.expect(cudaGetLastError() == cudaErrorNotSupported, "last error");
        verdict.expect(cudaStreamBeginCapture(nullptr, cudaStreamCaptureModeGlobal) == cudaErrorNotSupported, "capture");
        cudaGetLastError();
        fill<<<1, 32>>>(data.get());
        CHECK_LAUNCH();
        verdict.expect(data.download()[31] == 31, "a kernel");
    }
    return verdict.finish();
}
