// Initialization, devices, results, entry points and contexts of the driver API, and the runtime API beside it.
#include <cuda.h>
#include <cuda_runtime.h>
#include <stdio.h>
#include <string.h>

#define EXPECT(condition)                                          \
    do {                                                           \
        if (!(condition)) {                                        \
            printf("line %d: %s does not hold\n", __LINE__, #condition); \
            return 1;                                              \
        }                                                          \
    } while (0)

typedef CUresult (*GetProcAddress)(const char*, void**, int, cuuint64_t, CUdriverProcAddressQueryResult*);

int entry_points() {
    void* found = nullptr;
    CUdriverProcAddressQueryResult status;
    GetProcAddress get = nullptr;
    EXPECT(cuGetProcAddress_v2("cuGetProcAddress", (void**)&get, 12000, 0, &status) == CUDA_SUCCESS && get);
    EXPECT(get("cuMemAlloc", &found, 12000, 0, &status) == CUDA_SUCCESS && status == CU_GET_PROC_ADDRESS_SUCCESS);
    EXPECT(found == (void*)cuMemAlloc);
    void* plain = nullptr;
    EXPECT(get("cuStreamSynchronize", &plain, 12000, CU_GET_PROC_ADDRESS_LEGACY_STREAM, nullptr) == CUDA_SUCCESS);
    EXPECT(get("cuStreamSynchronize", &found, 12000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, nullptr) == CUDA_SUCCESS);
    EXPECT(found && plain && found != plain);
    // An older version of CUDA gets the function of its time, and none that is newer.
    void* older = nullptr;
    EXPECT(get("cuCtxCreate", &older, 11000, 0, nullptr) == CUDA_SUCCESS);
    EXPECT(get("cuCtxCreate", &found, 12050, 0, nullptr) == CUDA_SUCCESS && found != older);
    EXPECT(get("cuLibraryLoadData", &found, 11080, 0, &status) == CUDA_SUCCESS && !found);
    EXPECT(status == CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
    EXPECT(get("", &found, 12000, 0, &status) == CUDA_SUCCESS && !found);
    EXPECT(status == CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
    EXPECT(get("cuNothing", &found, 12000, 0, nullptr) == CUDA_ERROR_NOT_FOUND && !found);
    EXPECT(get("cuInit", &found, 12000, 77, nullptr) == CUDA_ERROR_INVALID_VALUE);
    EXPECT(get(nullptr, &found, 12000, 0, nullptr) == CUDA_ERROR_INVALID_VALUE);
    cudaDriverEntryPointQueryResult asked;
    EXPECT(cudaGetDriverEntryPointByVersion("cuMemAlloc", &found, 12000, cudaEnableDefault, &asked) == cudaSuccess);
    EXPECT(asked == cudaDriverEntryPointSuccess && found == (void*)cuMemAlloc);
    return 0;
}

CUresult create(CUcontext* context, unsigned flags, CUdevice device) {
#if CUDA_VERSION >= 13000
    return cuCtxCreate(context, nullptr, flags, device);
#else
    return cuCtxCreate(context, flags, device);
#endif
}

int main() {
    int count = 0, version = 0, major = 0, minor = 0;
    const char* name = nullptr;
    EXPECT(cuDeviceGetCount(&count) == CUDA_ERROR_NOT_INITIALIZED);
    EXPECT(cuMemFree(0) == CUDA_ERROR_NOT_INITIALIZED);
    EXPECT(cuInit(1) == CUDA_ERROR_INVALID_VALUE);
    EXPECT(cuInit(0) == CUDA_SUCCESS && cuInit(0) == CUDA_SUCCESS);
    EXPECT(cuDriverGetVersion(&version) == CUDA_SUCCESS);
    EXPECT(cuGetErrorName(CUDA_ERROR_INVALID_CONTEXT, &name) == CUDA_SUCCESS && !strcmp(name, "CUDA_ERROR_INVALID_CONTEXT"));
    EXPECT(cuGetErrorString(CUDA_ERROR_OUT_OF_MEMORY, &name) == CUDA_SUCCESS && !strcmp(name, "out of memory"));
    EXPECT(cuGetErrorName((CUresult)12345, &name) == CUDA_ERROR_INVALID_VALUE && !name);
    CUdevice device;
    EXPECT(cuDeviceGetCount(&count) == CUDA_SUCCESS && count == 1);
    EXPECT(cuDeviceGet(&device, 0) == CUDA_SUCCESS && cuDeviceGet(&device, 1) == CUDA_ERROR_INVALID_DEVICE);
    EXPECT(cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device) == CUDA_SUCCESS);
    EXPECT(cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device) == CUDA_SUCCESS);
    printf("version %d device capability %d.%d\n", version, major, minor);
    char text[8];
    EXPECT(cuDeviceGetName(text, sizeof text, device) == CUDA_SUCCESS && strlen(text) == 7);
    size_t total = 0, free_bytes = 0;
    EXPECT(cuDeviceTotalMem(&total, device) == CUDA_SUCCESS && total > 0);
    if (entry_points()) return 1;

    // No context: what needs one says so.
    CUcontext current = (CUcontext)1, primary, created, other;
    CUdeviceptr memory = 0;
    EXPECT(cuCtxGetCurrent(&current) == CUDA_SUCCESS && !current);
    EXPECT(cuMemAlloc(&memory, 16) == CUDA_ERROR_INVALID_CONTEXT && cuCtxSynchronize() == CUDA_ERROR_INVALID_CONTEXT);
    EXPECT(cuCtxPopCurrent(&current) == CUDA_ERROR_INVALID_CONTEXT);
    EXPECT(cuCtxPushCurrent((CUcontext)0x1234) == CUDA_ERROR_INVALID_CONTEXT);
    printf("contexts none");

    unsigned flags = 7;
    int active = 7;
    EXPECT(cuDevicePrimaryCtxGetState(device, &flags, &active) == CUDA_SUCCESS && flags == 0 && active == 0);
    EXPECT(cuDevicePrimaryCtxRetain(&primary, device) == CUDA_SUCCESS);
    EXPECT(cuCtxGetCurrent(&current) == CUDA_SUCCESS && !current);
    EXPECT(cuDevicePrimaryCtxGetState(device, &flags, &active) == CUDA_SUCCESS && active == 1);
    EXPECT(cuCtxSetCurrent(primary) == CUDA_SUCCESS && cuCtxGetCurrent(&current) == CUDA_SUCCESS && current == primary);
    EXPECT(cuMemAlloc(&memory, 1 << 20) == CUDA_SUCCESS && memory);
    EXPECT(cuMemGetInfo(&free_bytes, &total) == CUDA_SUCCESS && free_bytes <= total - (1 << 20));
    // The runtime API uses the same context: its pointers are the driver's, and the other way round.
    EXPECT(cudaMemset((void*)memory, 1, 16) == cudaSuccess && cudaFree((void*)memory) == cudaSuccess);
    EXPECT(cuMemFree(memory) == CUDA_ERROR_INVALID_VALUE);
    EXPECT(cudaGetLastError() == cudaSuccess);
    EXPECT(cuDevicePrimaryCtxRelease(device) == CUDA_SUCCESS);
    EXPECT(cuDevicePrimaryCtxRelease(device) == CUDA_ERROR_INVALID_CONTEXT);
    printf(" primary");

    EXPECT(create(&created, CU_CTX_SCHED_SPIN, device) == CUDA_SUCCESS && created != primary);
    EXPECT(cuCtxGetFlags(&flags) == CUDA_SUCCESS && flags == CU_CTX_SCHED_SPIN);
    EXPECT(create(&other, CU_CTX_SCHED_SPIN | CU_CTX_SCHED_YIELD, device) == CUDA_ERROR_INVALID_VALUE);
    EXPECT(create(&other, 0, device) == CUDA_SUCCESS);
    unsigned long long one = 0, two = 0;
    EXPECT(cuCtxGetId(created, &one) == CUDA_SUCCESS && cuCtxGetId(other, &two) == CUDA_SUCCESS && one != two);
    EXPECT(cuCtxGetCurrent(&current) == CUDA_SUCCESS && current == other);
    EXPECT(cuCtxDestroy(other) == CUDA_SUCCESS && cuCtxGetCurrent(&current) == CUDA_SUCCESS && current == created);
    EXPECT(cuCtxDestroy(other) == CUDA_ERROR_INVALID_CONTEXT);
    EXPECT(cuCtxSetCurrent(other) == CUDA_ERROR_INVALID_CONTEXT);
    EXPECT(cuCtxPopCurrent(&current) == CUDA_SUCCESS && current == created);
    EXPECT(cuCtxGetCurrent(&current) == CUDA_SUCCESS && current == primary);
    EXPECT(cuCtxDestroy(primary) == CUDA_ERROR_INVALID_CONTEXT);
    EXPECT(cuCtxDestroy(created) == CUDA_SUCCESS && cuCtxSynchronize() == CUDA_SUCCESS);
    EXPECT(cudaDeviceReset() == cudaSuccess && cuCtxSynchronize() == CUDA_ERROR_CONTEXT_IS_DESTROYED);
    EXPECT(cudaFree(0) == cudaSuccess && cuCtxGetCurrent(&current) == CUDA_SUCCESS && current == primary);
    EXPECT(cuCtxSynchronize() == CUDA_SUCCESS);
    printf(" created\nPASS\n");
    return 0;
}
