// Graphs that allocate: captured from stream-ordered calls, launched again and again, with what the device says of their memory.
#include "../driver.h"

static cuuint64_t ask(CUdevice device, CUgraphMem_attribute which) {
    cuuint64_t value = ~0ull;
    OK(cuDeviceGetGraphMemAttribute(device, which, &value));
    return value;
}

int main() {
    CUdevice device = begin();
    CUmodule module;
    CUfunction fill;
    CUstream stream;
    CUdeviceptr result;
    const int count = 2048;
    const size_t bytes = count * sizeof(int);
    OK(cuModuleLoadData(&module, PTX_HEADER PTX_FILL));
    OK(cuModuleGetFunction(&fill, module, "fill"));
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cuMemAlloc(&result, bytes));
    EXPECT(ask(device, CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT) == 0);

    // Two temporaries within the graph.
    CUdeviceptr first, second;
    CUgraph graph;
    CUgraphExec exec;
    int value = 500;
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK(cuMemAllocAsync(&first, bytes, stream));
    OK(cuMemAllocAsync(&second, bytes, stream));
    EXPECT(first && second && first != second);
    void* parameters[] = {&first, &value};
    OK(cuLaunchKernel(fill, count / 128, 1, 1, 128, 1, 1, 0, stream, parameters, nullptr));
    OK(cuMemcpyDtoDAsync(second, first, bytes, stream));
    OK(cuMemFreeAsync(first, stream));
    OK(cuMemsetD32Async(second, 9, 16, stream));
    OK(cuMemcpyDtoDAsync(result, second, bytes, stream));
    OK(cuMemFreeAsync(second, stream));
    OK(cuStreamEndCapture(stream, &graph));
    CUgraphNode nodes[16];
    size_t number = 16, allocations = 0, frees = 0;
    OK(cuGraphGetNodes(graph, nodes, &number));
    EXPECT(number == 8);
    for (size_t i = 0; i < number; ++i) {
        CUgraphNodeType type;
        OK(cuGraphNodeGetType(nodes[i], &type));
        if (type == CU_GRAPH_NODE_TYPE_MEM_ALLOC) {
            CUDA_MEM_ALLOC_NODE_PARAMS told;
            OK(cuGraphMemAllocNodeGetParams(nodes[i], &told));
            EXPECT(told.bytesize == bytes && (told.dptr == first || told.dptr == second));
            ++allocations;
        }
        frees += type == CU_GRAPH_NODE_TYPE_MEM_FREE;
    }
    EXPECT(allocations == 2 && frees == 2);
    CUgraph copy;
    FAILS(cuGraphClone(&copy, graph), CUDA_ERROR_NOT_SUPPORTED);
    OK(cuGraphInstantiate(&exec, graph, 0));
    OK(cuGraphUpload(exec, stream));
    long long sum = 0;
    for (int round = 0; round < 5; ++round) {
        int ints[count];
        OK(cuMemsetD8Async(result, 0xFF, bytes, stream));
        OK(cuGraphLaunch(exec, stream));
        OK(cuMemcpyDtoHAsync(ints, result, bytes, stream));
        OK(cuStreamSynchronize(stream));
        for (int i = 0; i < count; ++i) {
            EXPECT(ints[i] == (i < 16 ? 9 : 500 + i));
            sum += ints[i];
        }
    }
    EXPECT(ask(device, CU_GRAPH_MEM_ATTR_USED_MEM_HIGH) >= 2 * bytes);
    EXPECT(ask(device, CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH) >= ask(device, CU_GRAPH_MEM_ATTR_USED_MEM_HIGH));
    cuuint64_t zero = 0;
    OK(cuDeviceSetGraphMemAttribute(device, CU_GRAPH_MEM_ATTR_USED_MEM_HIGH, &zero));
    EXPECT(ask(device, CU_GRAPH_MEM_ATTR_USED_MEM_HIGH) == ask(device, CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT));
    FAILS(cuDeviceSetGraphMemAttribute(device, CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT, &zero), CUDA_ERROR_INVALID_VALUE);
    OK(cuGraphExecDestroy(exec));
    OK(cuGraphDestroy(graph));
    OK(cuDeviceGraphMemTrim(device));
    EXPECT(ask(device, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT) == 0);

    // Memory that outlives the launch: another launch has to wait for its end, but for a graph that frees it itself.
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK(cuMemAllocAsync(&first, bytes, stream));
    value = 70;
    OK(cuLaunchKernel(fill, count / 128, 1, 1, 128, 1, 1, 0, stream, parameters, nullptr));
    OK(cuStreamEndCapture(stream, &graph));
    OK(cuGraphInstantiate(&exec, graph, 0));
    OK(cuGraphLaunch(exec, stream));
    FAILS(cuGraphLaunch(exec, stream), CUDA_ERROR_INVALID_VALUE);
    int last = 0;
    OK(cuMemcpyDtoHAsync(&last, first + bytes - 4, 4, stream));
    OK(cuMemFreeAsync(first, stream));
    OK(cuStreamSynchronize(stream));
    EXPECT(last == 70 + count - 1);
    OK(cuGraphLaunch(exec, stream));
    OK(cuStreamSynchronize(stream));
    OK(cuMemFree(first));
    OK(cuGraphExecDestroy(exec));
    OK(cuGraphInstantiate(&exec, graph, CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH));
    for (int i = 0; i < 3; ++i) OK(cuGraphLaunch(exec, stream));
    OK(cuMemcpyDtoHAsync(&last, first, 4, stream));
    OK(cuStreamSynchronize(stream));
    EXPECT(last == 70);
    OK(cuMemFreeAsync(first, stream));
    OK(cuGraphExecDestroy(exec));
    OK(cuGraphDestroy(graph));
    OK(cuMemFree(result));
    OK(cuStreamDestroy(stream));
    printf("driver_graph_memory %lld\nPASS\n", sum);
    return 0;
}
