// Reserve, create, map, copy, compute, unmap: one mapping's life, and what the device says about memory meanwhile.
#include "virtual_memory.cuh"

__global__ void multiply(unsigned* data, unsigned count) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) data[i] = data[i] * 3 + i;
}

int main() {
    OK(start());
    int supported = 0;
    OK(cuDeviceGetAttribute(&supported, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 0));
    EXPECT(supported == 1);
    CUmemAllocationProp prop = on_device();
    size_t granule = 0, recommended = 0;
    OK(cuMemGetAllocationGranularity(&granule, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    OK(cuMemGetAllocationGranularity(&recommended, &prop, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED));
    EXPECT(granule && (granule & (granule - 1)) == 0 && recommended % granule == 0);

    size_t free_before, free_now, total;
    OK(cuMemGetInfo(&free_before, &total));
    // A reservation costs no memory, however large it is: 16 times the device's.
    CUdeviceptr base = 0;
    size_t device_bytes;
    OK(cuDeviceTotalMem(&device_bytes, 0));
    size_t huge = (16 * device_bytes + granule - 1) / granule * granule;
    OK(cuMemAddressReserve(&base, huge, 0, 0, 0));
    EXPECT(base && base % granule == 0);
    OK(cuMemGetInfo(&free_now, &total));
    EXPECT(free_now == free_before);

    const size_t size = 2 * granule;
    CUmemGenericAllocationHandle handle;
    OK(cuMemCreate(&handle, size, &prop, 0));
    OK(cuMemGetInfo(&free_now, &total));
    EXPECT(free_before - free_now == size);
    CUmemAllocationProp told;
    OK(cuMemGetAllocationPropertiesFromHandle(&told, handle));
    EXPECT(told.type == prop.type && told.location.type == prop.location.type && told.location.id == 0);

    // Far apart in the reservation, one after the other.
    unsigned long long checksum = 0;
    for (size_t offset : {size_t(0), huge / granule / 2 * granule, huge - size}) {
        CUdeviceptr at = base + offset;
        OK(cuMemMap(at, size, 0, handle, 0));
        OK(allow(at, size));
        const unsigned count = size / sizeof(unsigned);
        std::vector<unsigned> data(count, 7);
        OK(upload(at, data.data(), size));
        multiply<<<count / 256, 256>>>((unsigned*)at, count);
        EXPECT(cudaGetLastError() == cudaSuccess);
        OK(download(data.data(), at, size));
        for (unsigned i = 0; i < count; ++i) {
            if (data[i] != 21 + i) {
                printf("element %u is %u\n", i, data[i]);
                return 1;
            }
            checksum = checksum * 31 + data[i];
        }
        EXPECT(cudaMemset((void*)at, 0x5a, size) == cudaSuccess);
        cudaPointerAttributes attributes;
        EXPECT(cudaPointerGetAttributes(&attributes, (void*)(at + 100)) == cudaSuccess);
        EXPECT(attributes.type == cudaMemoryTypeDevice);
        OK(cuMemUnmap(at, size));
        EXPECT(cudaPointerGetAttributes(&attributes, (void*)(at + 100)) == cudaSuccess);
        EXPECT(attributes.type == cudaMemoryTypeUnregistered);
    }
    // The memory outlives its mappings, and its content stays.
    OK(cuMemMap(base + 4 * granule, granule, 0, handle, 0));
    OK(allow(base + 4 * granule, granule));
    unsigned last = 0;
    OK(download(&last, base + 5 * granule - 4, 4));
    EXPECT(last == 0x5a5a5a5a);
    OK(cuMemRelease(handle));
    OK(cuMemGetInfo(&free_now, &total));
    EXPECT(free_before - free_now == size);
    OK(cuMemUnmap(base + 4 * granule, granule));
    OK(cuMemGetInfo(&free_now, &total));
    EXPECT(free_now == free_before);
    OK(cuMemAddressFree(base, huge));
    OK(cuCtxSynchronize());
    printf("vmm_basics %016llx\nPASS\n", checksum);
    return 0;
}
