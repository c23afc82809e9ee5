// The error codes of virtual memory management.
#include "virtual_memory.cuh"

#define BAD(call) EXPECT((call) == CUDA_ERROR_INVALID_VALUE)

int reservations(size_t granule) {
    CUdeviceptr base, other;
    BAD(cuMemAddressReserve(nullptr, granule, 0, 0, 0));
    BAD(cuMemAddressReserve(&base, 0, 0, 0, 0));
    BAD(cuMemAddressReserve(&base, 100, 0, 0, 0));
    BAD(cuMemAddressReserve(&base, granule, 3 * granule, 0, 0));
    BAD(cuMemAddressReserve(&base, granule, 0, 5, 0));
    BAD(cuMemAddressReserve(&base, granule, 0, 0, 1));
    EXPECT(cuMemAddressReserve(&base, size_t(1) << 62, 0, 0, 0) == CUDA_ERROR_OUT_OF_MEMORY);
    OK(cuMemAddressReserve(&base, 4 * granule, 0, 0, 0));
    OK(cuMemAddressReserve(&other, granule, 64 * granule, base, 0));
    EXPECT(other % (64 * granule) == 0 && (other >= base + 4 * granule || other + granule <= base));
    OK(cuMemAddressFree(other, granule));
    BAD(cuMemAddressFree(other, granule));
    BAD(cuMemAddressFree(base, granule));
    BAD(cuMemAddressFree(base + granule, 3 * granule));
    int one = 1;
    BAD(upload(base, &one, 4));
    BAD(download(&one, base, 4));
    BAD(set(base, 0, 4));
    BAD(cuMemFree(base));
    OK(cuMemAddressFree(base, 4 * granule));
    return 0;
}

int handles(size_t granule) {
    CUmemAllocationProp good = on_device(), prop = good;
    CUmemGenericAllocationHandle handle;
    size_t size, free_bytes, total;
    BAD(cuMemCreate(nullptr, granule, &good, 0));
    BAD(cuMemCreate(&handle, granule, nullptr, 0));
    BAD(cuMemCreate(&handle, 0, &good, 0));
    BAD(cuMemCreate(&handle, granule + 4096, &good, 0));
    BAD(cuMemCreate(&handle, granule, &good, 1));
    prop.type = CU_MEM_ALLOCATION_TYPE_INVALID;
    BAD(cuMemCreate(&handle, granule, &prop, 0));
    prop = good;
    prop.location.type = CU_MEM_LOCATION_TYPE_INVALID;
    BAD(cuMemCreate(&handle, granule, &prop, 0));
    prop = good;
    prop.location.id = 77;
    EXPECT(cuMemCreate(&handle, granule, &prop, 0) == CUDA_ERROR_INVALID_DEVICE);
    EXPECT(cuMemGetAllocationGranularity(&size, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM) == CUDA_ERROR_INVALID_DEVICE);
    prop = good;
    prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_WIN32;
    EXPECT(cuMemCreate(&handle, granule, &prop, 0) == CUDA_ERROR_NOT_SUPPORTED);
    BAD(cuMemGetAllocationGranularity(nullptr, &good, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    BAD(cuMemGetAllocationGranularity(&size, nullptr, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    BAD(cuMemGetAllocationGranularity(&size, &good, CUmemAllocationGranularity_flags(2)));
    OK(cuMemGetInfo(&free_bytes, &total));
    EXPECT(cuMemCreate(&handle, (free_bytes / granule + 1) * granule, &good, 0) == CUDA_ERROR_OUT_OF_MEMORY);
    BAD(cuMemRelease(12345));
    BAD(cuMemGetAllocationPropertiesFromHandle(&prop, 12345));
    OK(cuMemCreate(&handle, granule, &good, 0));
    BAD(cuMemGetAllocationPropertiesFromHandle(nullptr, handle));
    OK(cuMemRelease(handle));
    BAD(cuMemRelease(handle));
    BAD(cuMemGetAllocationPropertiesFromHandle(&prop, handle));
    return 0;
}

int mappings(size_t granule) {
    CUmemAllocationProp prop = on_device();
    CUdeviceptr base, plain;
    CUmemGenericAllocationHandle handle;
    OK(cuMemAddressReserve(&base, 8 * granule, 0, 0, 0));
    OK(cuMemCreate(&handle, 2 * granule, &prop, 0));
    OK(cuMemAlloc(&plain, granule));
    BAD(cuMemMap(base, 2 * granule, 0, handle, 1));
    BAD(cuMemMap(base, granule, granule, handle, 0));
    BAD(cuMemMap(base, 0, 0, handle, 0));
    BAD(cuMemMap(base, granule / 2, 0, handle, 0));
    BAD(cuMemMap(base + 4096, granule, 0, handle, 0));
    BAD(cuMemMap(base, 3 * granule, 0, handle, 0));
    BAD(cuMemMap(base + 7 * granule, 2 * granule, 0, handle, 0));
    BAD(cuMemMap(plain, granule, 0, handle, 0));
    BAD(cuMemMap(base, granule, 0, handle + 1, 0));
    OK(cuMemMap(base, 2 * granule, 0, handle, 0));
    BAD(cuMemMap(base + granule, granule, 0, handle, 0));
    BAD(cuMemAddressFree(base, 8 * granule));
    // Mapped, and not accessible yet.
    int one = 1;
    unsigned long long flags = 9;
    BAD(upload(base, &one, 4));
    OK(cuMemGetAccess(&flags, &prop.location, base));
    EXPECT(flags == CU_MEM_ACCESS_FLAGS_PROT_NONE);
    BAD(cuMemGetAccess(&flags, &prop.location, base + 2 * granule));
    BAD(cuMemGetAccess(nullptr, &prop.location, base));
    BAD(cuMemGetAccess(&flags, nullptr, base));
    CUmemAccessDesc desc = {prop.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    BAD(cuMemSetAccess(base, 2 * granule, nullptr, 1));
    BAD(cuMemSetAccess(base, 2 * granule, &desc, 0));
    BAD(cuMemSetAccess(base, 3 * granule, &desc, 1));
    BAD(cuMemSetAccess(base + 2 * granule, granule, &desc, 1));
    desc.flags = CUmemAccess_flags(2);
    BAD(cuMemSetAccess(base, 2 * granule, &desc, 1));
    desc.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    desc.location.id = 5;
    EXPECT(cuMemSetAccess(base, 2 * granule, &desc, 1) == CUDA_ERROR_INVALID_DEVICE);
    OK(allow(base, 2 * granule));
    OK(upload(base + granule - 2, &one, 4));
    BAD(upload(base + 2 * granule - 2, &one, 4));
    BAD(cuMemUnmap(base, granule));
    BAD(cuMemUnmap(base + granule, granule));
    BAD(cuMemUnmap(base, 3 * granule));
    BAD(cuMemFree(base));
    BAD(cuMemRetainAllocationHandle(nullptr, (void*)base));
    OK(cuMemUnmap(base, 2 * granule));
    BAD(cuMemUnmap(base, 2 * granule));
    OK(cuMemRelease(handle));
    OK(cuMemAddressFree(base, 8 * granule));
    OK(cuMemFree(plain));
    return 0;
}

int main() {
    EXPECT(cuMemRelease(16) == CUDA_ERROR_NOT_INITIALIZED);
    OK(start());
    CUmemAllocationProp prop = on_device();
    size_t granule;
    OK(cuMemGetAllocationGranularity(&granule, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    if (reservations(granule) || handles(granule) || mappings(granule)) return 1;
    OK(cuCtxSynchronize());
    printf("vmm_errors\nPASS\n");
    return 0;
}
