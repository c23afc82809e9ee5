// What the programs of virtual memory management share: checks, and memory mapped readable and writable.
#include <cuda.h>
#include <cuda_runtime.h>
#include <stdio.h>
#include <string.h>

#include <vector>

#define EXPECT(condition)                                                \
    do {                                                                 \
        if (!(condition)) {                                              \
            printf("line %d: %s does not hold\n", __LINE__, #condition); \
            return 1;                                                    \
        }                                                                \
    } while (0)
#define OK(call) EXPECT((call) == CUDA_SUCCESS)

static_assert(sizeof(CUmemAllocationProp) == 32 && sizeof(CUmemAccessDesc) == 12, "as the shim has them");

inline CUmemAllocationProp on_device() {
    CUmemAllocationProp prop;
    memset(&prop, 0, sizeof prop);
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    return prop;
}

inline CUresult allow(CUdeviceptr address, size_t size, CUmemAccess_flags flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE) {
    CUmemAccessDesc desc;
    memset(&desc, 0, sizeof desc);
    desc.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    desc.flags = flags;
    return cuMemSetAccess(address, size, &desc, 1);
}

// Copies by the runtime API: both see the same memory, and these results have the same numbers in both.
inline CUresult upload(CUdeviceptr to, const void* from, size_t size) {
    return CUresult(cudaMemcpy((void*)to, from, size, cudaMemcpyHostToDevice));
}
inline CUresult download(void* to, CUdeviceptr from, size_t size) {
    return CUresult(cudaMemcpy(to, (const void*)from, size, cudaMemcpyDeviceToHost));
}
inline CUresult copy(CUdeviceptr to, CUdeviceptr from, size_t size) {
    return CUresult(cudaMemcpy((void*)to, (const void*)from, size, cudaMemcpyDeviceToDevice));
}
inline CUresult set(CUdeviceptr start, int value, size_t size) { return CUresult(cudaMemset((void*)start, value, size)); }

// Initializes the driver and gives the thread the primary context.
inline CUresult start() {
    CUcontext context;
    CUresult result = cuInit(0);
    if (result == CUDA_SUCCESS) result = cuDevicePrimaryCtxRetain(&context, 0);
    return result == CUDA_SUCCESS ? cuCtxSetCurrent(context) : result;
}
