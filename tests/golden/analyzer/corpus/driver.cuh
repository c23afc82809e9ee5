// The corpus in the driver's words: corpus_tools/driver.py writes launches as calls of Launcher, and these macros the rest.
// What a program does outside of its loops (registration, the arena) stays the runtime's; the kernels' handles come from there.
#pragma once
#include <cuda.h>

template <typename>
struct Launcher;

template <typename... Parameters>
struct Launcher<void(Parameters...)> {
    static __attribute__((always_inline)) CUresult launch(CUfunction kernel, dim3 grid, dim3 block, unsigned shared, CUstream stream, Parameters... values) {
        void *parameters[sizeof...(values) ? sizeof...(values) : 1] = {&values...};
        return cuLaunchKernel(kernel, grid.x, grid.y, grid.z, block.x, block.y, block.z, shared, stream, parameters, nullptr);
    }
};

static inline const char *text_of(CUresult code) {
    const char *text = "";
    cuGetErrorString(code, &text);
    return text;
}

#define FIRST_ONE(first, ...) first
#define FIRST_TWO(first, second, ...) first, second
#define DEVICE(pointer) ((CUdeviceptr)(pointer))

#define cudaError_t CUresult
#define cudaSuccess CUDA_SUCCESS
#define cudaErrorNotReady CUDA_ERROR_NOT_READY
#define cudaErrorMemoryAllocation CUDA_ERROR_OUT_OF_MEMORY
#define cudaGetLastError() CUDA_SUCCESS
#define cudaPeekAtLastError() CUDA_SUCCESS
#define cudaGetErrorString text_of
#define cudaGetErrorName text_of

#define cudaMalloc(where, bytes) cuMemAlloc((CUdeviceptr *)(where), bytes)
#define cudaMallocAsync(where, bytes, stream) cuMemAllocAsync((CUdeviceptr *)(where), bytes, stream)
#define cudaMallocHost(where, bytes) cuMemAllocHost((void **)(where), bytes)
#define cudaHostAlloc(where, bytes, flags) cuMemHostAlloc((void **)(where), bytes, flags)
#define cudaFree(pointer) cuMemFree(DEVICE(pointer))
#define cudaFreeAsync(pointer, stream) cuMemFreeAsync(DEVICE(pointer), stream)
#define cudaFreeHost(pointer) cuMemFreeHost(pointer)
#define cudaMemset(pointer, value, bytes) cuMemsetD8(DEVICE(pointer), value, bytes)
#define cudaMemsetAsync(pointer, value, ...) cuMemsetD8Async(DEVICE(pointer), value, FIRST_TWO(__VA_ARGS__, nullptr, nullptr))

#define cudaMemcpy(to, from, bytes, kind) COPY_##kind(to, from, bytes)
#define COPY_cudaMemcpyDeviceToHost(to, from, bytes) cuMemcpyDtoH(to, DEVICE(from), bytes)
#define COPY_cudaMemcpyHostToDevice(to, from, bytes) cuMemcpyHtoD(DEVICE(to), from, bytes)
#define COPY_cudaMemcpyDeviceToDevice(to, from, bytes) cuMemcpyDtoD(DEVICE(to), DEVICE(from), bytes)
#define COPY_cudaMemcpyDefault(to, from, bytes) cuMemcpy(DEVICE(to), DEVICE(from), bytes)
#define COPY_kind(to, from, bytes) cuMemcpy(DEVICE(to), DEVICE(from), bytes)
#define cudaMemcpyAsync(to, from, bytes, kind, ...) COPY_ASYNC_##kind(to, from, bytes, FIRST_ONE(__VA_ARGS__ __VA_OPT__(, ) nullptr, nullptr))
#define COPY_ASYNC_cudaMemcpyDeviceToHost(to, from, bytes, stream) cuMemcpyDtoHAsync(to, DEVICE(from), bytes, stream)
#define COPY_ASYNC_cudaMemcpyHostToDevice(to, from, bytes, stream) cuMemcpyHtoDAsync(DEVICE(to), from, bytes, stream)
#define COPY_ASYNC_cudaMemcpyDeviceToDevice(to, from, bytes, stream) cuMemcpyDtoDAsync(DEVICE(to), DEVICE(from), bytes, stream)
#define cudaMemcpyFromSymbol(to, symbol, bytes) cuMemcpyDtoH(to, address_##symbol, bytes)

#define cudaStreamCreate(where) cuStreamCreate(where, 0)
#define cudaStreamDestroy(stream) cuStreamDestroy(stream)
#define cudaStreamSynchronize(stream) cuStreamSynchronize(stream)
#define cudaStreamQuery(stream) cuStreamQuery(stream)
#define cudaStreamWaitEvent(stream, event, flags) cuStreamWaitEvent(stream, event, flags)
#define cudaEventCreate(where) cuEventCreate(where, 0)
#define cudaEventCreateWithFlags(where, flags) cuEventCreate(where, flags)
#define cudaEventRecord(...) cuEventRecord(FIRST_TWO(__VA_ARGS__, nullptr, nullptr))
#define cudaEventSynchronize(event) cuEventSynchronize(event)
#define cudaEventElapsedTime(where, start, end) cuEventElapsedTime(where, start, end)
#define cudaEventDestroy(event) cuEventDestroy(event)
#define cudaDeviceSynchronize() cuCtxSynchronize()
#define cudaDeviceReset() cuDevicePrimaryCtxReset(0)
#define cudaGetDevice(where) cuCtxGetDevice(where)
#define cudaGetDeviceCount(where) cuDeviceGetCount(where)
#define cudaDeviceGetAttribute(where, which, device) cuDeviceGetAttribute(where, (CUdevice_attribute)(which), device)

#define cudaLaunchKernel(kernel, grid, block, parameters, shared, stream) \
    cuLaunchKernel(kernel, grid, 1, 1, block, 1, 1, shared, stream, parameters, nullptr)
#define cudaLaunchKernelExC(shape, kernel, parameters) \
    cuLaunchKernelEx((const CUlaunchConfig *)(shape), kernel, parameters, nullptr)
