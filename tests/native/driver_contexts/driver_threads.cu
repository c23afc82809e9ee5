// Threads: each has a context of its own to set and streams of its own to use; modules, events and memory are everybody's.
#include "../driver.h"

#include <atomic>
#include <thread>
#include <vector>

static CUcontext primary;
static CUfunction fill;
static CUdeviceptr shared;
static std::atomic<long long> total;
static const int THREADS = 6, COUNT = 256, ROUNDS = 25;

static void work(int number) {
    CUcontext current = primary;
    // A new thread has no context.
    OK(cuCtxGetCurrent(&current));
    EXPECT(!current);
    CUdeviceptr mine;
    FAILS(cuMemAlloc(&mine, 16), CUDA_ERROR_INVALID_CONTEXT);
    OK(cuCtxPushCurrent(primary));
    OK(cuMemAlloc(&mine, COUNT * sizeof(int)));
    CUstream stream = CU_STREAM_PER_THREAD;
    if (number % 2) OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    int ints[COUNT];
    long long sum = 0;
    for (int round = 0; round < ROUNDS; ++round) {
        int value = 1000 * number + round;
        void* parameters[] = {&mine, &value};
        OK(cuLaunchKernel(fill, COUNT / 64, 1, 1, 64, 1, 1, 0, stream, parameters, nullptr));
        OK(cuMemcpyDtoHAsync(ints, mine, sizeof ints, stream));
        OK(cuStreamSynchronize(stream));
        for (int i = 0; i < COUNT; ++i) {
            EXPECT(ints[i] == value + i);
            sum += ints[i];
        }
    }
    OK(cuMemcpyDtoDAsync(shared + number * COUNT * sizeof(int), mine, COUNT * sizeof(int), stream));
    OK(cuStreamSynchronize(stream));
    // Refused here, nobody else's business.
    FAILS(cuMemFree(mine + 4), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemFree(mine));
    if (number % 2) OK(cuStreamDestroy(stream));
    OK(cuCtxPopCurrent(&current));
    EXPECT(current == primary);
    FAILS(cuCtxSynchronize(), CUDA_ERROR_INVALID_CONTEXT);
    total += sum;
}

int main() {
    begin();
    OK(cuCtxGetCurrent(&primary));
    CUmodule module;
    // A module that another thread loads.
    std::thread loader([&] {
        OK(cuCtxSetCurrent(primary));
        OK(cuModuleLoadData(&module, PTX_HEADER PTX_FILL));
        OK(cuModuleGetFunction(&fill, module, "fill"));
    });
    loader.join();
    OK(cuMemAlloc(&shared, THREADS * COUNT * sizeof(int)));
    std::vector<std::thread> threads;
    for (int i = 0; i < THREADS; ++i) threads.emplace_back(work, i);
    for (std::thread& thread : threads) thread.join();
    std::vector<int> ints(THREADS * COUNT);
    OK(cuMemcpyDtoH(ints.data(), shared, ints.size() * sizeof(int)));
    for (int i = 0; i < THREADS * COUNT; ++i) EXPECT(ints[i] == i / COUNT * 1000 + ROUNDS - 1 + i % COUNT);

    // An event of one thread, waited for by another, which frees what the first allocated.
    CUevent done;
    CUdeviceptr passed = 0;
    OK(cuEventCreate(&done, CU_EVENT_BLOCKING_SYNC));
    std::thread producer([&] {
        OK(cuCtxSetCurrent(primary));
        int value = -7;
        OK(cuMemAlloc(&passed, 64 * sizeof(int)));
        void* parameters[] = {&passed, &value};
        OK(cuLaunchKernel(fill, 1, 1, 1, 64, 1, 1, 0, CU_STREAM_PER_THREAD, parameters, nullptr));
        OK(cuEventRecord(done, CU_STREAM_PER_THREAD));
    });
    producer.join();
    OK(cuEventSynchronize(done));
    OK(cuMemcpyDtoH(ints.data(), passed, 64 * sizeof(int)));
    EXPECT(ints[0] == -7 && ints[63] == 56);
    OK(cuMemFree(passed));
    OK(cuEventDestroy(done));
    OK(cuModuleUnload(module));
    printf("driver_threads %lld\nPASS\n", total.load());
    return 0;
}
