// Functions of one API started by the other: symbols of the program by cuLaunchKernel and cuLaunchKernelEx, functions of PTX text by the runtime.
#include "../driver.h"
#include <cuda_runtime.h>

struct Pair {
    float scale;
    int shift;
};

__global__ void mix(float* data, Pair pair, int count) {
    extern __shared__ float held[];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    held[threadIdx.x] = i < count ? data[i] : 0;
    __syncthreads();
    if (i < count) data[i] = held[(threadIdx.x + pair.shift) % blockDim.x] * pair.scale;
}

__global__ void __launch_bounds__(192) bounded(int* data) { atomicAdd(data, 1); }

static const int COUNT = 512;

static void expect(const float* actual, const float* before, Pair pair) {
    for (int i = 0; i < COUNT; ++i) EXPECT(actual[i] == before[i / 64 * 64 + (i % 64 + pair.shift) % 64] * pair.scale);
}

int main() {
    float *data, before[COUNT], after[COUNT];
    EXPECT(cudaMalloc(&data, sizeof before) == cudaSuccess);
    for (int i = 0; i < COUNT; ++i) before[i] = i;
    EXPECT(cudaMemcpy(data, before, sizeof before, cudaMemcpyHostToDevice) == cudaSuccess);
    cudaFunction_t symbol, again;
    EXPECT(cudaGetFuncBySymbol(&symbol, (const void*)mix) == cudaSuccess);
    EXPECT(cudaGetFuncBySymbol(&again, (const void*)mix) == cudaSuccess && symbol == again);
    EXPECT(cudaGetFuncBySymbol(&again, (const void*)before) == cudaErrorInvalidDeviceFunction);
    EXPECT(cudaGetLastError() == cudaErrorInvalidDeviceFunction);

    // The symbol by the driver API: pointers, a buffer, and a configuration.
    int count = COUNT;
    Pair pair = {2, 3};
    void* parameters[] = {&data, &pair, &count};
    OK(cuLaunchKernel(symbol, 8, 1, 1, 64, 1, 1, 64 * sizeof(float), nullptr, parameters, nullptr));
    EXPECT(cudaMemcpy(after, data, sizeof after, cudaMemcpyDeviceToHost) == cudaSuccess);
    expect(after, before, pair);
    struct {
        float* data;
        Pair pair;
        int count;
    } packed = {data, {0.5f, 61}, COUNT};
    size_t size = sizeof packed - 4;  // the structure is padded at its end, the parameters are not
    void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &packed, CU_LAUNCH_PARAM_BUFFER_SIZE, &size, CU_LAUNCH_PARAM_END};
    OK(cuLaunchKernel(symbol, 8, 1, 1, 64, 1, 1, 64 * sizeof(float), nullptr, nullptr, extra));
    EXPECT(cudaMemcpy(after, data, sizeof after, cudaMemcpyDeviceToHost) == cudaSuccess);
    for (int i = 0; i < COUNT; ++i) EXPECT(after[i] == before[i]);
    CUlaunchConfig config = {};
    config.gridDimX = 8, config.gridDimY = config.gridDimZ = config.blockDimY = config.blockDimZ = 1;
    config.blockDimX = 64, config.sharedMemBytes = 64 * sizeof(float);
    pair = {4, 0};
    OK(cuLaunchKernelEx(&config, symbol, parameters, nullptr));
    EXPECT(cudaMemcpy(after, data, sizeof after, cudaMemcpyDeviceToHost) == cudaSuccess);
    expect(after, before, pair);

    // What one API sets of a function the other finds.
    int value = -1;
    EXPECT(cudaFuncSetAttribute((const void*)mix, cudaFuncAttributeMaxDynamicSharedMemorySize, 61440) == cudaSuccess);
    OK(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, symbol));
    EXPECT(value == 61440);
    OK(cuFuncSetAttribute(symbol, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 51200));
    cudaFuncAttributes attributes;
    if (on_farlane()) EXPECT(cudaFuncGetAttributes(&attributes, (const void*)mix) == cudaSuccess && attributes.maxDynamicSharedSizeBytes == 51200);
    EXPECT(cudaFuncGetAttributes(&attributes, (const void*)bounded) == cudaSuccess && attributes.maxThreadsPerBlock == 192);
    EXPECT(cudaGetFuncBySymbol(&again, (const void*)bounded) == cudaSuccess);
    OK(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, again));
    EXPECT(value == 192);
    int *counter, blocks = 0, runtime_blocks = 0;
    EXPECT(cudaMalloc(&counter, sizeof *counter) == cudaSuccess && cudaMemset(counter, 0, sizeof *counter) == cudaSuccess);
    void* counting[] = {&counter};
    FAILS(cuLaunchKernel(again, 1, 1, 1, 193, 1, 1, 0, nullptr, counting, nullptr), CUDA_ERROR_INVALID_VALUE);
    OK(cuLaunchKernel(again, 5, 1, 1, 192, 1, 1, 0, nullptr, counting, nullptr));
    bounded<<<2, 10>>>(counter);
    EXPECT(cudaMemcpy(&value, counter, sizeof value, cudaMemcpyDeviceToHost) == cudaSuccess && value == 5 * 192 + 20);
    OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, symbol, 64, 256));
    EXPECT(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&runtime_blocks, mix, 64, 256) == cudaSuccess && blocks == runtime_blocks);

    // A kernel of PTX text by the runtime's launch.
    CUlibrary library;
    CUkernel fill;
    OK(cuLibraryLoadData(&library, PTX_HEADER PTX_FILL, nullptr, nullptr, 0, nullptr, nullptr, 0));
    OK(cuLibraryGetKernel(&fill, library, "fill"));
    int ints[64];
    value = 40;
    void* filling[] = {&data, &value};
    EXPECT(cudaLaunchKernel((const void*)fill, dim3(2), dim3(32), filling, 0, nullptr) == cudaSuccess);
    OK(cuMemcpyDtoH(ints, (CUdeviceptr)data, sizeof ints));
    for (int i = 0; i < 64; ++i) EXPECT(ints[i] == 40 + i);
    EXPECT(cudaFuncGetAttributes(&attributes, (const void*)fill) == cudaSuccess && attributes.ptxVersion == 75);
    OK(cuLibraryUnload(library));
    EXPECT(cudaFree(data) == cudaSuccess && cudaFree(counter) == cudaSuccess && cudaGetLastError() == cudaSuccess);
    printf("PASS\n");
    return 0;
}
