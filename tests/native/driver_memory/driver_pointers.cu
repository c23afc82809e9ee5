// What is known of a pointer: every attribute, for memory of every kind, one by one and in lists, while it is there and afterwards.
#include "../driver.h"

#include <stdint.h>

static CUcontext context;
static CUdevice device;

template <typename T> static CUresult ask(T* value, CUpointer_attribute which, CUdeviceptr pointer) {
    return cuPointerGetAttribute(value, which, pointer);
}

struct Expected {
    const char* name;
    CUmemorytype type;
    bool managed, mapped_host, ranged;
};

// Checks what the attributes say of `size` bytes at `start`, at its first byte, in the middle and at its last.
static void check(const Expected& kind, CUdeviceptr start, size_t size, void* host) {
    unsigned long long number = 0;
    for (size_t offset : {size_t(0), size / 2, size - 1}) {
        const CUdeviceptr pointer = start + offset;
        unsigned type = 99;
        int ordinal = 99;
        // Booleans are as wide as the driver's documentation says: a char would be overrun by an int.
        unsigned char managed[4] = {9, 9, 9, 9}, mapped[4] = {9, 9, 9, 9};
        CUcontext owner = nullptr;
        CUdeviceptr base = 0, seen = 0;
        size_t length = 0;
        unsigned long long buffer = 0;
        OK(ask(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, pointer));
        if (type != kind.type) printf("%s: type %u\n", kind.name, type);
        EXPECT(type == kind.type);
        OK(ask(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, pointer));
        EXPECT(ordinal == device);
        OK(ask(managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, pointer));
        EXPECT(managed[0] == kind.managed);
        OK(ask(mapped, CU_POINTER_ATTRIBUTE_MAPPED, pointer));
        EXPECT(mapped[0] == 1);
        OK(ask(&seen, CU_POINTER_ATTRIBUTE_DEVICE_POINTER, pointer));
        EXPECT(seen);
        OK(ask(&buffer, CU_POINTER_ATTRIBUTE_BUFFER_ID, pointer));
        EXPECT(buffer && (!number || number == buffer));
        number = buffer;
        OK(ask(&base, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, pointer));
        OK(ask(&length, CU_POINTER_ATTRIBUTE_RANGE_SIZE, pointer));
        if (base != start || length != size) printf("%s: range %lld %zu\n", kind.name, (long long)(base - start), length);
        EXPECT(base == start && length == size);
        CUresult context_result = ask(&owner, CU_POINTER_ATTRIBUTE_CONTEXT, pointer);
        if (context_result == CUDA_SUCCESS) EXPECT(owner == context || !owner);
        void* here = nullptr;
        CUresult result = ask(&here, CU_POINTER_ATTRIBUTE_HOST_POINTER, pointer);
        EXPECT(result == (kind.mapped_host || kind.managed ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE));
        if (kind.mapped_host) EXPECT(here == (char*)host + offset);
        if (kind.ranged) {
            OK(cuMemGetAddressRange(&base, &length, pointer));
            EXPECT(base == start && length == size);
        }
        // The same as a list.
        CUpointer_attribute which[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_RANGE_SIZE, CU_POINTER_ATTRIBUTE_HOST_POINTER,
                                       CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
        void* places[] = {&type, &length, &here, &ordinal};
        type = 99, length = 0, ordinal = 99, here = &here;
        OK(cuPointerGetAttributes(4, which, places, pointer));
        EXPECT(type == kind.type && length == size && ordinal == device);
        EXPECT(kind.mapped_host ? here == (char*)host + offset : kind.managed || !here);
    }
}

// No memory of CUDA's: one attribute is an error, a list has its defaults.
static void unknown(CUdeviceptr pointer) {
    unsigned type = 99;
    CUdeviceptr seen = 99;
    CUcontext owner = context;
    int ordinal = 99;
    FAILS(ask(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, pointer), CUDA_ERROR_INVALID_VALUE);
    EXPECT(type == 99);
    CUpointer_attribute which[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_DEVICE_POINTER, CU_POINTER_ATTRIBUTE_CONTEXT,
                                   CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
    void* places[] = {&type, &seen, &owner, &ordinal};
    OK(cuPointerGetAttributes(4, which, places, pointer));
    EXPECT(type == 0 && seen == 0 && !owner && ordinal == -2);
}

int main() {
    device = begin();
    OK(cuCtxGetCurrent(&context));
    CUstream stream;
    OK(cuStreamCreate(&stream, 0));
    CUdeviceptr plain, managed, pooled, seen;
    OK(cuMemAlloc(&plain, 5000));
    OK(cuMemsetD8Async(plain, 1, 5000, stream));
    check({"device", CU_MEMORYTYPE_DEVICE, false, false, true}, plain, 5000, nullptr);
    OK(cuMemAllocManaged(&managed, 3000, CU_MEM_ATTACH_GLOBAL));
    unsigned type = 0;
    OK(ask(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, managed));
    check({"managed", (CUmemorytype)type, true, false, true}, managed, 3000, (void*)managed);
    OK(cuMemAllocAsync(&pooled, 2048, stream));
    check({"pool", CU_MEMORYTYPE_DEVICE, false, false, true}, pooled, 2048, nullptr);
    CUmemoryPool pool, standard;
    OK(ask(&pool, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, pooled));
    OK(cuDeviceGetDefaultMemPool(&standard, device));
    EXPECT(pool == standard);
    void* pinned;
    OK(cuMemHostAlloc(&pinned, 1000, CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_PORTABLE));
    OK(cuMemHostGetDevicePointer(&seen, pinned, 0));
    EXPECT(seen == (CUdeviceptr)pinned);
    check({"pinned", CU_MEMORYTYPE_HOST, false, true, false}, seen, 1000, pinned);
    void* own = aligned_alloc(4096, 8192);
    OK(cuMemHostRegister(own, 8192, CU_MEMHOSTREGISTER_DEVICEMAP));
    OK(cuMemHostGetDevicePointer(&seen, own, 0));
    OK(ask(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (CUdeviceptr)own));
    EXPECT(type == CU_MEMORYTYPE_HOST);
    unsigned flags = 0;
    OK(cuMemHostGetFlags(&flags, pinned));
    EXPECT((flags & (CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_WRITECOMBINED)) == CU_MEMHOSTALLOC_PORTABLE);

    // Two blocks that are there at once have two numbers.
    unsigned long long first = 0, second = 0;
    CUdeviceptr again;
    OK(cuMemAlloc(&again, 5000));
    OK(ask(&first, CU_POINTER_ATTRIBUTE_BUFFER_ID, plain));
    OK(ask(&second, CU_POINTER_ATTRIBUTE_BUFFER_ID, again));
    EXPECT(second != first);
    // And one that lies where another has ended has its own, and no attribute of it.
    int on = 1, off = 0;
    unsigned char set = 9;
    OK(cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, plain + 100));
    OK(ask(&set, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, plain));
    EXPECT(set == 1);
    OK(ask(&set, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, again));
    EXPECT(set == 0);
    CUdeviceptr third;
    const CUdeviceptr place = plain;
    OK(cuMemFree(plain));
    OK(cuMemAlloc(&third, 5000));
    EXPECT(third == place);
    unsigned long long number = 0;
    OK(ask(&number, CU_POINTER_ATTRIBUTE_BUFFER_ID, third));
    EXPECT(number && number != first && number != second);
    OK(ask(&set, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, third));
    EXPECT(set == 0);
    OK(cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, third));
    OK(cuPointerSetAttribute(&off, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, third));
    OK(ask(&set, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, third));
    EXPECT(set == 0);
    OK(cuMemFree(third));
    unsigned long long registered = 0;
    OK(ask(&number, CU_POINTER_ATTRIBUTE_BUFFER_ID, (CUdeviceptr)own));
    OK(cuMemHostUnregister(own));
    OK(cuMemHostRegister(own, 8192, CU_MEMHOSTREGISTER_DEVICEMAP));
    OK(ask(&registered, CU_POINTER_ATTRIBUTE_BUFFER_ID, (CUdeviceptr)own));
    EXPECT(registered && registered != number);
    OK(cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, again));
    FAILS(cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, again), CUDA_ERROR_INVALID_VALUE);

    OK(cuMemFree(again));
    OK(cuMemFree(managed));
    OK(cuMemFreeAsync(pooled, stream));
    OK(cuStreamSynchronize(stream));
    OK(cuMemFreeHost(pinned));
    OK(cuMemHostUnregister(own));
    unknown(again);
    unknown((CUdeviceptr)&on);
    unknown((CUdeviceptr)own);
    FAILS(cuMemGetAddressRange(&seen, nullptr, again), CUDA_ERROR_NOT_FOUND);
    FAILS(cuMemHostGetFlags(&flags, own), CUDA_ERROR_INVALID_VALUE);
    FAILS(cuMemHostGetDevicePointer(&seen, own, 0), CUDA_ERROR_INVALID_VALUE);
    FAILS(cuPointerGetAttributes(1, nullptr, nullptr, again), CUDA_ERROR_INVALID_VALUE);
    free(own);
    OK(cuStreamDestroy(stream));
    printf("PASS\n");
    return 0;
}
