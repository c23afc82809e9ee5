// Threads with different current contexts: each one's work, errors and functions are its context's; the order of each is kept.
#include "../driver.h"
#include <thread>

static void work(CUcontext context, int number, int *sum) {
    OK(cuCtxSetCurrent(context));
    CUdeviceptr memory;
    CUmodule module;
    CUfunction fill;
    CUstream stream;
    OK(cuMemAlloc(&memory, 64 * sizeof(int)));
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cuModuleLoadData(&module, PTX_HEADER PTX_FILL));
    OK(cuModuleGetFunction(&fill, module, "fill"));
    *sum = 0;
    for (int i = 0; i < 40; i++) {
        int value = number * 1000 + i, words[64];
        void *parameters[] = {&memory, &value};
        OK(cuLaunchKernel(fill, 2, 1, 1, 32, 1, 1, 0, stream, parameters, nullptr));
        OK(cuMemcpyDtoHAsync(words, memory, sizeof words, stream));
        OK(cuStreamSynchronize(stream));
        EXPECT(words[0] == value && words[63] == value + 63);
        *sum += words[63] - value;
        CUcontext found;
        OK(cuCtxGetCurrent(&found));
        EXPECT(found == context);
    }
    if (number % 2) {  // every other context is ruined in the end
        CUdeviceptr nowhere = 64;
        int value = 1;
        void *wrong[] = {&nowhere, &value};
        CUresult launched = cuLaunchKernel(fill, 1, 1, 1, 32, 1, 1, 0, stream, wrong, nullptr);
        EXPECT(launched == CUDA_SUCCESS || launched == CUDA_ERROR_ILLEGAL_ADDRESS);
        FAILS(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
    }
}

int main() {
    CUdevice device = begin();
    size_t before, after, total;
    OK(cuMemGetInfo(&before, &total));
    CUcontext contexts[4], primary;
    OK(cuCtxGetCurrent(&primary));
    std::thread threads[4];
    int sums[4];
    for (int i = 0; i < 4; i++) {
        contexts[i] = create(device);
    }
    OK(cuCtxSetCurrent(primary));
    for (int i = 0; i < 4; i++) {
        threads[i] = std::thread(work, contexts[i], i, &sums[i]);
    }
    for (int i = 0; i < 4; i++) {
        threads[i].join();
        EXPECT(sums[i] == 40 * 63);
    }
    OK(cuCtxSynchronize());
    for (int i = 0; i < 4; i++) {
        OK(cuCtxSetCurrent(contexts[i]));
        FAILS(cuCtxSynchronize(), i % 2 ? CUDA_ERROR_ILLEGAL_ADDRESS : CUDA_SUCCESS);
        OK(cuCtxSetCurrent(primary));
        OK(cuCtxDestroy(contexts[i]));
    }
    OK(cuMemGetInfo(&after, &total));
    EXPECT(before == after);
    printf("PASS\n");
    return 0;
}
