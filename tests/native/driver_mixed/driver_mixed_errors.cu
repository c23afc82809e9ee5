// Errors across the APIs: a result of the driver's is not the runtime's last error, and the runtime's last error does not disturb the driver's calls.
#include "../driver.h"
#include <cuda_runtime.h>

__global__ void poke(int* data) { data[threadIdx.x] = 1; }

int main() {
    begin();
    CUmodule module;
    CUfunction fill;
    CUdeviceptr memory;
    int word = 0, value = 7;
    OK(cuModuleLoadData(&module, PTX_HEADER PTX_FILL));
    OK(cuModuleGetFunction(&fill, module, "fill"));
    OK(cuMemAlloc(&memory, 64));
    void* parameters[] = {&memory, &value};

    // Errors of the driver API stay in its results, errors of the runtime API in its last error.
    FAILS(cuMemFree(memory + 1), CUDA_ERROR_INVALID_VALUE);
    FAILS(cuStreamSynchronize((CUstream)&word), CUDA_ERROR_INVALID_HANDLE);
    FAILS(cuLaunchKernel(fill, 0, 1, 1, 1, 1, 1, 0, nullptr, parameters, nullptr), CUDA_ERROR_INVALID_VALUE);
    EXPECT(cudaPeekAtLastError() == cudaSuccess);
    EXPECT(cudaFree((void*)(memory + 1)) == cudaErrorInvalidValue);
    OK(cuLaunchKernel(fill, 1, 1, 1, 16, 1, 1, 0, nullptr, parameters, nullptr));
    OK(cuCtxSynchronize());
    EXPECT(cudaGetLastError() == cudaErrorInvalidValue && cudaGetLastError() == cudaSuccess);
    poke<<<1, 2048>>>((int*)memory);
    OK(cuMemcpyDtoH(&word, memory, 4));
    EXPECT(word == 7 && cudaGetLastError() == cudaErrorInvalidConfiguration);

    // A refusal leaves the device as it was, for both.
    FAILS(cuMemsetD8(memory + 60, 0, 8), CUDA_ERROR_INVALID_VALUE);
    EXPECT(cudaMemset((void*)(memory + 60), 0, 8) == cudaErrorInvalidValue);
    poke<<<1, 16>>>((int*)memory);
    EXPECT(cudaGetLastError() == cudaErrorInvalidValue && cudaDeviceSynchronize() == cudaSuccess);
    OK(cuMemcpyDtoH(&word, memory + 60, 4));
    EXPECT(word == 1);
    printf("PASS\n");
    return 0;
}
