// cudaDeviceReset between uses of both APIs: what it ends, what stays, and how each API begins again.
#include "../driver.h"
#include <cuda_runtime.h>

__device__ int counter = 10;

__global__ void add(int* data, int value) {
    data[threadIdx.x] += value;
    if (threadIdx.x == 0) counter += value;
}

static void round_trip(CUdevice device, int round) {
    // The driver API's part: memory, a module, a stream.
    CUmodule module;
    CUfunction fill;
    CUdeviceptr memory;
    CUstream stream;
    CUevent event;
    int ints[32], value = 100 * round, seen = 0;
    OK(cuModuleLoadData(&module, PTX_HEADER PTX_FILL));
    OK(cuModuleGetFunction(&fill, module, "fill"));
    OK(cuMemAlloc(&memory, sizeof ints));
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    void* parameters[] = {&memory, &value};
    OK(cuLaunchKernel(fill, 1, 1, 1, 32, 1, 1, 0, stream, parameters, nullptr));
    OK(cuEventRecord(event, stream));
    // The runtime's part: its kernel behind it; its variable starts anew after each reset.
    EXPECT(cudaStreamWaitEvent(stream, event, 0) == cudaSuccess);
    add<<<1, 32, 0, stream>>>((int*)memory, 5);
    add<<<1, 32, 0, stream>>>((int*)memory, 2);
    EXPECT(cudaStreamSynchronize(stream) == cudaSuccess);
    EXPECT(cudaMemcpyFromSymbol(&seen, counter, sizeof seen) == cudaSuccess && seen == 17);
    OK(cuMemcpyDtoH(ints, memory, sizeof ints));
    for (int i = 0; i < 32; ++i) EXPECT(ints[i] == 100 * round + 7 + i);

    EXPECT(cudaDeviceReset() == cudaSuccess);
    // Nothing of it is left, for either API.
    unsigned flags;
    int active = 7;
    OK(cuDevicePrimaryCtxGetState(device, &flags, &active));
    EXPECT(active == 0);
    EXPECT(cudaFree(0) == cudaSuccess);
    OK(cuDevicePrimaryCtxGetState(device, &flags, &active));
    EXPECT(active == 1);
    EXPECT(cudaFree((void*)memory) == cudaErrorInvalidValue && cudaGetLastError() == cudaErrorInvalidValue);
    FAILS(cuMemFree(memory), CUDA_ERROR_INVALID_VALUE);
    FAILS(cuStreamQuery(stream), CUDA_ERROR_INVALID_HANDLE);
    FAILS(cuEventQuery(event), CUDA_ERROR_INVALID_HANDLE);
    EXPECT(cudaStreamDestroy(stream) == cudaErrorInvalidResourceHandle);
    EXPECT(cudaGetLastError() == cudaErrorInvalidResourceHandle);
}

int main() {
    CUdevice device = begin();
    size_t total, first = 0, left = 0;
    EXPECT(cudaFree(0) == cudaSuccess);
    for (int round = 0; round < 4; ++round) {
        OK(cuMemGetInfo(&left, &total));
        if (round == 0) first = left;
        EXPECT(left == first);
        round_trip(device, round);
    }
    OK(cuCtxSynchronize());
    EXPECT(cudaDeviceSynchronize() == cudaSuccess && cudaPeekAtLastError() == cudaSuccess);
    printf("PASS\n");
    return 0;
}
