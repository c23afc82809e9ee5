// Questions about the device, memory and kernels: properties, attributes, occupancy, limits, pointer attributes. What the
// answers are differs between devices; that they are consistent does not.
#include <cstring>

#include "../support.cuh"

__global__ void kernel(float *data, int n) {
    __shared__ float shared[1024];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    shared[threadIdx.x] = i < n ? data[i] : 0.0f;
    __syncthreads();
    if (i < n) {
        data[i] = shared[threadIdx.x] * 2.0f;
    }
}

__global__ void __launch_bounds__(128) bounded(int *data) { data[threadIdx.x] = threadIdx.x; }

extern __shared__ unsigned char dynamic_bytes[];
__global__ void dynamic(unsigned char *out) {
    dynamic_bytes[threadIdx.x] = static_cast<unsigned char>(threadIdx.x);
    __syncthreads();
    out[threadIdx.x] = dynamic_bytes[blockDim.x - 1 - threadIdx.x];
}

static int attribute(cudaDeviceAttr which) {
    int value = -1;
    CHECK(cudaDeviceGetAttribute(&value, which, 0));
    return value;
}

int main() {
    Verdict verdict;
    int count = 0, device = -1;
    CHECK(cudaGetDeviceCount(&count));
    CHECK(cudaSetDevice(0));
    CHECK(cudaGetDevice(&device));
    verdict.expect(count >= 1 && device == 0, "device count and current device");

    cudaDeviceProp properties;
    CHECK(cudaGetDeviceProperties(&properties, 0));
    verdict.expect(std::strlen(properties.name) > 0 && std::strlen(properties.name) < sizeof properties.name, "name");
    verdict.expect(properties.warpSize == 32 && attribute(cudaDevAttrWarpSize) == 32, "warp size");
    verdict.expect(properties.maxThreadsPerBlock == attribute(cudaDevAttrMaxThreadsPerBlock) &&
                       properties.maxThreadsPerBlock >= 1024,
                   "threads of a block");
    verdict.expect(properties.multiProcessorCount == attribute(cudaDevAttrMultiProcessorCount) &&
                       properties.multiProcessorCount > 0,
                   "multiprocessors");
    verdict.expect(properties.major == attribute(cudaDevAttrComputeCapabilityMajor) &&
                       properties.minor == attribute(cudaDevAttrComputeCapabilityMinor) && properties.major >= 7,
                   "compute capability");
    verdict.expect(static_cast<int>(properties.sharedMemPerBlock) == attribute(cudaDevAttrMaxSharedMemoryPerBlock) &&
                       properties.sharedMemPerBlock >= 48 * 1024,
                   "shared memory of a block");
    verdict.expect(properties.maxGridSize[0] == 2147483647 && properties.maxGridSize[1] == 65535 &&
                       properties.maxThreadsDim[0] == 1024 && properties.maxThreadsDim[2] == 64,
                   "grid and block limits");
    verdict.expect(properties.totalGlobalMem >= (64u << 20) && properties.totalConstMem == 65536, "memory sizes");
    verdict.expect(properties.regsPerBlock == attribute(cudaDevAttrMaxRegistersPerBlock), "registers");
    verdict.expect(attribute(cudaDevAttrUnifiedAddressing) == 1, "unified addressing");

    int driver = 0, runtime = 0;
    CHECK(cudaDriverGetVersion(&driver));
    CHECK(cudaRuntimeGetVersion(&runtime));
    verdict.expect(runtime / 1000 == CUDART_VERSION / 1000 && driver / 1000 >= runtime / 1000, "versions");

    size_t free_before = 0, total = 0, free_during = 0, free_after = 0;
    CHECK(cudaMemGetInfo(&free_before, &total));
    void *block = nullptr;
    CHECK(cudaMalloc(&block, 32 << 20));
    CHECK(cudaMemGetInfo(&free_during, &total));
    CHECK(cudaFree(block));
    CHECK(cudaMemGetInfo(&free_after, &total));
    verdict.expect(total >= free_before && free_during + (32u << 20) <= free_before && free_after == free_before,
                   "memory info");

    cudaFuncAttributes attributes;
    CHECK(cudaFuncGetAttributes(&attributes, kernel));
    verdict.expect(attributes.sharedSizeBytes == 1024 * sizeof(float), "static shared memory");
    verdict.expect(attributes.maxThreadsPerBlock >= 1024 && attributes.numRegs > 0 && attributes.constSizeBytes < 65536,
                   "function attributes");
    CHECK(cudaFuncGetAttributes(&attributes, bounded));
    verdict.expect(attributes.maxThreadsPerBlock == 128, "launch bounds");

    int blocks = 0;
    CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, 256, 0));
    verdict.expect(blocks >= 1 && blocks * 256 <= properties.maxThreadsPerMultiProcessor, "occupancy");
    int fewer = 0;
    CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&fewer, kernel, 256, 40 * 1024));
    verdict.expect(fewer >= 1 && fewer <= blocks, "occupancy with more shared memory");
    CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(&blocks, kernel, 1024, 0, cudaOccupancyDefault));
    verdict.expect(blocks >= 1, "occupancy of the largest block");
    int minimum_grid = 0, block_size = 0;
    CHECK(cudaOccupancyMaxPotentialBlockSize(&minimum_grid, &block_size, kernel, 0, 0));
    verdict.expect(minimum_grid >= properties.multiProcessorCount && block_size >= 32 && block_size % 32 == 0,
                   "a block size of highest occupancy");
    const int n = 10000;
    DeviceArray<float> data(std::vector<float>(n, 1.5f));
    kernel<<<(n + block_size - 1) / block_size, block_size>>>(data.get(), n);
    CHECK_LAUNCH();
    verdict.expect(data.download() == std::vector<float>(n, 3.0f), "launched with the suggested block size");

    size_t limit = 0;
    CHECK(cudaDeviceSetLimit(cudaLimitMallocHeapSize, 16 << 20));
    CHECK(cudaDeviceGetLimit(&limit, cudaLimitMallocHeapSize));
    verdict.expect(limit >= (16 << 20), "heap limit");
    CHECK(cudaDeviceGetLimit(&limit, cudaLimitStackSize));
    verdict.expect(limit >= 1024, "stack limit");

    cudaPointerAttributes pointer;
    CHECK(cudaPointerGetAttributes(&pointer, data.get() + 10));
    verdict.expect(pointer.type == cudaMemoryTypeDevice && pointer.device == 0 && pointer.devicePointer == data.get() + 10,
                   "attributes of a device pointer");
    void *pinned = nullptr;
    CHECK(cudaMallocHost(&pinned, 1000));
    CHECK(cudaPointerGetAttributes(&pointer, pinned));
    verdict.expect(pointer.type == cudaMemoryTypeHost && pointer.hostPointer == pinned, "attributes of pinned memory");
    CHECK(cudaFreeHost(pinned));
    int ordinary = 0;
    CHECK(cudaPointerGetAttributes(&pointer, &ordinary));
    verdict.expect(pointer.type == cudaMemoryTypeUnregistered, "attributes of ordinary memory");

    // More dynamic shared memory than the default, once it is asked for.
    int largest = attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin);
    if (largest >= 64 * 1024) {
        CHECK(cudaFuncSetAttribute(dynamic, cudaFuncAttributeMaxDynamicSharedMemorySize, 64 * 1024));
        DeviceArray<unsigned char> out(256);
        dynamic<<<1, 256, 64 * 1024>>>(out.get());
        CHECK_LAUNCH();
        verdict.expect(out.download()[0] == 255, "a kernel with 64 KiB of dynamic shared memory");
    }
    CHECK(cudaFuncSetCacheConfig(kernel, cudaFuncCachePreferL1));
    std::printf("occupancy_query\n");
    return verdict.finish();
}
