// Contexts of the driver API own what is made in them: cuCtxDestroy ends it, and what belongs to others stays (cuda.h, cuCtxDestroy).
#include "../driver.h"

static size_t available() {
    size_t free_bytes, total;
    OK(cuMemGetInfo(&free_bytes, &total));
    return free_bytes;
}

int main() {
    CUdevice device = begin();
    CUcontext primary, one, two, found;
    OK(cuCtxGetCurrent(&primary));
    CUdeviceptr kept, memory, pitched, managed, pooled;
    CUstream keeper, stream, special;
    CUevent event, other;
    size_t pitch;
    OK(cuMemAlloc(&kept, 4 << 20));
    OK(cuMemsetD32(kept, 7, 1 << 20));
    OK(cuStreamCreate(&keeper, CU_STREAM_NON_BLOCKING));
    OK(cuEventCreate(&other, CU_EVENT_DEFAULT));
    size_t before = available();

    one = create(device);
    OK(cuMemAlloc(&memory, 8 << 20));
    OK(cuMemAllocPitch(&pitched, &pitch, 1 << 20, 8, 4));
    OK(cuMemAllocManaged(&managed, 4 << 20, CU_MEM_ATTACH_GLOBAL));
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cuEventCreate(&event, CU_EVENT_DEFAULT));
    CUDA_ARRAY_DESCRIPTOR described = {1024, 1024, CU_AD_FORMAT_FLOAT, 1};
    CUarray array;
    OK(cuArrayCreate(&array, &described));
    CUmodule module;
    CUfunction fill;
    OK(cuModuleLoadData(&module, PTX_HEADER PTX_FILL));
    OK(cuModuleGetFunction(&fill, module, "fill"));
    EXPECT(available() <= before - (24u << 20));

    // What each thing is of.
    OK(cuStreamGetCtx(stream, &found));
    EXPECT(found == one);
    OK(cuStreamGetCtx(keeper, &found));
    EXPECT(found == primary);
    OK(cuStreamGetCtx(0, &found));
    EXPECT(found == one);
    for (CUdeviceptr address : {memory, pitched, managed}) {
        OK(cuPointerGetAttribute(&found, CU_POINTER_ATTRIBUTE_CONTEXT, address));
        EXPECT(found == one);
    }
    OK(cuPointerGetAttribute(&found, CU_POINTER_ATTRIBUTE_CONTEXT, kept));
    EXPECT(found == primary);

    // An event and a stream must be of one context; waiting and memory operations need not be.
    FAILS(cuEventRecord(event, keeper), CUDA_ERROR_INVALID_HANDLE);
    FAILS(cuEventRecord(other, stream), CUDA_ERROR_INVALID_HANDLE);
    OK(cuEventRecord(event, stream));
    OK(cuEventRecord(other, keeper));
    OK(cuStreamWaitEvent(keeper, event, 0));
    OK(cuEventSynchronize(other));
    float elapsed;
    FAILS(cuEventElapsedTime(&elapsed, event, other), CUDA_ERROR_INVALID_HANDLE);
    OK(cuMemsetD32Async(memory, 3, 16, keeper));
    OK(cuStreamSynchronize(keeper));

    // Functions and streams of another context are not launched with.
    int value = 100;
    void *parameters[] = {&memory, &value};
    OK(cuLaunchKernel(fill, 1, 1, 1, 32, 1, 1, 0, stream, parameters, nullptr));
    FAILS(cuLaunchKernel(fill, 1, 1, 1, 32, 1, 1, 0, keeper, parameters, nullptr), CUDA_ERROR_INVALID_HANDLE);
    OK(cuCtxPushCurrent(primary));
    FAILS(cuLaunchKernel(fill, 1, 1, 1, 32, 1, 1, 0, 0, parameters, nullptr), CUDA_ERROR_INVALID_HANDLE);
    OK(cuCtxPopCurrent(&found));
    int words[32];
    OK(cuStreamSynchronize(stream));
    OK(cuMemcpyDtoH(words, memory, sizeof words));
    EXPECT(words[0] == 100 && words[31] == 131);

    // Limits are each context's own.
    size_t stack, unchanged;
    OK(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 4096));
    OK(cuCtxPushCurrent(primary));
    OK(cuCtxGetLimit(&unchanged, CU_LIMIT_STACK_SIZE));
    OK(cuCtxPopCurrent(&found));
    OK(cuCtxGetLimit(&stack, CU_LIMIT_STACK_SIZE));
    EXPECT(stack == 4096 && unchanged == 1024);

    // Memory of pools is the device's.
    OK(cuMemAllocAsync(&pooled, 2 << 20, stream));
    OK(cuStreamSynchronize(stream));
    two = create(device);
    OK(cuStreamCreate(&special, CU_STREAM_DEFAULT));
    OK(cuCtxDestroy(one));
    OK(cuCtxGetCurrent(&found));
    EXPECT(found == two);
    EXPECT(available() == before - (2u << 20));
    OK(cuMemsetD32(pooled, 1, 16));
    OK(cuMemFree(pooled));
    OK(cuStreamSynchronize(special));
    OK(cuCtxDestroy(two));
    // The destroyed contexts were on this thread's stack: what is left below is `one`.
    OK(cuCtxGetCurrent(&found));
    EXPECT(found == one);
    FAILS(cuMemAlloc(&memory, 16), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    OK(cuCtxSetCurrent(primary));
    EXPECT(available() == before);
    unsigned seven;
    OK(cuMemcpyDtoH(&seven, kept + (4 << 20) - 4, 4));
    EXPECT(seven == 7);
    OK(cuEventQuery(other));
    OK(cuStreamDestroy(keeper));
    printf("PASS\n");
    return 0;
}
