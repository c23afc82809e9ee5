// Pinned, registered and managed memory: allocated by one API, used and freed by the other.
#include "../driver.h"
#include <cuda_runtime.h>

__global__ void square(int* data, int count) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) data[i] = data[i] * data[i];
}

static const int COUNT = 2000;

static void number(int* data, int first) {
    for (int i = 0; i < COUNT; ++i) data[i] = first + i;
}

static void squares(const int* data, int first) {
    for (int i = 0; i < COUNT; ++i) EXPECT(data[i] == (first + i) * (first + i));
}

int main() {
    begin();
    CUstream stream;
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    const size_t bytes = COUNT * sizeof(int);
    CUdeviceptr device, seen;
    void *pointer, *pinned;
    unsigned flags;
    OK(cuMemAlloc(&device, bytes));
    // Pinned by the runtime: copied by the driver, seen by a kernel, freed by the driver.
    EXPECT(cudaHostAlloc(&pinned, bytes, cudaHostAllocMapped) == cudaSuccess);
    number((int*)pinned, 5);
    OK(cuMemcpyHtoDAsync(device, pinned, bytes, stream));
    square<<<8, 256, 0, stream>>>((int*)device, COUNT);
    OK(cuMemcpyDtoHAsync(pinned, device, bytes, stream));
    EXPECT(cudaStreamSynchronize(stream) == cudaSuccess);
    squares((int*)pinned, 5);
    OK(cuMemHostGetDevicePointer(&seen, pinned, 0));
    EXPECT(cudaHostGetDevicePointer(&pointer, pinned, 0) == cudaSuccess && seen == (CUdeviceptr)pointer);
    number((int*)pinned, -300);
    square<<<8, 256, 0, stream>>>((int*)seen, COUNT);
    OK(cuStreamSynchronize(stream));
    squares((int*)pinned, -300);
    OK(cuMemHostGetFlags(&flags, pinned));
    EXPECT(flags & CU_MEMHOSTALLOC_DEVICEMAP);
    OK(cuMemFreeHost(pinned));
    EXPECT(cudaFreeHost(pinned) == cudaErrorInvalidValue && cudaGetLastError() == cudaErrorInvalidValue);
    // And the other way round.
    OK(cuMemHostAlloc(&pinned, bytes, CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_PORTABLE));
    EXPECT(cudaHostGetFlags(&flags, pinned) == cudaSuccess && (flags & cudaHostAllocPortable));
    cudaPointerAttributes attributes;
    EXPECT(cudaPointerGetAttributes(&attributes, pinned) == cudaSuccess && attributes.type == cudaMemoryTypeHost);
    number((int*)pinned, 40);
    EXPECT(cudaMemcpyAsync((void*)device, pinned, bytes, cudaMemcpyDefault, stream) == cudaSuccess);
    square<<<8, 256, 0, stream>>>((int*)device, COUNT);
    EXPECT(cudaMemcpyAsync(pinned, (void*)device, bytes, cudaMemcpyDefault, stream) == cudaSuccess);
    OK(cuStreamSynchronize(stream));
    squares((int*)pinned, 40);
    EXPECT(cudaFreeHost(pinned) == cudaSuccess);

    // Registered by one, known to and unregistered by the other.
    void* own = aligned_alloc(4096, 8192);
    EXPECT(cudaHostRegister(own, 8192, cudaHostRegisterMapped) == cudaSuccess);
    FAILS(cuMemHostRegister(own, 8192, 0), CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
    number((int*)own, 9);
    OK(cuMemHostGetDevicePointer(&seen, own, 0));
    square<<<8, 256, 0, stream>>>((int*)seen, COUNT);
    OK(cuStreamSynchronize(stream));
    squares((int*)own, 9);
    OK(cuMemHostUnregister(own));
    EXPECT(cudaHostUnregister(own) == cudaErrorHostMemoryNotRegistered);
    EXPECT(cudaGetLastError() == cudaErrorHostMemoryNotRegistered);
    free(own);

    // Managed memory is the program's, the kernel's and both APIs'.
    CUdeviceptr managed;
    OK(cuMemAllocManaged(&managed, bytes, CU_MEM_ATTACH_GLOBAL));
    number((int*)managed, 77);
    square<<<8, 256>>>((int*)managed, COUNT);
    OK(cuCtxSynchronize());
    squares((int*)managed, 77);
    EXPECT(cudaPointerGetAttributes(&attributes, (void*)managed) == cudaSuccess && attributes.type == cudaMemoryTypeManaged);
    EXPECT(cudaFree((void*)managed) == cudaSuccess);
    EXPECT(cudaMallocManaged(&pointer, bytes) == cudaSuccess);
    OK(cuMemsetD32((CUdeviceptr)pointer, 3, COUNT));
    OK(cuCtxSynchronize());
    EXPECT(((int*)pointer)[COUNT - 1] == 3);
    OK(cuMemFree((CUdeviceptr)pointer));
    EXPECT(cudaFree((void*)device) == cudaSuccess);
    OK(cuStreamDestroy(stream));
    EXPECT(cudaPeekAtLastError() == cudaSuccess);
    printf("PASS\n");
    return 0;
}
