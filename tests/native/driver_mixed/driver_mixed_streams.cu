// Streams and events of one API are the other's.
#include "../driver.h"
#include <cuda_runtime.h>

__global__ void add(int* data, int value) { data[threadIdx.x] += value; }

int main() {
    begin();
    CUstream ours;
    cudaStream_t theirs;
    CUevent event;
    cudaEvent_t mark;
    int* memory;
    int words[4];
    OK(cuStreamCreate(&ours, CU_STREAM_NON_BLOCKING));
    EXPECT(cudaStreamCreateWithPriority(&theirs, cudaStreamNonBlocking, -1) == cudaSuccess);
    OK(cuEventCreate(&event, 0));
    EXPECT(cudaEventCreate(&mark) == cudaSuccess);
    EXPECT(cudaMalloc(&memory, sizeof words) == cudaSuccess);
    OK(cuMemsetD32Async((CUdeviceptr)memory, 1, 4, ours));
    OK(cuEventRecord(event, ours));
    EXPECT(cudaStreamWaitEvent(theirs, event, 0) == cudaSuccess);
    add<<<1, 4, 0, theirs>>>(memory, 20);
    EXPECT(cudaEventRecord(mark, theirs) == cudaSuccess);
    OK(cuStreamWaitEvent(ours, mark, 0));
    OK(cuStreamWriteValue32(ours, (CUdeviceptr)memory, 300, 0));
    OK(cuStreamSynchronize(ours));
    EXPECT(cudaMemcpy(words, memory, sizeof words, cudaMemcpyDeviceToHost) == cudaSuccess);
    EXPECT(words[0] == 300 && words[1] == 21 && words[3] == 21);
    float elapsed = -1;
    OK(cuEventElapsedTime(&elapsed, event, mark));
    EXPECT(elapsed >= 0);
    int priority = 0;
    OK(cuStreamGetPriority(theirs, &priority));
    EXPECT(priority == -1);
    OK(cuStreamDestroy(theirs));
    if (on_farlane()) EXPECT(cudaStreamQuery(theirs) == cudaErrorInvalidResourceHandle);
    if (on_farlane()) EXPECT(cudaGetLastError() == cudaErrorInvalidResourceHandle);
    if (on_farlane()) EXPECT(cudaStreamDestroy(ours) == cudaSuccess && cuStreamQuery(ours) == CUDA_ERROR_INVALID_HANDLE);
    EXPECT(cudaGetLastError() == cudaSuccess);
    printf("PASS\n");
    return 0;
}
