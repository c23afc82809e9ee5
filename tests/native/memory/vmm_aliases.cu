// One allocation at several addresses: kernels and copies see the same bytes. Handles that are retained, released, and mapped again.
#include "virtual_memory.cuh"

__global__ void fill(int* data, int count, int first) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) data[i] = first + i;
}

// Reads through one address and writes through the other.
__global__ void add_through(const int* source, int* target, int count) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) target[i] = source[i] + 1000;
}

__global__ void count_up(int* counter) { atomicAdd(counter, 1); }

int main() {
    OK(start());
    CUmemAllocationProp prop = on_device();
    size_t granule;
    OK(cuMemGetAllocationGranularity(&granule, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    const size_t size = 2 * granule;
    CUdeviceptr base;
    OK(cuMemAddressReserve(&base, 16 * granule, 4 * granule, 0, 0));
    EXPECT(base % (4 * granule) == 0);
    CUmemGenericAllocationHandle handle;
    OK(cuMemCreate(&handle, size, &prop, 0));
    CUdeviceptr first = base, second = base + 4 * granule, half = base + 8 * granule;
    OK(cuMemMap(first, size, 0, handle, 0));
    OK(cuMemMap(second, size, 0, handle, 0));
    OK(cuMemMap(half, granule, 0, handle, 0));
    OK(allow(first, size));
    OK(allow(second, size));
    OK(allow(half, granule, CU_MEM_ACCESS_FLAGS_PROT_READ));

    const int count = size / sizeof(int);
    fill<<<count / 256, 256>>>((int*)first, count, 5);
    add_through<<<count / 256, 256>>>((const int*)second, (int*)first, count);
    std::vector<int> data(count);
    OK(download(data.data(), second, size));
    for (int i = 0; i < count; ++i) EXPECT(data[i] == 1005 + i);
    int one = 0;
    OK(download(&one, half + granule - 4, 4));
    EXPECT(one == 1005 + int(granule / 4) - 1);

    // Launches in turn through either address count in one place.
    OK(set(first, 0, 4));
    for (int i = 0; i < 50; ++i) count_up<<<2, 32>>>((int*)(i % 2 ? first : second));
    OK(download(&one, half, 4));
    EXPECT(one == 50 * 64);
    // A copy from one address to the other, and one that is the same place twice.
    OK(copy(first + 4096, second, 64));
    OK(download(&one, second + 4096, 4));
    EXPECT(one == 50 * 64);

    // A mapping that may only be read.
    unsigned long long flags = 9;
    OK(cuMemGetAccess(&flags, &prop.location, half));
    EXPECT(flags == CU_MEM_ACCESS_FLAGS_PROT_READ);
    EXPECT(upload(half, &one, 4) == CUDA_ERROR_INVALID_VALUE);
    OK(cuMemGetAccess(&flags, &prop.location, first + 5));
    EXPECT(flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);

    // The handle can be had back from any address, and is the same one.
    CUmemGenericAllocationHandle again = 0;
    OK(cuMemRelease(handle));
    EXPECT(cuMemRelease(handle) == CUDA_ERROR_INVALID_VALUE);
    OK(cuMemRetainAllocationHandle(&again, (void*)(second + 77)));
    EXPECT(again == handle);
    OK(cuMemUnmap(first, size));
    OK(cuMemUnmap(second, size));
    OK(cuMemUnmap(half, granule));
    EXPECT(cuMemRetainAllocationHandle(&again, (void*)second) == CUDA_ERROR_INVALID_VALUE);
    OK(cuMemMap(second, size, 0, again, 0));
    OK(allow(second, size));
    OK(cuMemRelease(again));
    OK(download(data.data(), second, size));
    EXPECT(data[0] == 50 * 64 && data[count - 1] == 1005 + count - 1);
    OK(cuMemUnmap(second, size));
    OK(cuMemAddressFree(base, 16 * granule));
    printf("vmm_aliases %d\nPASS\n", data[count - 1]);
    return 0;
}
