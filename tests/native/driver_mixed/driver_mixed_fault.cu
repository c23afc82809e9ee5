// A kernel's fault is known to both APIs, whoever started it, until the context is reset by either.
#include "../driver.h"
#include <cuda_runtime.h>

__global__ void poke(int* data) { data[threadIdx.x] = 1; }

// After a fault every call that needs the device says so, in both APIs.
static void faulted(CUdeviceptr memory, CUfunction fill) {
    int word = 0, value = 1;
    void* parameters[] = {&memory, &value};
    CUdeviceptr more;
    void* runtime_more;
    FAILS(cuMemcpyDtoH(&word, memory, 4), CUDA_ERROR_ILLEGAL_ADDRESS);
    EXPECT(cudaMemcpy(&word, (void*)memory, 4, cudaMemcpyDeviceToHost) == cudaErrorIllegalAddress);
    FAILS(cuMemAlloc(&more, 64), CUDA_ERROR_ILLEGAL_ADDRESS);
    EXPECT(cudaMalloc(&runtime_more, 64) == cudaErrorIllegalAddress);
    FAILS(cuLaunchKernel(fill, 1, 1, 1, 4, 1, 1, 0, nullptr, parameters, nullptr), CUDA_ERROR_ILLEGAL_ADDRESS);
    FAILS(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
    EXPECT(cudaDeviceSynchronize() == cudaErrorIllegalAddress);
    // It is sticky: reading it does not end it.
    EXPECT(cudaGetLastError() == cudaErrorIllegalAddress && cudaGetLastError() == cudaErrorIllegalAddress);
    // What asks nothing of the device still answers.
    const char* name;
    int count = 0;
    CUcontext current;
    OK(cuGetErrorName(CUDA_ERROR_ILLEGAL_ADDRESS, &name));
    EXPECT(!strcmp(name, "CUDA_ERROR_ILLEGAL_ADDRESS"));
    OK(cuDeviceGetCount(&count));
    OK(cuCtxGetCurrent(&current));
    EXPECT(count == 1 && current);
}

int main() {
    CUdevice device = begin();
    CUmodule module;
    CUfunction fill;
    CUdeviceptr memory;
    int word = 0, value = 7;
    OK(cuModuleLoadData(&module, PTX_HEADER PTX_FILL));
    OK(cuModuleGetFunction(&fill, module, "fill"));
    OK(cuMemAlloc(&memory, 64));
    // A fault of a kernel of the runtime's.
    poke<<<1, 32>>>((int*)0x10);
    FAILS(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
    faulted(memory, fill);
    OK(cuDevicePrimaryCtxReset(device));
    EXPECT(cudaFree(0) == cudaSuccess && cudaGetLastError() == cudaSuccess);
    OK(cuCtxSynchronize());

    // And one of a kernel of the driver's, ended by the runtime's reset.
    OK(cuModuleLoadData(&module, PTX_HEADER PTX_FILL));
    OK(cuModuleGetFunction(&fill, module, "fill"));
    OK(cuMemAlloc(&memory, 64));
    CUdeviceptr nowhere = 0x20;
    void* bad[] = {&nowhere, &value};
    CUresult launched = cuLaunchKernel(fill, 1, 1, 1, 16, 1, 1, 0, nullptr, bad, nullptr);
    EXPECT(launched == CUDA_SUCCESS || launched == CUDA_ERROR_ILLEGAL_ADDRESS);  // known at once where nothing is deferred
    EXPECT(cudaDeviceSynchronize() == cudaErrorIllegalAddress);
    faulted(memory, fill);
    EXPECT(cudaDeviceReset() == cudaSuccess && cudaFree(0) == cudaSuccess && cudaGetLastError() == cudaSuccess);
    OK(cuMemAlloc(&memory, 64));
    poke<<<1, 16>>>((int*)memory);
    OK(cuMemcpyDtoH(&word, memory + 60, 4));
    EXPECT(word == 1);
    printf("PASS\n");
    return 0;
}
