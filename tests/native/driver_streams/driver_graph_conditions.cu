// Handles of conditions, conditional nodes and graphs in them, by the driver API; numbers of graphs and nodes.
#include "../driver.h"

int main() {
    begin();
    CUcontext context;
    OK(cuCtxGetCurrent(&context));
    CUdeviceptr memory;
    CUgraph graph, found = nullptr;
    CUgraphNode node, set;
    CUgraphExec exec;
    CUgraphConditionalHandle handle;
    unsigned words[2];
    OK(cuMemAlloc(&memory, sizeof words));
    OK(cuMemsetD8(memory, 0, sizeof words));
    OK(cuGraphCreate(&graph, 0));
    OK(cuGraphConditionalHandleCreate(&handle, graph, context, 1, CU_GRAPH_COND_ASSIGN_DEFAULT));
    CUgraphNodeParams params;
    memset(&params, 0, sizeof params);
    params.type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
    params.conditional.handle = handle;
    params.conditional.type = CU_GRAPH_COND_TYPE_IF;
    params.conditional.size = 1;
    params.conditional.ctx = context;
#if CUDA_VERSION >= 13000
    OK(cuGraphAddNode(&node, graph, nullptr, nullptr, 0, &params));
#else
    OK(cuGraphAddNode(&node, graph, nullptr, 0, &params));
#endif
    CUgraph body = params.conditional.phGraph_out[0];
    CUDA_MEMSET_NODE_PARAMS fill = {memory, 0, 6, 4, 2, 1};
    OK(cuGraphAddMemsetNode(&set, body, nullptr, 0, &fill, context));
    OK(cuGraphInstantiate(&exec, graph, 0));
    OK(cuGraphLaunch(exec, nullptr));
    OK(cuMemcpyDtoH(words, memory, sizeof words));
    EXPECT(words[0] == 6 && words[1] == 6);
    EXPECT(cuGraphConditionalHandleCreate(nullptr, graph, context, 0, 0) == CUDA_ERROR_INVALID_VALUE);
    EXPECT(cuGraphConditionalHandleCreate(&handle, graph, context, 0, 8) == CUDA_ERROR_INVALID_VALUE);
    EXPECT(cuGraphConditionalHandleCreate(&handle, graph, (CUcontext)0x77, 0, 0) == CUDA_ERROR_INVALID_CONTEXT);
#if CUDA_VERSION >= 13010
    unsigned one = 0, two = 0;
    unsigned long long tools = 0, others = 0;
    OK(cuGraphNodeGetContainingGraph(set, &found));
    EXPECT(found == body);
    OK(cuGraphNodeGetLocalId(node, &one));
    OK(cuGraphNodeGetLocalId(set, &two));
    EXPECT(one != two);
    OK(cuGraphNodeGetToolsId(node, &tools));
    OK(cuGraphNodeGetToolsId(set, &others));
    EXPECT(tools != others);
    OK(cuGraphGetId(graph, &one));
    OK(cuGraphGetId(body, &two));
    EXPECT(one != two);
    OK(cuGraphExecGetId(exec, &one));
#endif
    EXPECT(!found || found == body);
    printf("PASS\n");
    return 0;
}
