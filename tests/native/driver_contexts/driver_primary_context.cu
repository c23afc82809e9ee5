// The primary context's life: retained and released by several owners, its flags and state, reset and release with what was made in it.
#include "../driver.h"

static CUdevice device;

static void state(unsigned flags, int active) {
    unsigned known = 99;
    int is_active = 99;
    OK(cuDevicePrimaryCtxGetState(device, &known, &is_active));
    EXPECT(known == flags && is_active == active);
}

static CUdeviceptr filled(int value, int count) {
    CUmodule module;
    CUfunction fill;
    CUdeviceptr data;
    OK(cuModuleLoadData(&module, PTX_HEADER PTX_FILL));
    OK(cuModuleGetFunction(&fill, module, "fill"));
    OK(cuMemAlloc(&data, count * sizeof(int)));
    void* parameters[] = {&data, &value};
    OK(cuLaunchKernel(fill, count / 32, 1, 1, 32, 1, 1, 0, nullptr, parameters, nullptr));
    return data;
}

static void check(CUdeviceptr data, int value, int count) {
    int* ints = (int*)malloc(count * sizeof(int));
    OK(cuMemcpyDtoH(ints, data, count * sizeof(int)));
    for (int i = 0; i < count; ++i) EXPECT(ints[i] == value + i);
    free(ints);
}

int main() {
    OK(cuInit(0));
    OK(cuDeviceGet(&device, 0));
    state(0, 0);
    FAILS(cuDevicePrimaryCtxRelease(device), CUDA_ERROR_INVALID_CONTEXT);
    OK(cuDevicePrimaryCtxSetFlags(device, CU_CTX_SCHED_BLOCKING_SYNC));
    FAILS(cuDevicePrimaryCtxSetFlags(device, CU_CTX_SCHED_SPIN | CU_CTX_SCHED_YIELD), CUDA_ERROR_INVALID_VALUE);
    FAILS(cuDevicePrimaryCtxSetFlags(device, 0x40000000), CUDA_ERROR_INVALID_VALUE);
    FAILS(cuDevicePrimaryCtxSetFlags(device + 1, 0), CUDA_ERROR_INVALID_DEVICE);
    state(CU_CTX_SCHED_BLOCKING_SYNC, 0);

    // Three owners of one context: it lives until the last has released it.
    CUcontext first, second, third, current;
    OK(cuDevicePrimaryCtxRetain(&first, device));
    OK(cuDevicePrimaryCtxRetain(&second, device));
    OK(cuDevicePrimaryCtxRetain(&third, device));
    FAILS(cuDevicePrimaryCtxRetain(nullptr, device), CUDA_ERROR_INVALID_VALUE);
    FAILS(cuDevicePrimaryCtxRetain(&current, device + 1), CUDA_ERROR_INVALID_DEVICE);
    EXPECT(first && first == second && second == third);
    OK(cuCtxGetCurrent(&current));
    EXPECT(!current);
    OK(cuCtxSetCurrent(first));
    state(CU_CTX_SCHED_BLOCKING_SYNC, 1);
    unsigned flags = 0;
    OK(cuCtxGetFlags(&flags));
    EXPECT((flags & CU_CTX_SCHED_MASK) == CU_CTX_SCHED_BLOCKING_SYNC);
    size_t before, total, now;
    OK(cuMemGetInfo(&before, &total));
    CUdeviceptr data = filled(100, 4096);
    OK(cuDevicePrimaryCtxRelease(device));
    check(data, 100, 4096);
    OK(cuDevicePrimaryCtxRelease(device));
    check(data, 100, 4096);
    state(CU_CTX_SCHED_BLOCKING_SYNC, 1);
    // Pushed twice, it is popped twice.
    OK(cuCtxPushCurrent(first));
    OK(cuCtxPopCurrent(&current));
    EXPECT(current == first);
    check(data, 100, 4096);
    OK(cuDevicePrimaryCtxRelease(device));
    FAILS(cuDevicePrimaryCtxRelease(device), CUDA_ERROR_INVALID_CONTEXT);
    unsigned known;
    int active = 7;
    OK(cuDevicePrimaryCtxGetState(device, &known, &active));
    EXPECT(active == 0);
    FAILS(cuMemFree(data), CUDA_ERROR_CONTEXT_IS_DESTROYED);

    // Retained anew it is there again, without what was in it.
    OK(cuDevicePrimaryCtxRetain(&first, device));
    OK(cuCtxSetCurrent(first));
    OK(cuMemGetInfo(&now, &total));
    EXPECT(now == before);
    FAILS(cuMemFree(data), CUDA_ERROR_INVALID_VALUE);
    data = filled(-5, 256);
    check(data, -5, 256);
    CUstream stream;
    CUevent event;
    OK(cuStreamCreate(&stream, 0));
    OK(cuEventCreate(&event, 0));
    CUmodule module;
    CUfunction fill;
    static int own[1024];
    OK(cuModuleLoadData(&module, PTX_HEADER PTX_FILL));
    OK(cuModuleGetFunction(&fill, module, "fill"));
    OK(cuMemHostRegister(own, sizeof own, 0));
    // A reset ends everything in the context, but not that it is retained.
    OK(cuDevicePrimaryCtxReset(device));
    FAILS(cuDevicePrimaryCtxReset(device + 1), CUDA_ERROR_INVALID_DEVICE);
    OK(cuDevicePrimaryCtxRelease(device));
    OK(cuDevicePrimaryCtxRetain(&second, device));
    OK(cuCtxSetCurrent(second));
    FAILS(cuMemFree(data), CUDA_ERROR_INVALID_VALUE);
    int value = 1;
    void* parameters[] = {&data, &value};
    FAILS(cuLaunchKernel(fill, 1, 1, 1, 32, 1, 1, 0, nullptr, parameters, nullptr), CUDA_ERROR_INVALID_HANDLE);
    FAILS(cuModuleGetFunction(&fill, module, "fill"), CUDA_ERROR_INVALID_HANDLE);
    FAILS(cuModuleUnload(module), CUDA_ERROR_INVALID_HANDLE);
    FAILS(cuMemHostUnregister(own), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
    data = filled(77, 256);
    check(data, 77, 256);
    OK(cuMemFree(data));
    OK(cuCtxSynchronize());
    printf("PASS\n");
    return 0;
}
