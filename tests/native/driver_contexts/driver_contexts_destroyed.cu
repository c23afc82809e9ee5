// Handles of destroyed contexts: cuda.h's texts of CUDA_ERROR_INVALID_CONTEXT, CUDA_ERROR_CONTEXT_IS_DESTROYED and CUDA_ERROR_INVALID_HANDLE.
#include "../driver.h"
#include <cuda_runtime.h>
#include <thread>

int main() {
    CUdevice device = begin();
    CUcontext primary, found, context;
    OK(cuCtxGetCurrent(&primary));
    context = create(device);
    CUstream stream;
    CUevent event;
    CUmodule module;
    CUfunction fill;
    CUdeviceptr memory;
    CUarray array;
    CUDA_ARRAY_DESCRIPTOR described = {16, 16, CU_AD_FORMAT_FLOAT, 1};
    OK(cuStreamCreate(&stream, CU_STREAM_DEFAULT));
    OK(cuEventCreate(&event, CU_EVENT_DEFAULT));
    OK(cuModuleLoadData(&module, PTX_HEADER PTX_FILL));
    OK(cuModuleGetFunction(&fill, module, "fill"));
    OK(cuMemAlloc(&memory, 4096));
    void* own = aligned_alloc(4096, 4096);
    OK(cuMemHostRegister(own, 4096, 0));
    OK(cuArrayCreate(&array, &described));
    int value = 1;
    void *parameters[] = {&memory, &value};
    OK(cuLaunchKernel(fill, 1, 1, 1, 32, 1, 1, 0, stream, parameters, nullptr));

    // Still current to another thread: that thread's calls say so.
    CUresult allocated = CUDA_SUCCESS;
    cudaError_t runtime = cudaSuccess;
    volatile int step = 0;
    std::thread other([&] {
        OK(cuCtxSetCurrent(context));
        __atomic_store_n(&step, 1, __ATOMIC_RELEASE);
        while (__atomic_load_n(&step, __ATOMIC_ACQUIRE) != 2) {
        }
        CUdeviceptr more;
        void *pointer;
        allocated = cuMemAlloc(&more, 16);
        runtime = cudaMalloc(&pointer, 16);
    });
    while (__atomic_load_n(&step, __ATOMIC_ACQUIRE) != 1) {
    }
    OK(cuCtxDestroy(context));
    __atomic_store_n(&step, 2, __ATOMIC_RELEASE);
    other.join();
    EXPECT(allocated == CUDA_ERROR_CONTEXT_IS_DESTROYED && runtime == cudaErrorContextIsDestroyed);

    OK(cuCtxGetCurrent(&found));
    EXPECT(found == primary);
    unsigned long long id;
    FAILS(cuCtxDestroy(context), CUDA_ERROR_INVALID_CONTEXT);
    FAILS(cuCtxPushCurrent(context), CUDA_ERROR_INVALID_CONTEXT);
    FAILS(cuCtxSetCurrent(context), CUDA_ERROR_INVALID_CONTEXT);
    FAILS(cuCtxGetId(context, &id), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    FAILS(cuStreamSynchronize(stream), CUDA_ERROR_INVALID_HANDLE);
    FAILS(cuStreamGetCtx(stream, &found), CUDA_ERROR_INVALID_HANDLE);
    FAILS(cuStreamDestroy(stream), CUDA_ERROR_INVALID_HANDLE);
    FAILS(cuEventQuery(event), CUDA_ERROR_INVALID_HANDLE);
    FAILS(cuEventRecord(event, 0), CUDA_ERROR_INVALID_HANDLE);
    FAILS(cuModuleUnload(module), CUDA_ERROR_INVALID_HANDLE);
    FAILS(cuModuleGetFunction(&fill, module, "fill"), CUDA_ERROR_INVALID_HANDLE);
    FAILS(cuLaunchKernel(fill, 1, 1, 1, 32, 1, 1, 0, 0, parameters, nullptr), CUDA_ERROR_INVALID_HANDLE);
    FAILS(cuArrayDestroy(array), CUDA_ERROR_INVALID_HANDLE);
    FAILS(cuMemFree(memory), CUDA_ERROR_INVALID_VALUE);
    FAILS(cuMemHostUnregister(own), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
    OK(cuMemHostRegister(own, 4096, 0));
    OK(cuMemHostUnregister(own));
    free(own);
    OK(cuMemAlloc(&memory, 4096));
    OK(cuCtxSynchronize());
    printf("PASS\n");
    return 0;
}
