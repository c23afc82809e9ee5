// A segment that grows and shrinks, as allocators of expandable segments have it: a reservation larger than the device, chunks mapped at its end when more is
// needed, unmapped in the middle when memory is short; and a vector that grows at its address, or moves its mappings to a larger reservation.
#include "virtual_memory.cuh"

__global__ void ramp(unsigned* data, size_t count, unsigned factor) {
    for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < count; i += gridDim.x * size_t(blockDim.x))
        data[i] = unsigned(i) * factor;
}

struct Segment {
    CUdeviceptr base = 0;
    size_t chunk, reserved;
    std::vector<CUmemGenericAllocationHandle> handles;  // 0: not mapped

    CUresult map(size_t first, size_t last) {
        if (handles.size() < last) handles.resize(last, 0);
        CUmemAllocationProp prop = on_device();
        prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
        for (size_t i = first; i < last; ++i) {
            CUresult result = cuMemCreate(&handles[i], chunk, &prop, 0);
            if (result == CUDA_SUCCESS) result = cuMemMap(base + i * chunk, chunk, 0, handles[i], 0);
            if (result != CUDA_SUCCESS) return result;
        }
        return allow(base + first * chunk, (last - first) * chunk);
    }

    CUresult unmap(size_t first, size_t last) {
        for (size_t i = first; i < last; ++i) {
            CUresult result = cuMemUnmap(base + i * chunk, chunk);
            if (result == CUDA_SUCCESS) result = cuMemRelease(handles[i]);
            if (result != CUDA_SUCCESS) return result;
            handles[i] = 0;
        }
        return CUDA_SUCCESS;
    }
};

int check(CUdeviceptr at, size_t count, unsigned factor) {
    std::vector<unsigned> data(count);
    OK(download(data.data(), at, count * 4));
    for (size_t i = 0; i < count; ++i) EXPECT(data[i] == unsigned(i) * factor);
    return 0;
}

int grow(size_t granule) {
    Segment segment;
    size_t device_bytes, free_before, free_now, total;
    OK(cuDeviceTotalMem(&device_bytes, 0));
    OK(cuMemGetInfo(&free_before, &total));
    segment.chunk = 2 * granule;
    segment.reserved = (device_bytes + device_bytes / 8) / segment.chunk * segment.chunk;
    OK(cuMemAddressReserve(&segment.base, segment.reserved, 0, 0, 0));
    for (size_t chunks = 0; chunks < 12; chunks += 3) OK(segment.map(chunks, chunks + 3));
    const size_t count = 12 * segment.chunk / 4;
    ramp<<<64, 256>>>((unsigned*)segment.base, count, 3);
    EXPECT(check(segment.base, count, 3) == 0);
    // A copy over all of it, from a place of its own to another, across the borders of the chunks.
    OK(copy(segment.base + 6 * segment.chunk, segment.base, 6 * segment.chunk));
    EXPECT(check(segment.base + 6 * segment.chunk, count / 2, 3) == 0);
    // The middle is given back and had again: what was there is gone, the rest stays.
    OK(segment.unmap(4, 6));
    OK(cuMemGetInfo(&free_now, &total));
    EXPECT(free_before - free_now == 10 * segment.chunk);
    EXPECT(copy(segment.base, segment.base + 6 * segment.chunk, 5 * segment.chunk) == CUDA_ERROR_INVALID_VALUE);
    EXPECT(check(segment.base, 4 * segment.chunk / 4, 3) == 0);
    OK(segment.map(4, 6));
    ramp<<<64, 256>>>((unsigned*)segment.base, count, 5);
    EXPECT(check(segment.base, count, 5) == 0);
    OK(segment.unmap(0, 12));
    OK(cuMemAddressFree(segment.base, segment.reserved));
    OK(cuMemGetInfo(&free_now, &total));
    EXPECT(free_now == free_before);
    return 0;
}

int move(size_t granule) {
    // The addresses behind a reservation are asked for; where they are not free, everything moves to a larger reservation without a copy.
    CUdeviceptr base, more;
    CUmemAllocationProp prop = on_device();
    OK(cuMemAddressReserve(&base, 2 * granule, 0, 0, 0));
    CUmemGenericAllocationHandle handles[2];
    for (int i = 0; i < 2; ++i) {
        OK(cuMemCreate(&handles[i], granule, &prop, 0));
        OK(cuMemMap(base + i * granule, granule, 0, handles[i], 0));
    }
    OK(allow(base, 2 * granule));
    ramp<<<16, 256>>>((unsigned*)base, granule / 2, 7);
    OK(cuMemAddressReserve(&more, 2 * granule, 0, base + 2 * granule, 0));
    if (more != base + 2 * granule) {
        OK(cuMemAddressFree(more, 2 * granule));
        OK(cuMemAddressReserve(&more, 4 * granule, 0, 0, 0));
        OK(cuMemUnmap(base, 2 * granule));  // both mappings at once
        for (int i = 0; i < 2; ++i) OK(cuMemMap(more + i * granule, granule, 0, handles[i], 0));
        OK(allow(more, 2 * granule));
        OK(cuMemAddressFree(base, 2 * granule));
        EXPECT(check(more, granule / 2, 7) == 0);
        OK(cuMemUnmap(more, 2 * granule));
        OK(cuMemAddressFree(more, 4 * granule));
    } else {
        EXPECT(check(base, granule / 2, 7) == 0);
        OK(cuMemUnmap(base, 2 * granule));
        OK(cuMemAddressFree(base, 2 * granule));
        OK(cuMemAddressFree(more, 2 * granule));
    }
    for (CUmemGenericAllocationHandle handle : handles) OK(cuMemRelease(handle));
    // A hint that is free is taken.
    OK(cuMemAddressReserve(&base, 8 * granule, 0, 0, 0));
    OK(cuMemAddressFree(base, 8 * granule));
    OK(cuMemAddressReserve(&more, 2 * granule, 0, base + 4 * granule, 0));
    EXPECT(more == base + 4 * granule);
    OK(cuMemAddressFree(more, 2 * granule));
    return 0;
}

int main() {
    OK(start());
    CUmemAllocationProp prop = on_device();
    size_t granule;
    OK(cuMemGetAllocationGranularity(&granule, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    if (grow(granule) || move(granule)) return 1;
    printf("vmm_segments\nPASS\n");
    return 0;
}
