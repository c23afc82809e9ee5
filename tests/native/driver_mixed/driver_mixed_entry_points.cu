// The driver API as programs of the runtime API use it without linking it: every function from cudaGetDriverEntryPoint.
#include <cuda.h>
#include <cuda_runtime.h>
#include <stdio.h>

#define EXPECT(condition)                                                \
    do {                                                                 \
        if (!(condition)) {                                              \
            printf("line %d: %s does not hold\n", __LINE__, #condition); \
            return 1;                                                    \
        }                                                                \
    } while (0)

__global__ void weigh(float* out, const float* in, float weight, int count) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) out[i] = in[i] * weight + i;
}

typedef CUresult (*LaunchEx)(const CUlaunchConfig*, CUfunction, void**, void**);
typedef CUresult (*Range)(CUdeviceptr*, size_t*, CUdeviceptr);
typedef CUresult (*Name)(CUresult, const char**);

static void* entry(const char* name, unsigned version = 12000) {
    void* found = nullptr;
    cudaDriverEntryPointQueryResult status;
    if (cudaGetDriverEntryPointByVersion(name, &found, version, cudaEnableDefault, &status) != cudaSuccess) return nullptr;
    return status == cudaDriverEntryPointSuccess ? found : nullptr;
}

int main() {
    const int count = 3000;
    static float in[count], out[count];
    float *device_in, *device_out;
    // The functions are found before the runtime has made a context.
    LaunchEx launch = (LaunchEx)entry("cuLaunchKernelEx");
    Range range = (Range)entry("cuMemGetAddressRange");
    Name name = (Name)entry("cuGetErrorName");
    EXPECT(launch && range && name);
    EXPECT(!entry("cuNoSuchThing") && !entry("cuLaunchKernelEx", 11000));
    void* found;
    cudaDriverEntryPointQueryResult status;
    EXPECT(cudaGetDriverEntryPointByVersion("cuNoSuchThing", &found, 12000, cudaEnableDefault, &status) == cudaSuccess);
    EXPECT(!found && status == cudaDriverEntryPointSymbolNotFound);
    EXPECT(cudaGetDriverEntryPointByVersion("cuLaunchKernelEx", &found, 11000, cudaEnableDefault, &status) == cudaSuccess);
    EXPECT(!found && status == cudaDriverEntryPointVersionNotSufficent);
    EXPECT(cudaGetDriverEntryPointByVersion(nullptr, &found, 12000, cudaEnableDefault, &status) == cudaErrorInvalidValue);
    EXPECT(cudaGetDriverEntryPointByVersion("cuInit", &found, 12000, 99, &status) == cudaErrorInvalidValue);
    EXPECT(cudaGetLastError() == cudaErrorInvalidValue);
    EXPECT(cudaGetDriverEntryPointByVersion("cuLaunchKernel", &found, 12000, cudaEnableLegacyStream, &status) == cudaSuccess);
    void* per_thread;
    EXPECT(cudaGetDriverEntryPointByVersion("cuLaunchKernel", &per_thread, 12000, cudaEnablePerThreadDefaultStream, &status) == cudaSuccess);
    EXPECT(found && per_thread && found != per_thread);

    for (int i = 0; i < count; ++i) in[i] = i % 17;
    EXPECT(cudaMalloc(&device_in, sizeof in) == cudaSuccess && cudaMalloc(&device_out, sizeof out) == cudaSuccess);
    EXPECT(cudaMemcpy(device_in, in, sizeof in, cudaMemcpyHostToDevice) == cudaSuccess);
    CUdeviceptr base = 0;
    size_t bytes = 0;
    EXPECT(range(&base, &bytes, (CUdeviceptr)(device_in + 100)) == CUDA_SUCCESS && base == (CUdeviceptr)device_in && bytes == sizeof in);
    cudaFunction_t function;
    EXPECT(cudaGetFuncBySymbol(&function, (const void*)weigh) == cudaSuccess);
    cudaStream_t streams[2];
    for (cudaStream_t& stream : streams) EXPECT(cudaStreamCreate(&stream) == cudaSuccess);
    CUlaunchConfig config = {};
    config.gridDimX = (count + 127) / 128, config.blockDimX = 128;
    config.gridDimY = config.gridDimZ = config.blockDimY = config.blockDimZ = 1;
    double sum = 0;
    for (int round = 0; round < 8; ++round) {
        float weight = round + 0.5f;
        int n = count;
        void* parameters[] = {&device_out, &device_in, &weight, &n};
        config.hStream = streams[round % 2];
        EXPECT(launch(&config, function, parameters, nullptr) == CUDA_SUCCESS);
        EXPECT(cudaMemcpyAsync(out, device_out, sizeof out, cudaMemcpyDeviceToHost, streams[round % 2]) == cudaSuccess);
        EXPECT(cudaStreamSynchronize(streams[round % 2]) == cudaSuccess);
        for (int i = 0; i < count; ++i) {
            EXPECT(out[i] == in[i] * weight + i);
            sum += out[i];
        }
    }
    // The errors of what was found this way are the driver's own, and not the runtime's last error.
    const char* text = nullptr;
    config.blockDimX = 4096;
    CUresult result = launch(&config, function, nullptr, nullptr);
    EXPECT(result == CUDA_ERROR_INVALID_VALUE && name(result, &text) == CUDA_SUCCESS && cudaPeekAtLastError() == cudaSuccess);
    for (cudaStream_t stream : streams) EXPECT(cudaStreamDestroy(stream) == cudaSuccess);
    EXPECT(cudaFree(device_in) == cudaSuccess && cudaFree(device_out) == cudaSuccess);
    printf("driver_mixed_entry_points %s %.1f\nPASS\n", text, sum);
    return 0;
}
