// A fault ruins the context that it happens in; others go on, with their memory, through both APIs. Run on the simulated device: a real GPU's
// process is lost as a whole.
#include "../driver.h"
#include <cuda_runtime.h>

__global__ void add(int *data, int value) { data[threadIdx.x] += value; }

int main() {
    CUdevice device = begin();
    CUcontext primary, ruined, other, found;
    OK(cuCtxGetCurrent(&primary));
    int *data, words[32];
    EXPECT(cudaMalloc(&data, sizeof words) == cudaSuccess && cudaMemset(data, 0, sizeof words) == cudaSuccess);
    add<<<1, 32>>>(data, 1);
    EXPECT(cudaDeviceSynchronize() == cudaSuccess);
    size_t before, after, total;
    OK(cuMemGetInfo(&before, &total));

    for (int round = 0; round < 3; round++) {
        CUmodule module;
        CUfunction fill;
        CUdeviceptr memory, healthy;
        CUevent event;
        CUstream stream;
        other = create(device);
        OK(cuMemAlloc(&healthy, 4096));
        OK(cuMemsetD32(healthy, 9, 1024));
        ruined = create(device);
        OK(cuMemAlloc(&memory, 4 << 20));
        OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
        OK(cuEventCreate(&event, CU_EVENT_DEFAULT));
        OK(cuModuleLoadData(&module, PTX_HEADER PTX_FILL));
        OK(cuModuleGetFunction(&fill, module, "fill"));
        CUdeviceptr nowhere = 64;
        int value = 1;
        void *wrong[] = {&nowhere, &value};
        CUresult launched = cuLaunchKernel(fill, 1, 1, 1, 32, 1, 1, 0, stream, wrong, nullptr);
        EXPECT(launched == CUDA_SUCCESS || launched == CUDA_ERROR_ILLEGAL_ADDRESS);
        CUdeviceptr late;
        CUresult made = cuMemAlloc(&late, 1 << 20);  // deferred behind the fault, or refused already
        EXPECT(made == CUDA_SUCCESS || made == CUDA_ERROR_ILLEGAL_ADDRESS);
        CUresult recorded = cuEventRecord(event, stream);
        EXPECT(recorded == CUDA_SUCCESS || recorded == CUDA_ERROR_ILLEGAL_ADDRESS);

        // The others are used before anybody has been told.
        OK(cuCtxPushCurrent(primary));
        add<<<1, 32>>>(data, 1);
        EXPECT(cudaGetLastError() == cudaSuccess && cudaDeviceSynchronize() == cudaSuccess);
        OK(cuCtxPopCurrent(&found));

        FAILS(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
        FAILS(cuMemAlloc(&memory, 16), CUDA_ERROR_ILLEGAL_ADDRESS);
        FAILS(cuStreamSynchronize(stream), CUDA_ERROR_ILLEGAL_ADDRESS);
        EXPECT(cudaPeekAtLastError() == cudaErrorIllegalAddress);

        OK(cuCtxPushCurrent(other));
        OK(cuStreamWaitEvent(0, event, 0));
        OK(cuMemcpyDtoH(words, healthy + 4096 - sizeof words, sizeof words));
        EXPECT(words[0] == 9 && words[31] == 9);
        CUdeviceptr more;
        OK(cuMemAlloc(&more, 1 << 20));
        OK(cuMemsetD32(more, 5, 1 << 18));
        OK(cuCtxSynchronize());
        OK(cuCtxPopCurrent(&found));
        EXPECT(found == other);

        OK(cuCtxDestroy(ruined));
        OK(cuCtxGetCurrent(&found));
        EXPECT(found == other);
        OK(cuMemcpyDtoH(words, more, sizeof words));
        EXPECT(words[0] == 5);
        OK(cuCtxDestroy(other));
        OK(cuMemGetInfo(&after, &total));
        EXPECT(before == after);
    }

    // The primary context's fault is what the runtime API sees; a created one goes on.
    other = create(device);
    CUdeviceptr memory;
    OK(cuMemAlloc(&memory, 4096));
    OK(cuMemsetD32(memory, 4, 1024));
    OK(cuCtxPushCurrent(primary));
    EXPECT(cudaMemcpy(words, data, sizeof words, cudaMemcpyDeviceToHost) == cudaSuccess);
    EXPECT(words[0] == 4 && words[31] == 4);
    add<<<1, 32>>>((int *)64, 1);
    EXPECT(cudaDeviceSynchronize() == cudaErrorIllegalAddress && cudaGetLastError() == cudaErrorIllegalAddress);
    OK(cuCtxPopCurrent(&found));
    OK(cuMemcpyDtoH(words, memory, sizeof words));
    EXPECT(words[0] == 4);
    OK(cuDevicePrimaryCtxReset(device));
    OK(cuMemcpyDtoH(words, memory, sizeof words));
    EXPECT(words[31] == 4);
    OK(cuCtxSetCurrent(nullptr));
    EXPECT(cudaMalloc(&data, sizeof words) == cudaSuccess && cudaMemset(data, 0, sizeof words) == cudaSuccess);
    add<<<1, 32>>>(data, 2);
    EXPECT(cudaMemcpy(words, data, sizeof words, cudaMemcpyDeviceToHost) == cudaSuccess && words[31] == 2);
    OK(cuCtxDestroy(other));
    printf("PASS\n");
    return 0;
}
