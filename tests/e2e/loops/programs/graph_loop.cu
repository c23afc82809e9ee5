// A graph with a loop: sets a cell to the number given, counts down to 0 in a while node, and waits once.
#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>

#define TRUE(condition)                                                                                                \
    if (!(condition)) {                                                                                                \
        std::printf("line %d: %s\n", __LINE__, #condition);                                                           \
        return 1;                                                                                                      \
    }

__global__ void count_down(cudaGraphConditionalHandle handle, int *cell) {
    if (--*cell == 0) {
        cudaGraphSetConditional(handle, 0);
    }
}

int main(int argc, char **argv) {
    int count = argc > 1 ? std::atoi(argv[1]) : 1, *cell;
    TRUE(cudaMalloc(&cell, sizeof *cell) == cudaSuccess);
    TRUE(cudaMemcpy(cell, &count, sizeof count, cudaMemcpyHostToDevice) == cudaSuccess);
    cudaGraph_t graph;
    cudaGraphConditionalHandle handle;
    TRUE(cudaGraphCreate(&graph, 0) == cudaSuccess);
    TRUE(cudaGraphConditionalHandleCreate(&handle, graph, 1, cudaGraphCondAssignDefault) == cudaSuccess);
    cudaGraphNodeParams loop = {};
    loop.type = cudaGraphNodeTypeConditional;
    loop.conditional.handle = handle;
    loop.conditional.type = cudaGraphCondTypeWhile;
    loop.conditional.size = 1;
    cudaGraphNode_t node;
    TRUE(cudaGraphAddNode(&node, graph, nullptr, nullptr, 0, &loop) == cudaSuccess);
    void *arguments[] = {&handle, &cell};
    cudaKernelNodeParams step = {};
    step.func = reinterpret_cast<void *>(count_down);
    step.gridDim = step.blockDim = dim3(1);
    step.kernelParams = arguments;
    TRUE(cudaGraphAddKernelNode(&node, loop.conditional.phGraph_out[0], nullptr, 0, &step) == cudaSuccess);
    cudaGraphExec_t executable;
    TRUE(cudaGraphInstantiate(&executable, graph, 0) == cudaSuccess);
    TRUE(cudaGraphLaunch(executable, nullptr) == cudaSuccess);
    TRUE(cudaMemcpy(&count, cell, sizeof count, cudaMemcpyDeviceToHost) == cudaSuccess);
    std::printf("left %d\n", count);
    return 0;
}
