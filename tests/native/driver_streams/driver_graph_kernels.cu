// Kernel nodes of the driver API, with functions of the runtime API's image, in both forms of parameters.
#include "../driver.h"
#include <cuda_runtime.h>

__global__ void add(int* data, int value) { data[threadIdx.x] += value; }

int main() {
    begin();
    CUcontext context;
    OK(cuCtxGetCurrent(&context));
    CUdeviceptr memory;
    CUgraph graph;
    CUgraphNode first, second;
    CUgraphExec exec;
    cudaFunction_t function;
    int value = 3, words[4];
    EXPECT(cudaGetFuncBySymbol(&function, (const void*)add) == cudaSuccess);
    OK(cuMemAlloc(&memory, sizeof words));
    OK(cuMemsetD8(memory, 0, sizeof words));
    OK(cuGraphCreate(&graph, 0));
    void* list[] = {&memory, &value};
    CUDA_KERNEL_NODE_PARAMS params;
    memset(&params, 0, sizeof params);
    params.func = (CUfunction)function;
    params.gridDimX = params.gridDimY = params.gridDimZ = 1;
    params.blockDimX = 4;
    params.blockDimY = params.blockDimZ = 1;
    params.kernelParams = list;
    OK(cuGraphAddKernelNode(&first, graph, nullptr, 0, &params));
    struct {
        CUdeviceptr data;
        int value;
    } packed = {memory, 10};
    size_t size = 12;
    void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &packed, CU_LAUNCH_PARAM_BUFFER_SIZE, &size, CU_LAUNCH_PARAM_END};
    params.kernelParams = nullptr;
    params.extra = extra;
    params.ctx = context;
    OK(cuGraphAddKernelNode(&second, graph, &first, 1, &params));
    OK(cuGraphInstantiate(&exec, graph, 0));
    OK(cuGraphLaunch(exec, nullptr));
    OK(cuMemcpyDtoH(words, memory, sizeof words));
    EXPECT(words[0] == 13 && words[3] == 13);
    CUDA_KERNEL_NODE_PARAMS told;
    OK(cuGraphKernelNodeGetParams(first, &told));
    EXPECT(told.gridDimX == 1 && told.blockDimX == 4 && *(int*)told.kernelParams[1] == 3);
    packed.value = 100;
    OK(cuGraphExecKernelNodeSetParams(exec, second, &params));
    OK(cuGraphLaunch(exec, nullptr));
    OK(cuMemcpyDtoH(words, memory, sizeof words));
    EXPECT(words[0] == 116 && words[3] == 116);
    CUkernelNodeAttrValue attribute, found;
    memset(&attribute, 0, sizeof attribute);
    attribute.priority = -2;
    OK(cuGraphKernelNodeSetAttribute(first, CU_KERNEL_NODE_ATTRIBUTE_PRIORITY, &attribute));
    OK(cuGraphKernelNodeCopyAttributes(second, first));
    OK(cuGraphKernelNodeGetAttribute(second, CU_KERNEL_NODE_ATTRIBUTE_PRIORITY, &found));
    EXPECT(found.priority == -2);
    params.kernelParams = list;
    EXPECT(cuGraphAddKernelNode(&second, graph, nullptr, 0, &params) == CUDA_ERROR_INVALID_VALUE);
    params.extra = nullptr;
    params.blockDimX = 5000;
    EXPECT(cuGraphAddKernelNode(&second, graph, nullptr, 0, &params) == CUDA_ERROR_INVALID_VALUE);
    EXPECT(cuGraphAddKernelNode(&second, graph, nullptr, 0, nullptr) == CUDA_ERROR_INVALID_VALUE);
    params.blockDimX = 4;
    params.ctx = (CUcontext)0x77;
    if (on_farlane()) EXPECT(cuGraphAddKernelNode(&second, graph, nullptr, 0, &params) == CUDA_ERROR_INVALID_CONTEXT);
    printf("PASS\n");
    return 0;
}
