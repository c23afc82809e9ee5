// The primary context of both APIs: who makes it, who sees it, what setting and releasing it does to the runtime's calls.
#include "../driver.h"
#include <cuda_runtime.h>
#include <thread>

__global__ void add(int* data, int value) { data[threadIdx.x] += value; }

static int active(CUdevice device) {
    unsigned flags;
    int is_active = 7;
    OK(cuDevicePrimaryCtxGetState(device, &flags, &is_active));
    return is_active;
}

static void compute(int* data) {
    int words[4];
    EXPECT(cudaMemset(data, 0, sizeof words) == cudaSuccess);
    for (int i = 1; i <= 4; ++i) add<<<1, 4>>>(data, i);
    EXPECT(cudaMemcpy(words, data, sizeof words, cudaMemcpyDeviceToHost) == cudaSuccess);
    EXPECT(words[0] == 10 && words[3] == 10);
}

int main() {
    CUdevice device;
    CUcontext current = (CUcontext)1, retained, same;
    int* data;
    // The runtime initializes the driver, and cudaFree(0) makes the primary context current.
    EXPECT(cudaFree(0) == cudaSuccess);
    OK(cuDeviceGet(&device, 0));
    EXPECT(active(device) == 1);
    OK(cuCtxGetCurrent(&current));
    EXPECT(current);
    OK(cuDevicePrimaryCtxRetain(&retained, device));
    EXPECT(retained == current);
    EXPECT(cudaMalloc(&data, 64) == cudaSuccess);
    compute(data);
    CUdeviceptr spare;
    OK(cuMemAlloc(&spare, 64));

    // With no context current the runtime takes the primary one for itself.
    OK(cuCtxSetCurrent(nullptr));
    OK(cuCtxGetCurrent(&same));
    EXPECT(!same);
    OK(cuMemFree(spare));
    FAILS(cuMemAlloc(&spare, 64), CUDA_ERROR_INVALID_CONTEXT);
    compute(data);
    OK(cuCtxGetCurrent(&same));
    EXPECT(same == current);
    // cudaSetDevice makes it current, too, as of CUDA 12.
    OK(cuCtxSetCurrent(nullptr));
    EXPECT(cudaSetDevice(0) == cudaSuccess);
    OK(cuCtxGetCurrent(&same));
    EXPECT(same == current);
    int number = 7;
    EXPECT(cudaGetDevice(&number) == cudaSuccess && number == device);

    // Calls that ask a device's context for something make it current; those that ask for a device do not.
    std::thread asking([&] {
        CUcontext mine = current;
        int count;
        size_t free_bytes, all;
        EXPECT(cudaGetDeviceCount(&count) == cudaSuccess);
        OK(cuCtxGetCurrent(&mine));
        EXPECT(!mine);
        EXPECT(cudaMemGetInfo(&free_bytes, &all) == cudaSuccess);
        OK(cuCtxGetCurrent(&mine));
        EXPECT(mine == current);
    });
    asking.join();

    // In another thread each API begins on its own.
    std::thread other([&] {
        CUcontext mine = current;
        OK(cuCtxGetCurrent(&mine));
        EXPECT(!mine);
        compute(data);
        OK(cuCtxGetCurrent(&mine));
        EXPECT(mine == current);
        int word = 0;
        OK(cuMemcpyDtoH(&word, (CUdeviceptr)data, sizeof word));
        EXPECT(word == 10);
    });
    other.join();

    // The driver's release leaves the runtime its context.
    OK(cuDevicePrimaryCtxRelease(device));
    EXPECT(active(device) == 1);
    compute(data);
    OK(cuMemFree((CUdeviceptr)data));
    EXPECT(cudaPeekAtLastError() == cudaSuccess);

    // Flags of the one are flags of the other.
    unsigned flags = 0;
    EXPECT(cudaDeviceReset() == cudaSuccess && active(device) == 0);
    EXPECT(cudaSetDeviceFlags(cudaDeviceScheduleYield) == cudaSuccess && cudaFree(0) == cudaSuccess);
    OK(cuCtxGetFlags(&flags));
    EXPECT((flags & CU_CTX_SCHED_MASK) == CU_CTX_SCHED_YIELD);
    EXPECT(cudaGetDeviceFlags(&flags) == cudaSuccess && (flags & cudaDeviceScheduleMask) == cudaDeviceScheduleYield);
    size_t limit = 0;
    OK(cuCtxSetLimit(CU_LIMIT_PRINTF_FIFO_SIZE, 1 << 21));
    EXPECT(cudaDeviceGetLimit(&limit, cudaLimitPrintfFifoSize) == cudaSuccess && limit == 1 << 21);
    // No context is shared with a graphics API, which only the driver API is asked about (CU_LIMIT_SHMEM_SIZE and two more).
    for (int graphics = 7; on_farlane() && graphics <= 9; graphics++) {
        limit = 1;
        OK(cuCtxGetLimit(&limit, (CUlimit)graphics));
        EXPECT(limit == 0 && cudaDeviceGetLimit(&limit, (cudaLimit)graphics) == cudaErrorUnsupportedLimit);
        EXPECT(cuCtxSetLimit((CUlimit)graphics, 1) == CUDA_ERROR_UNSUPPORTED_LIMIT && cudaGetLastError() == cudaErrorUnsupportedLimit);
    }
    OK(cuCtxSynchronize());
    printf("PASS\n");
    return 0;
}
