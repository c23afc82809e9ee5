// Memory of the driver API: linear copies in every direction, sets of 8, 16 and 32 bits, pitched, managed, pinned and registered memory, ranges
// and attributes of pointers, pools.
#include "../driver.h"
#include <cstdlib>
#include <cstring>
#include <vector>

static const size_t COUNT = 1000;

static int copies(CUstream stream) {
    std::vector<unsigned> host(COUNT), back(COUNT);
    for (size_t i = 0; i < COUNT; ++i) host[i] = unsigned(i * 2654435761u);
    const size_t bytes = COUNT * sizeof(unsigned);
    CUdeviceptr a, b;
    EXPECT(cuMemAlloc(&a, bytes) == CUDA_SUCCESS && cuMemAlloc(&b, bytes) == CUDA_SUCCESS);
    EXPECT(cuMemcpyHtoD(a, host.data(), bytes) == CUDA_SUCCESS);
    EXPECT(cuMemcpyDtoD(b, a, bytes) == CUDA_SUCCESS && cuMemcpyDtoH(back.data(), b, bytes) == CUDA_SUCCESS);
    EXPECT(back == host);
    memset(back.data(), 0, bytes);
    EXPECT(cuMemsetD8(b, 0, bytes) == CUDA_SUCCESS && cuMemcpy(b, a, bytes) == CUDA_SUCCESS);
    EXPECT(cuMemcpy((CUdeviceptr)back.data(), b, bytes) == CUDA_SUCCESS && back == host);
    for (unsigned &value : host) value = ~value;
    EXPECT(cuMemcpyHtoDAsync(a, host.data(), bytes, stream) == CUDA_SUCCESS);
    EXPECT(cuMemcpyDtoDAsync(b, a, bytes, stream) == CUDA_SUCCESS);
    EXPECT(cuMemcpyDtoHAsync(back.data(), b, bytes, stream) == CUDA_SUCCESS && cuStreamSynchronize(stream) == CUDA_SUCCESS);
    EXPECT(back == host);
    EXPECT(cuMemcpyAsync(a, (CUdeviceptr)back.data(), bytes, CU_STREAM_PER_THREAD) == CUDA_SUCCESS);
    EXPECT(cuMemcpyHtoD(a + 4, host.data(), bytes) == CUDA_ERROR_INVALID_VALUE);
    EXPECT(cuMemcpyDtoH(back.data(), 0x1234, 4) == CUDA_ERROR_INVALID_VALUE);
    EXPECT(cuMemcpyHtoD(a, nullptr, 4) != CUDA_SUCCESS && cuMemcpyHtoD(a, host.data(), 0) == CUDA_SUCCESS);
    EXPECT(cuMemFree(a) == CUDA_SUCCESS && cuMemFree(b) == CUDA_SUCCESS && cuMemFree(b) == CUDA_ERROR_INVALID_VALUE);
    return 0;
}

static int sets(CUstream stream) {
    CUdeviceptr memory;
    size_t pitch = 0;
    unsigned char row[64];
    EXPECT(cuMemAllocPitch(&memory, &pitch, 60, 10, 3) == CUDA_ERROR_INVALID_VALUE);
    EXPECT(cuMemAllocPitch(&memory, &pitch, 60, 10, 4) == CUDA_SUCCESS && pitch >= 60 && pitch % 4 == 0);
    EXPECT(cuMemsetD2D8(memory, pitch, 0x11, 60, 10) == CUDA_SUCCESS);
    EXPECT(cuMemsetD2D16(memory + pitch, pitch, 0x2233, 10, 3) == CUDA_SUCCESS && cuCtxSynchronize() == CUDA_SUCCESS);
    EXPECT(cuMemsetD2D32Async(memory + 4 * pitch, pitch, 0x44556677, 5, 2, stream) == CUDA_SUCCESS);
    EXPECT(cuStreamSynchronize(stream) == CUDA_SUCCESS && cuMemcpyDtoH(row, memory + 2 * pitch, 60) == CUDA_SUCCESS);
    EXPECT(row[0] == 0x33 && row[1] == 0x22 && row[18] == 0x33 && row[19] == 0x22 && row[20] == 0x11 && row[59] == 0x11);
    EXPECT(cuMemcpyDtoH(row, memory + 5 * pitch, 60) == CUDA_SUCCESS);
    EXPECT(row[0] == 0x77 && row[3] == 0x44 && row[16] == 0x77 && row[20] == 0x11);
    EXPECT(cuMemsetD16(memory + 1, 7, 2) == CUDA_ERROR_INVALID_VALUE && cuMemsetD32(memory + 2, 7, 2) == CUDA_ERROR_INVALID_VALUE);
    EXPECT(cuMemsetD32Async(memory, 9, 3, stream) == CUDA_SUCCESS && cuMemsetD16Async(memory + 12, 8, 1, stream) == CUDA_SUCCESS);
    EXPECT(cuMemsetD8Async(memory + 14, 5, 1, stream) == CUDA_SUCCESS && cuStreamSynchronize(stream) == CUDA_SUCCESS);
    EXPECT(cuMemcpyDtoH(row, memory, 16) == CUDA_SUCCESS && row[8] == 9 && row[9] == 0 && row[12] == 8 && row[14] == 5 && row[15] == 0x11);
    return cuMemFree(memory) != CUDA_SUCCESS;
}

