// Updates, clones, dependencies, flags and user objects of graphs by the driver API.
#include "../driver.h"

void CUDA_CB end(void* data) { ++*(int*)data; }

int main() {
    begin();
    CUcontext context;
    OK(cuCtxGetCurrent(&context));
    CUstream stream;
    CUdeviceptr memory;
    CUgraph graph, changed, clone;
    CUgraphNode a, b, c, found;
    CUgraphExec exec;
    unsigned words[2];
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cuMemAlloc(&memory, sizeof words));
    CUDA_MEMSET_NODE_PARAMS one = {memory, 0, 1, 4, 2, 1}, two = {memory, 0, 2, 4, 1, 1};
    OK(cuGraphCreate(&graph, 0));
    OK(cuGraphAddMemsetNode(&a, graph, nullptr, 0, &one, context));
    OK(cuGraphAddMemsetNode(&b, graph, &a, 1, &two, context));
    OK(cuGraphInstantiateWithFlags(&exec, graph, CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH));
    cuuint64_t flags = 0;
    OK(cuGraphExecGetFlags(exec, &flags));
    EXPECT(flags == CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH);
    OK(cuGraphClone(&clone, graph));
    OK(cuGraphNodeFindInClone(&found, b, clone));
    two.value = 5;
    OK(cuGraphMemsetNodeSetParams(found, &two));
    CUgraphExecUpdateResultInfo info;
    OK(cuGraphExecUpdate(exec, clone, &info));
    EXPECT(info.result == CU_GRAPH_EXEC_UPDATE_SUCCESS && !info.errorNode);
    OK(cuGraphUpload(exec, stream));
    OK(cuGraphLaunch(exec, stream));
    OK(cuStreamSynchronize(stream));
    OK(cuMemcpyDtoH(words, memory, sizeof words));
    EXPECT(words[0] == 5 && words[1] == 1);
    OK(cuGraphCreate(&changed, 0));
    OK(cuGraphAddMemsetNode(&c, changed, nullptr, 0, &one, context));
    EXPECT(cuGraphExecUpdate(exec, changed, &info) == CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
    EXPECT(info.result == CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED);
    CUgraphExec other;
    CUDA_GRAPH_INSTANTIATE_PARAMS params;
    memset(&params, 0, sizeof params);
    OK(cuGraphInstantiateWithParams(&other, graph, &params));
    EXPECT(params.result_out == CUDA_GRAPH_INSTANTIATE_SUCCESS && other != exec);

    // A cycle cannot be instantiated.
#if CUDA_VERSION >= 13000
    OK(cuGraphAddDependencies(graph, &b, &a, nullptr, 1));
#else
    OK(cuGraphAddDependencies(graph, &b, &a, 1));
#endif
    EXPECT(cuGraphInstantiate(&other, graph, 0) == CUDA_ERROR_INVALID_VALUE);
#if CUDA_VERSION >= 13000
    OK(cuGraphRemoveDependencies(graph, &b, &a, nullptr, 1));
#else
    OK(cuGraphRemoveDependencies(graph, &b, &a, 1));
#endif
    OK(cuGraphInstantiate(&other, graph, 0));
    int ended = 0;
    CUuserObject object;
    OK(cuUserObjectCreate(&object, &ended, end, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
    OK(cuGraphRetainUserObject(changed, object, 1, CU_GRAPH_USER_OBJECT_MOVE));
    EXPECT(!ended);
    OK(cuGraphDestroy(changed));
    EXPECT(ended == 1);
    if (on_farlane()) EXPECT(cuUserObjectRelease(object, 1) == CUDA_ERROR_INVALID_VALUE);
    EXPECT(cuGraphClone(nullptr, graph) == CUDA_ERROR_INVALID_VALUE);
    EXPECT(cuGraphCreate(&graph, 1) == CUDA_ERROR_INVALID_VALUE);
    printf("PASS\n");
    return 0;
}
