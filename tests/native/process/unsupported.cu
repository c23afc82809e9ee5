// Functions that are not there yet: each call fails with cudaErrorNotSupported, and the rest of the program is unharmed.
#include "../support.cuh"

__global__ void fill(int *data) { data[threadIdx.x] = threadIdx.x; }

int main() {
    Verdict verdict;
    DeviceArray<int> data(32);
    for (int round = 0; round < 3; ++round) {
        cudaIpcMemHandle_t handle;
        cudaGraphicsResource_t resource = nullptr;
        verdict.expect(cudaIpcGetMemHandle(&handle, data.get()) == cudaErrorNotSupported, "cudaIpcGetMemHandle");
        verdict.expect(cudaGetLastError() == cudaErrorNotSupported, "last error");
        void *function = &handle;
        cudaDriverEntryPointQueryResult query;
        CHECK(cudaGetDriverEntryPointByVersion("cuNothing", &function, 12050, cudaEnableDefault, &query));
        verdict.expect(function == nullptr && query == cudaDriverEntryPointSymbolNotFound, "no such function");
        verdict.expect(cudaGraphicsMapResources(1, &resource, nullptr) == cudaErrorNotSupported, "graphics");
        cudaGetLastError();
        fill<<<1, 32>>>(data.get());
        CHECK_LAUNCH();
        verdict.expect(data.download()[31] == 31, "a kernel");
    }
    return verdict.finish();
}
