// A graph that one API captures or makes is the other's.
#include "../driver.h"
#include <cuda_runtime.h>

__global__ void add(int* data, int value) { data[threadIdx.x] += value; }

int main() {
    begin();
    cudaStream_t stream;
    int* memory;
    int words[4];
    CUgraph graph;
    CUgraphExec exec;
    EXPECT(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess);
    EXPECT(cudaMalloc(&memory, sizeof words) == cudaSuccess);
    EXPECT(cudaMemset(memory, 0, sizeof words) == cudaSuccess && cudaDeviceSynchronize() == cudaSuccess);
    // Captured by the driver API out of the runtime's launches, instantiated and launched by the runtime.
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    add<<<1, 4, 0, stream>>>(memory, 1);
    add<<<1, 2, 0, stream>>>(memory, 10);
    OK(cuStreamEndCapture(stream, &graph));
    EXPECT(cudaGraphInstantiate((cudaGraphExec_t*)&exec, graph, 0) == cudaSuccess);
    for (int i = 0; i < 3; i++) EXPECT(cudaGraphLaunch(exec, stream) == cudaSuccess);
    EXPECT(cudaStreamSynchronize(stream) == cudaSuccess);
    OK(cuMemcpyDtoH(words, (CUdeviceptr)memory, sizeof words));
    EXPECT(words[0] == 33 && words[1] == 33 && words[2] == 3 && words[3] == 3);
    // Captured by the runtime out of the driver's work, launched by the driver API.
    EXPECT(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal) == cudaSuccess);
    OK(cuMemsetD32Async((CUdeviceptr)memory, 5, 4, stream));
    add<<<1, 4, 0, stream>>>(memory, 2);
    EXPECT(cudaStreamEndCapture(stream, &graph) == cudaSuccess);
    OK(cuGraphInstantiate(&exec, graph, 0));
    OK(cuGraphLaunch(exec, stream));
    OK(cuStreamSynchronize(stream));
    EXPECT(cudaMemcpy(words, memory, sizeof words, cudaMemcpyDefault) == cudaSuccess);
    EXPECT(words[0] == 7 && words[3] == 7);
    EXPECT(cudaGraphDestroy(graph) == cudaSuccess);
    EXPECT(cuGraphDestroy(graph) == CUDA_ERROR_INVALID_VALUE);
    EXPECT(cudaPeekAtLastError() == cudaSuccess);
    printf("PASS\n");
    return 0;
}
