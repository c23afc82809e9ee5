// Graphs of sets, copies, host functions, events and graphs inside, made node by node by the driver API.
#include "../driver.h"

void CUDA_CB count(void* data) { ++*(int*)data; }

int main() {
    begin();
    CUcontext context;
    OK(cuCtxGetCurrent(&context));
    CUstream stream;
    CUdeviceptr memory;
    CUevent event, other;
    int calls = 0;
    unsigned host[8] = {1, 2, 3, 4, 5, 6, 7, 8}, back[8] = {0};
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cuEventCreate(&event, 0));
    OK(cuMemAlloc(&memory, sizeof host));
    CUgraph graph, inner, found;
    CUgraphNode set, in, out, call, record, wait, child, none, list[9];
    OK(cuGraphCreate(&graph, 0));
    OK(cuGraphCreate(&inner, 0));
    CUDA_MEMSET_NODE_PARAMS fill = {memory + 16, 0, 9, 4, 4, 1}, told;
    OK(cuGraphAddMemsetNode(&set, inner, nullptr, 0, &fill, context));
    CUDA_MEMCPY3D up;
    memset(&up, 0, sizeof up);
    up.srcMemoryType = CU_MEMORYTYPE_HOST;
    up.srcHost = host;
    up.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    up.dstDevice = memory;
    up.WidthInBytes = sizeof host;
    up.Height = up.Depth = 1;
    OK(cuGraphAddMemcpyNode(&in, graph, nullptr, 0, &up, context));
    OK(cuGraphAddChildGraphNode(&child, graph, &in, 1, inner));
    OK(cuGraphAddEventRecordNode(&record, graph, &child, 1, event));
    OK(cuGraphAddEventWaitNode(&wait, graph, &record, 1, event));
    CUDA_MEMCPY3D down = up;
    down.srcMemoryType = CU_MEMORYTYPE_DEVICE;
    down.srcDevice = memory;
    down.dstMemoryType = CU_MEMORYTYPE_HOST;
    down.dstHost = back;
    OK(cuGraphAddMemcpyNode(&out, graph, &wait, 1, &down, nullptr));
    CUDA_HOST_NODE_PARAMS function = {count, &calls};
    OK(cuGraphAddHostNode(&call, graph, &out, 1, &function));
    OK(cuGraphAddEmptyNode(&none, graph, &call, 1));
    size_t number = 9;
    OK(cuGraphGetNodes(graph, list, &number));
    EXPECT(number == 7 && list[0] == in && list[6] == none);
    number = 9;
    OK(cuGraphGetRootNodes(graph, list, &number));
    EXPECT(number == 1 && list[0] == in);
    OK(cuGraphEventRecordNodeGetEvent(record, &other));
    EXPECT(other == event);
    OK(cuGraphMemsetNodeGetParams(set, &told));
    EXPECT(told.dst == fill.dst && told.value == 9 && told.width == 4);
    CUDA_MEMCPY3D copied;
    OK(cuGraphMemcpyNodeGetParams(in, &copied));
    EXPECT(copied.srcHost == host && copied.dstDevice == memory && copied.WidthInBytes == sizeof host);
    EXPECT(copied.srcMemoryType == CU_MEMORYTYPE_HOST && copied.dstMemoryType == CU_MEMORYTYPE_DEVICE);
    OK(cuGraphChildGraphNodeGetGraph(child, &found));
    EXPECT(found != inner);
    CUgraphExec exec;
    OK(cuGraphInstantiate(&exec, graph, 0));
    for (int i = 0; i < 3; i++) OK(cuGraphLaunch(exec, stream));
    OK(cuStreamSynchronize(stream));
    EXPECT(calls == 3 && back[0] == 1 && back[3] == 4 && back[4] == 9 && back[7] == 9);

    // Parameters of an executable graph change without the graph.
    up.WidthInBytes = 4;
    host[0] = 42;
    OK(cuGraphExecMemcpyNodeSetParams(exec, in, &up, context));
    OK(cuGraphLaunch(exec, stream));
    OK(cuStreamSynchronize(stream));
    EXPECT(back[0] == 42 && back[1] == 2 && calls == 4);
    OK(cuGraphMemcpyNodeGetParams(in, &copied));
    EXPECT(copied.WidthInBytes == sizeof host);
    unsigned enabled = 7;
    OK(cuGraphNodeSetEnabled(exec, in, 0));
    OK(cuGraphNodeGetEnabled(exec, in, &enabled));
    EXPECT(!enabled);

    EXPECT(cuGraphAddMemsetNode(&set, inner, nullptr, 0, nullptr, context) == CUDA_ERROR_INVALID_VALUE);
    if (on_farlane()) EXPECT(cuGraphAddMemsetNode(&set, inner, nullptr, 0, &fill, (CUcontext)0x77) == CUDA_ERROR_INVALID_CONTEXT);
    EXPECT(cuGraphAddMemcpyNode(&set, inner, nullptr, 2, &up, context) == CUDA_ERROR_INVALID_VALUE);
    up.srcMemoryType = (CUmemorytype)9;
    EXPECT(cuGraphAddMemcpyNode(&set, inner, nullptr, 0, &up, context) == CUDA_ERROR_INVALID_VALUE);
    EXPECT(cuGraphAddEmptyNode(nullptr, graph, nullptr, 0) == CUDA_ERROR_INVALID_VALUE);
    EXPECT(cuGraphMemsetNodeGetParams(in, &told) == CUDA_ERROR_INVALID_VALUE);
    OK(cuGraphExecDestroy(exec));
    EXPECT(cuGraphLaunch(exec, stream) == CUDA_ERROR_INVALID_VALUE);
    OK(cuGraphDestroyNode(none));
    if (on_farlane()) EXPECT(cuGraphDestroyNode(none) == CUDA_ERROR_INVALID_VALUE);
    OK(cuGraphDestroy(graph));
    EXPECT(cuGraphDestroy(graph) == CUDA_ERROR_INVALID_VALUE);
    EXPECT(cuGraphInstantiate(&exec, graph, 0) == CUDA_ERROR_INVALID_VALUE);
    printf("PASS\n");
    return 0;
}
