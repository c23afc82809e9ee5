// Events of the driver API: flags, times, queries, destroyed and unrecorded ones.
#include "../driver.h"

int main() {
    begin();
    CUstream one, two;
    CUevent start, end, quiet;
    CUdeviceptr memory;
    float elapsed = -1;
    OK(cuStreamCreate(&one, CU_STREAM_NON_BLOCKING));
    OK(cuStreamCreate(&two, CU_STREAM_NON_BLOCKING));
    OK(cuEventCreate(&start, CU_EVENT_DEFAULT));
    OK(cuEventCreate(&end, CU_EVENT_BLOCKING_SYNC));
    OK(cuEventCreate(&quiet, CU_EVENT_DISABLE_TIMING));
    OK(cuMemAlloc(&memory, 64));
    OK(cuEventQuery(start));
    OK(cuEventSynchronize(start));
    EXPECT(cuEventElapsedTime(&elapsed, start, end) == CUDA_ERROR_INVALID_HANDLE);
    OK(cuEventRecord(start, one));
    OK(cuMemsetD32Async(memory, 5, 16, one));
    OK(cuEventRecordWithFlags(end, one, CU_EVENT_RECORD_DEFAULT));
    OK(cuStreamWaitEvent(two, end, CU_EVENT_WAIT_DEFAULT));
    OK(cuMemsetD32Async(memory + 32, 6, 8, two));
    OK(cuEventRecord(quiet, two));
    OK(cuEventSynchronize(quiet));
    OK(cuEventQuery(end));
    OK(cuEventElapsedTime(&elapsed, start, end));
    EXPECT(elapsed >= 0);
    EXPECT(cuEventElapsedTime(&elapsed, start, quiet) == CUDA_ERROR_INVALID_HANDLE);
    if (on_farlane()) EXPECT(cuEventElapsedTime(nullptr, start, end) == CUDA_ERROR_INVALID_VALUE);
    unsigned words[16];
    OK(cuMemcpyDtoH(words, memory, sizeof words));
    EXPECT(words[0] == 5 && words[7] == 5 && words[8] == 6 && words[15] == 6);
    EXPECT(cuEventCreate(nullptr, 0) == CUDA_ERROR_INVALID_VALUE);
    EXPECT(cuEventCreate(&quiet, 64) == CUDA_ERROR_INVALID_VALUE);
    EXPECT(cuEventRecordWithFlags(start, one, 2) == CUDA_ERROR_INVALID_VALUE);
    EXPECT(cuStreamWaitEvent(one, start, 2) == CUDA_ERROR_INVALID_VALUE);
    EXPECT(cuEventRecord(nullptr, one) == CUDA_ERROR_INVALID_HANDLE);
    OK(cuEventDestroy(start));
    if (on_farlane()) EXPECT(cuEventDestroy(start) == CUDA_ERROR_INVALID_HANDLE);
    if (on_farlane()) EXPECT(cuEventRecord(start, one) == CUDA_ERROR_INVALID_HANDLE);
    if (on_farlane()) EXPECT(cuEventQuery(start) == CUDA_ERROR_INVALID_HANDLE);
    printf("PASS\n");
    return 0;
}