template <typename T> static CUresult ask(T *value, CUpointer_attribute attribute, const void *pointer) {
    return cuPointerGetAttribute(value, attribute, (CUdeviceptr)pointer);
}

static int pointers() {
    CUdeviceptr memory, managed, base = 0;
    size_t size = 0;
    unsigned type = 0, flags = 0;
    int ordinal = 7;
    unsigned int is_managed = 0xffffff07;
    void *pinned, *seen;
    EXPECT(cuMemAlloc(&memory, 4096) == CUDA_SUCCESS && cuMemAllocManaged(&managed, 8192, CU_MEM_ATTACH_GLOBAL) == CUDA_SUCCESS);
    EXPECT(cuMemHostAlloc(&pinned, 100, CU_MEMHOSTALLOC_DEVICEMAP) == CUDA_SUCCESS);
    EXPECT(cuMemGetAddressRange(&base, &size, memory + 100) == CUDA_SUCCESS && base == memory && size == 4096);
    EXPECT(cuMemGetAddressRange(nullptr, &size, memory) == CUDA_SUCCESS);
    EXPECT(cuMemGetAddressRange(&base, &size, (CUdeviceptr)&size) == CUDA_ERROR_NOT_FOUND);
    EXPECT(ask(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (void *)(memory + 8)) == CUDA_SUCCESS && type == CU_MEMORYTYPE_DEVICE);
    EXPECT(ask(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, pinned) == CUDA_SUCCESS && type == CU_MEMORYTYPE_HOST);
    EXPECT(ask(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, &type) == CUDA_ERROR_INVALID_VALUE);
    EXPECT(ask(&is_managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, (void *)managed) == CUDA_SUCCESS && is_managed == 1);
    EXPECT(ask(&is_managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, (void *)memory) == CUDA_SUCCESS && is_managed == 0);
    EXPECT(ask(&base, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, (void *)(memory + 4095)) == CUDA_SUCCESS && base == memory);
    EXPECT(ask(&size, CU_POINTER_ATTRIBUTE_RANGE_SIZE, (void *)memory) == CUDA_SUCCESS && size == 4096);
    EXPECT(ask(&seen, CU_POINTER_ATTRIBUTE_DEVICE_POINTER, pinned) == CUDA_SUCCESS && seen != nullptr);
    EXPECT(ask(&seen, CU_POINTER_ATTRIBUTE_HOST_POINTER, (void *)memory) == CUDA_ERROR_INVALID_VALUE);
    EXPECT(cuPointerGetAttribute(&type, (CUpointer_attribute)99, memory) == CUDA_ERROR_INVALID_VALUE);
    CUcontext context = nullptr, current = nullptr;
    EXPECT(ask(&context, CU_POINTER_ATTRIBUTE_CONTEXT, (void *)memory) == CUDA_SUCCESS);
    EXPECT(cuCtxGetCurrent(&current) == CUDA_SUCCESS && context == current);
    CUpointer_attribute wanted[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, CU_POINTER_ATTRIBUTE_CONTEXT};
    void *places[] = {&type, &ordinal, &context};
    EXPECT(cuPointerGetAttributes(3, wanted, places, memory) == CUDA_SUCCESS && type == CU_MEMORYTYPE_DEVICE && ordinal == 0);
    EXPECT(cuPointerGetAttributes(3, wanted, places, (CUdeviceptr)&type) == CUDA_SUCCESS && type == 0 && ordinal == -2 && !context);
    EXPECT(cuPointerGetAttributes(0, wanted, places, memory) == CUDA_ERROR_INVALID_VALUE);
    EXPECT(cuMemHostGetFlags(&flags, pinned) == CUDA_SUCCESS && (flags & CU_MEMHOSTALLOC_DEVICEMAP));
    CUdeviceptr mapped;
    EXPECT(cuMemHostGetDevicePointer(&mapped, pinned, 0) == CUDA_SUCCESS);
    EXPECT(cuMemsetD8(mapped, 0x5a, 100) == CUDA_SUCCESS && cuCtxSynchronize() == CUDA_SUCCESS);
    EXPECT(((unsigned char *)pinned)[99] == 0x5a);
    ((int *)managed)[3] = 42;
    int value = 0;
    EXPECT(cuMemcpyDtoH(&value, managed + 12, 4) == CUDA_SUCCESS && value == 42);
    EXPECT(cuMemPrefetchAsync(managed, 8192, CUmemLocation{CU_MEM_LOCATION_TYPE_DEVICE, {0}}, 0, 0) == CUDA_SUCCESS);
    EXPECT(cuMemFree(managed) == CUDA_SUCCESS && cuMemFree(memory) == CUDA_SUCCESS && cuMemFreeHost(pinned) == CUDA_SUCCESS);
    void *own = aligned_alloc(4096, 8192);
    EXPECT(cuMemHostRegister(own, 8192, 0) == CUDA_SUCCESS && cuMemHostRegister(own, 8192, 0) == CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
    EXPECT(cuMemHostUnregister(own) == CUDA_SUCCESS && cuMemHostUnregister(own) == CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
    free(own);
    return 0;
}

static int pools(CUdevice device, CUstream stream) {
    CUmemoryPool standard, current, made, owner = nullptr;
    EXPECT(cuDeviceGetDefaultMemPool(&standard, device) == CUDA_SUCCESS && cuDeviceGetMemPool(&current, device) == CUDA_SUCCESS);
    EXPECT(standard == current);
    CUmemPoolProps properties = {};
    properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    EXPECT(cuMemPoolCreate(&made, &properties) == CUDA_SUCCESS && cuMemPoolCreate(nullptr, &properties) == CUDA_ERROR_INVALID_VALUE);
    cuuint64_t threshold = 1 << 20, used = 0;
    EXPECT(cuMemPoolSetAttribute(made, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold) == CUDA_SUCCESS);
    threshold = 0;
    EXPECT(cuMemPoolGetAttribute(made, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold) == CUDA_SUCCESS && threshold == 1 << 20);
    CUdeviceptr one, two;
    EXPECT(cuMemAllocAsync(&one, 1 << 16, stream) == CUDA_SUCCESS);
    EXPECT(cuMemAllocFromPoolAsync(&two, 1 << 16, made, stream) == CUDA_SUCCESS);
    EXPECT(cuMemPoolGetAttribute(made, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used) == CUDA_SUCCESS && used == 1 << 16);
    EXPECT(ask(&owner, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, (void *)two) == CUDA_SUCCESS && owner == made);
    CUmemAccess_flags access;
    EXPECT(cuMemPoolGetAccess(&access, made, &properties.location) == CUDA_SUCCESS && access == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    EXPECT(cuDeviceSetMemPool(device, made) == CUDA_SUCCESS && cuDeviceGetMemPool(&current, device) == CUDA_SUCCESS && current == made);
    EXPECT(cuDeviceSetMemPool(device, standard) == CUDA_SUCCESS);
    EXPECT(cuMemFreeAsync(one, stream) == CUDA_SUCCESS && cuMemFreeAsync(two, stream) == CUDA_SUCCESS);
    EXPECT(cuStreamSynchronize(stream) == CUDA_SUCCESS && cuMemPoolTrimTo(made, 0) == CUDA_SUCCESS);
    EXPECT(cuMemPoolDestroy(made) == CUDA_SUCCESS && cuMemPoolDestroy(made) != CUDA_SUCCESS);
    return 0;
}

int main() {
    CUdevice device;
    CUcontext context;
    CUstream stream;
    EXPECT(cuInit(0) == CUDA_SUCCESS && cuDeviceGet(&device, 0) == CUDA_SUCCESS);
    EXPECT(cuDevicePrimaryCtxRetain(&context, device) == CUDA_SUCCESS && cuCtxSetCurrent(context) == CUDA_SUCCESS);
    EXPECT(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
    if (copies(stream) || sets(stream) || pointers() || pools(device, stream)) return 1;
    EXPECT(cuStreamDestroy(stream) == CUDA_SUCCESS);
    printf("PASS\n");
    return 0;
}
