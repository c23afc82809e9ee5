// Memory pools and memory in the order of streams, made by one API and used by the other.
#include "../driver.h"
#include <cuda_runtime.h>

__global__ void triangle(int* data, int count) {
    for (int i = threadIdx.x; i < count; i += blockDim.x) data[i] = i * (i + 1) / 2;
}

static const int COUNT = 1000;

static void check(CUdeviceptr memory, CUstream stream) {
    int ints[COUNT];
    triangle<<<1, 128, 0, stream>>>((int*)memory, COUNT);
    OK(cuMemcpyDtoHAsync(ints, memory, sizeof ints, stream));
    EXPECT(cudaStreamSynchronize(stream) == cudaSuccess);
    for (int i = 0; i < COUNT; ++i) EXPECT(ints[i] == i * (i + 1) / 2);
}

int main() {
    CUdevice device = begin();
    CUstream ours;
    cudaStream_t theirs;
    OK(cuStreamCreate(&ours, CU_STREAM_NON_BLOCKING));
    EXPECT(cudaStreamCreateWithFlags(&theirs, cudaStreamNonBlocking) == cudaSuccess);
    const size_t bytes = COUNT * sizeof(int);
    // The default pool is one for both.
    CUmemoryPool pool, made;
    cudaMemPool_t of_runtime, runtime_made;
    OK(cuDeviceGetDefaultMemPool(&pool, device));
    EXPECT(cudaDeviceGetDefaultMemPool(&of_runtime, device) == cudaSuccess && of_runtime == pool);

    CUdeviceptr memory;
    void* pointer;
    for (int round = 0; round < 3; ++round) {
        OK(cuMemAllocAsync(&memory, bytes, ours));
        check(memory, ours);
        EXPECT(cudaFreeAsync((void*)memory, ours) == cudaSuccess);
        EXPECT(cudaMallocAsync(&pointer, bytes, theirs) == cudaSuccess);
        check((CUdeviceptr)pointer, theirs);
        OK(cuMemFreeAsync((CUdeviceptr)pointer, theirs));
    }
    FAILS(cuMemFreeAsync(memory, ours), CUDA_ERROR_INVALID_VALUE);
    EXPECT(cudaFreeAsync(pointer, theirs) == cudaErrorInvalidValue && cudaGetLastError() == cudaErrorInvalidValue);

    // A pool of the driver's, with the runtime's allocations; then the other way round.
    CUmemPoolProps properties = {};
    properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, {device}};
    OK(cuMemPoolCreate(&made, &properties));
    EXPECT(cudaMallocFromPoolAsync(&pointer, bytes, made, theirs) == cudaSuccess);
    check((CUdeviceptr)pointer, theirs);
    cuuint64_t used = 0, threshold = 1 << 22;
    OK(cuMemPoolGetAttribute(made, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used));
    EXPECT(used >= bytes);
    EXPECT(cudaMemPoolSetAttribute(made, cudaMemPoolAttrReleaseThreshold, &threshold) == cudaSuccess);
    threshold = 0;
    OK(cuMemPoolGetAttribute(made, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold));
    EXPECT(threshold == 1 << 22);
    CUmemoryPool owner;
    OK(cuPointerGetAttribute(&owner, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, (CUdeviceptr)pointer));
    EXPECT(owner == made);
    OK(cuMemFreeAsync((CUdeviceptr)pointer, theirs));
    OK(cuStreamSynchronize(theirs));
    EXPECT(cudaMemPoolGetAttribute(made, cudaMemPoolAttrUsedMemCurrent, &used) == cudaSuccess && used == 0);
    EXPECT(cudaMemPoolDestroy(made) == cudaSuccess);

    cudaMemPoolProps wanted = {};
    wanted.allocType = cudaMemAllocationTypePinned;
    wanted.location.type = cudaMemLocationTypeDevice;
    EXPECT(cudaMemPoolCreate(&runtime_made, &wanted) == cudaSuccess);
    OK(cuMemAllocFromPoolAsync(&memory, bytes, runtime_made, ours));
    check(memory, ours);
    EXPECT(cudaFree((void*)memory) == cudaSuccess);
    // The device's pool set by one API serves the other's allocations.
    OK(cuDeviceSetMemPool(device, runtime_made));
    EXPECT(cudaDeviceGetMemPool(&of_runtime, device) == cudaSuccess && of_runtime == runtime_made);
    EXPECT(cudaMallocAsync(&pointer, bytes, theirs) == cudaSuccess);
    OK(cuPointerGetAttribute(&owner, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, (CUdeviceptr)pointer));
    EXPECT(owner == runtime_made);
    EXPECT(cudaFreeAsync(pointer, theirs) == cudaSuccess && cudaStreamSynchronize(theirs) == cudaSuccess);
    EXPECT(cudaDeviceSetMemPool(device, pool) == cudaSuccess);
    OK(cuMemPoolTrimTo(runtime_made, 0));
    OK(cuMemPoolDestroy(runtime_made));
    OK(cuStreamDestroy(theirs));
    EXPECT(cudaStreamDestroy(ours) == cudaSuccess && cudaPeekAtLastError() == cudaSuccess);
    printf("PASS\n");
    return 0;
}
