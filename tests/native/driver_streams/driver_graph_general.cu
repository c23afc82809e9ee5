// cuGraphAddNode and its kin with the union of all parameters, and graphs that allocate memory.
#include "../driver.h"

CUresult ADD(CUgraphNode* node, CUgraph graph, const CUgraphNode* from, size_t count, CUgraphNodeParams* params) {
#if CUDA_VERSION >= 13000
    return cuGraphAddNode(node, graph, from, nullptr, count, params);
#else
    return cuGraphAddNode(node, graph, from, count, params);
#endif
}

int main() {
    begin();
    CUcontext context;
    OK(cuCtxGetCurrent(&context));
    CUstream stream;
    CUdeviceptr memory;
    CUgraph graph;
    CUgraphNode set, copy, allocate, release, event_node;
    CUgraphExec exec;
    CUevent event;
    unsigned words[4];
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cuEventCreate(&event, 0));
    OK(cuMemAlloc(&memory, sizeof words));
    OK(cuGraphCreate(&graph, 0));
    CUgraphNodeParams params;
    memset(&params, 0, sizeof params);
    params.type = CU_GRAPH_NODE_TYPE_MEM_ALLOC;
    params.alloc.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    params.alloc.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    params.alloc.bytesize = sizeof words;
    OK(ADD(&allocate, graph, nullptr, 0, &params));
    CUdeviceptr inside = params.alloc.dptr;
    EXPECT(inside);
    memset(&params, 0, sizeof params);
    params.type = CU_GRAPH_NODE_TYPE_MEMSET;
    params.memset.dst = inside;
    params.memset.value = 3;
    params.memset.elementSize = 4;
    params.memset.width = 4;
    params.memset.height = 1;
    OK(ADD(&set, graph, &allocate, 1, &params));
    memset(&params, 0, sizeof params);
    params.type = CU_GRAPH_NODE_TYPE_MEMCPY;
    params.memcpy.copyCtx = context;
    params.memcpy.copyParams.srcMemoryType = CU_MEMORYTYPE_DEVICE;
    params.memcpy.copyParams.srcDevice = inside;
    params.memcpy.copyParams.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    params.memcpy.copyParams.dstDevice = memory;
    params.memcpy.copyParams.WidthInBytes = sizeof words;
    params.memcpy.copyParams.Height = params.memcpy.copyParams.Depth = 1;
    OK(ADD(&copy, graph, &set, 1, &params));
    memset(&params, 0, sizeof params);
    params.type = CU_GRAPH_NODE_TYPE_MEM_FREE;
    params.free.dptr = inside;
    OK(ADD(&release, graph, &copy, 1, &params));
    memset(&params, 0, sizeof params);
    params.type = CU_GRAPH_NODE_TYPE_EVENT_RECORD;
    params.eventRecord.event = event;
    OK(ADD(&event_node, graph, &release, 1, &params));
    OK(cuGraphInstantiate(&exec, graph, 0));
    OK(cuGraphLaunch(exec, stream));
    OK(cuStreamSynchronize(stream));
    OK(cuEventQuery(event));
    OK(cuMemcpyDtoH(words, memory, sizeof words));
    EXPECT(words[0] == 3 && words[3] == 3);
    memset(&params, 0, sizeof params);
    params.type = CU_GRAPH_NODE_TYPE_MEMSET;
    params.memset.dst = inside;
    params.memset.value = 8;
    params.memset.elementSize = 4;
    params.memset.width = 4;
    params.memset.height = 1;
    OK(cuGraphExecNodeSetParams(exec, set, &params));
    OK(cuGraphLaunch(exec, stream));
    OK(cuStreamSynchronize(stream));
    OK(cuMemcpyDtoH(words, memory, sizeof words));
    EXPECT(words[0] == 8 && words[3] == 8);
    CUDA_MEM_ALLOC_NODE_PARAMS told;
    CUdeviceptr freed = 0;
    OK(cuGraphMemAllocNodeGetParams(allocate, &told));
    EXPECT(told.bytesize == sizeof words && told.dptr == inside);
    OK(cuGraphMemFreeNodeGetParams(release, &freed));
    EXPECT(freed == inside);
    EXPECT(cuGraphExecNodeSetParams(exec, copy, &params) == CUDA_ERROR_INVALID_VALUE);
    EXPECT(ADD(&set, graph, nullptr, 0, nullptr) == CUDA_ERROR_INVALID_VALUE);
    params.type = CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT;
    EXPECT(ADD(&set, graph, nullptr, 0, &params) == CUDA_ERROR_NOT_SUPPORTED);
    printf("PASS\n");
    return 0;
}
