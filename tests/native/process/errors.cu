// The errors CUDA reports for wrong arguments, which calls store them, and how they are read and cleared.
#include <cstring>

#include "../support.cuh"

__global__ void kernel(int *data) { data[threadIdx.x] = threadIdx.x; }

static Verdict verdict;

// `call` returned `code`, which is also the last error, once.
static void fails(cudaError_t actual, cudaError_t expected, const char *what) {
    if (!verdict.expect(actual == expected, what)) {
        std::printf("  returned %d %s, expected %d %s\n", actual, cudaGetErrorName(actual), expected,
                    cudaGetErrorName(expected));
    }
    cudaError_t peeked = cudaPeekAtLastError(), last = cudaGetLastError(), cleared = cudaGetLastError();
    if (!verdict.expect(peeked == actual && last == actual && cleared == cudaSuccess, what)) {
        std::printf("  last errors %d %d %d\n", peeked, last, cleared);
    }
}

static cudaError_t launch(dim3 grid, dim3 block, size_t shared) {
    int *pointer = nullptr;
    void *arguments[] = {&pointer};
    return cudaLaunchKernel(reinterpret_cast<const void *>(kernel), grid, block, arguments, shared, nullptr);
}

int main() {
    DeviceArray<int> data(256);
    int host[256] = {};
    int value = 0;
    void *pointer = nullptr;

    fails(cudaSetDevice(99), cudaErrorInvalidDevice, "cudaSetDevice(99)");
    fails(cudaSetDevice(-1), cudaErrorInvalidDevice, "cudaSetDevice(-1)");
    fails(cudaDeviceGetAttribute(&value, cudaDevAttrWarpSize, 99), cudaErrorInvalidDevice, "attribute of device 99");
    fails(cudaDeviceGetAttribute(&value, static_cast<cudaDeviceAttr>(100000), 0), cudaErrorInvalidValue,
          "unknown attribute");

    fails(cudaMalloc(&pointer, size_t(1) << 60), cudaErrorMemoryAllocation, "an allocation far too large");
    fails(cudaMalloc(static_cast<void **>(nullptr), 4), cudaErrorInvalidValue, "cudaMalloc to nowhere");
    CHECK(cudaMalloc(&pointer, 0));
    verdict.expect(pointer == nullptr, "an allocation of nothing is null");
    CHECK(cudaFree(nullptr));
    fails(cudaFree(data.get() + 1), cudaErrorInvalidValue, "cudaFree of an inner address");
    fails(cudaFree(host), cudaErrorInvalidValue, "cudaFree of host memory");
    CHECK(cudaMalloc(&pointer, 1000));
    CHECK(cudaFree(pointer));
    fails(cudaFree(pointer), cudaErrorInvalidValue, "cudaFree twice");
    fails(cudaFreeHost(host), cudaErrorInvalidValue, "cudaFreeHost of ordinary memory");

    fails(cudaMemcpy(data.get(), host, sizeof host, static_cast<cudaMemcpyKind>(77)), cudaErrorInvalidMemcpyDirection,
          "unknown direction of a copy");
    fails(cudaMemcpy(host, data.get(), size_t(1) << 30, cudaMemcpyDeviceToHost), cudaErrorInvalidValue,
          "a copy from beyond an allocation");
    fails(cudaMemcpy(nullptr, host, 4, cudaMemcpyHostToDevice), cudaErrorInvalidValue, "a copy to null");
    fails(cudaMemset(nullptr, 0, 4), cudaErrorInvalidValue, "cudaMemset of null");
    CHECK(cudaMemcpy(data.get(), host, 0, cudaMemcpyHostToDevice));

    fails(launch(dim3(0), dim3(32), 0), cudaErrorInvalidConfiguration, "an empty grid");
    fails(launch(dim3(1), dim3(0), 0), cudaErrorInvalidConfiguration, "an empty block");
    fails(launch(dim3(1), dim3(1025), 0), cudaErrorInvalidConfiguration, "a block of 1025 threads");
    fails(launch(dim3(1), dim3(64, 32), 0), cudaErrorInvalidConfiguration, "a block of 64 by 32 threads");
    fails(launch(dim3(1), dim3(1, 1, 65), 0), cudaErrorInvalidConfiguration, "a block 65 deep");
    fails(launch(dim3(1, 65536), dim3(1), 0), cudaErrorInvalidConfiguration, "a grid 65536 high");
    fails(launch(dim3(1), dim3(32), 16 << 20), cudaErrorInvalidValue, "16 MiB of shared memory");
    fails(cudaLaunchKernel(&host, dim3(1), dim3(1), nullptr, 0, nullptr), cudaErrorInvalidDeviceFunction,
          "a function that is no kernel");
    kernel<<<1, 5000>>>(data.get());
    fails(cudaPeekAtLastError(), cudaErrorInvalidConfiguration, "<<<>>> with too many threads");

    cudaFuncAttributes attributes;
    fails(cudaFuncGetAttributes(&attributes, reinterpret_cast<const void *>(host)), cudaErrorInvalidDeviceFunction,
          "attributes of a function that is no kernel");
    fails(cudaMemcpyToSymbol(&value, host, 4), cudaErrorInvalidSymbol, "a symbol that is none");
    fails(cudaGetSymbolAddress(&pointer, &value), cudaErrorInvalidSymbol, "address of a symbol that is none");

    cudaStream_t stream;
    cudaEvent_t first, second;
    fails(cudaStreamCreateWithFlags(&stream, 99), cudaErrorInvalidValue, "unknown stream flags");
    fails(cudaEventCreateWithFlags(&first, 999), cudaErrorInvalidValue, "unknown event flags");
    CHECK(cudaEventCreate(&first));
    CHECK(cudaEventCreate(&second));
    float milliseconds = 0.0f;
    CHECK(cudaEventQuery(first));
    CHECK(cudaEventSynchronize(first));
    fails(cudaEventElapsedTime(&milliseconds, first, second), cudaErrorInvalidResourceHandle, "events never recorded");
    CHECK(cudaEventDestroy(first));
    CHECK(cudaEventDestroy(second));

    // A success does not clear the last error; only reading it does.
    cudaSetDevice(99);
    CHECK(cudaMemset(data.get(), 0, 4));
    CHECK(cudaDeviceSynchronize());
    verdict.expect(cudaPeekAtLastError() == cudaErrorInvalidDevice, "an error stays until it is read");
    verdict.expect(cudaGetLastError() == cudaErrorInvalidDevice, "reading it");
    verdict.expect(cudaGetLastError() == cudaSuccess, "clears it");

    verdict.expect(std::strcmp(cudaGetErrorName(cudaErrorInvalidValue), "cudaErrorInvalidValue") == 0, "name of 1");
    verdict.expect(std::strcmp(cudaGetErrorString(cudaErrorInvalidValue), "invalid argument") == 0, "text of 1");
    verdict.expect(std::strcmp(cudaGetErrorName(cudaErrorMemoryAllocation), "cudaErrorMemoryAllocation") == 0, "name of 2");
    verdict.expect(std::strcmp(cudaGetErrorString(cudaErrorMemoryAllocation), "out of memory") == 0, "text of 2");
    verdict.expect(std::strcmp(cudaGetErrorString(cudaErrorInvalidConfiguration), "invalid configuration argument") == 0,
                   "text of 9");
    verdict.expect(std::strcmp(cudaGetErrorString(cudaErrorIllegalAddress), "an illegal memory access was encountered") ==
                       0,
                   "text of 700");
    verdict.expect(std::strcmp(cudaGetErrorString(cudaSuccess), "no error") == 0, "text of 0");
    verdict.expect(std::strcmp(cudaGetErrorString(static_cast<cudaError_t>(12345)), "unrecognized error code") == 0,
                   "text of an unknown code");

    // After all of that the device still works.
    kernel<<<1, 256>>>(data.get());
    CHECK_LAUNCH();
    CHECK(cudaMemcpy(host, data.get(), sizeof host, cudaMemcpyDeviceToHost));
    verdict.expect(host[255] == 255, "a kernel after the errors");
    std::printf("errors\n");
    return verdict.finish();
}
