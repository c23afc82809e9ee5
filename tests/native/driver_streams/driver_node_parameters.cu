// What nodes of every kind do, asked of each in the same structure, and of memory operations in their own.
#include "../driver.h"

typedef CUresult (*GetParams)(CUgraphNode, CUgraphNodeParams *);

static void CUDA_CB called(void *data) { ++*(int *)data; }

int main() {
    CUdevice device = begin();
    (void)device;
    CUcontext context;
    OK(cuCtxGetCurrent(&context));
    GetParams get = nullptr;
    OK(cuGetProcAddress("cuGraphNodeGetParams", (void **)&get, 13020, CU_GET_PROC_ADDRESS_DEFAULT, nullptr));
    EXPECT(get != nullptr);
    CUdeviceptr memory;
    OK(cuMemAlloc(&memory, 256));
    CUgraph graph, inner, held;
    CUgraphNode node;
    OK(cuGraphCreate(&graph, 0));
    CUgraphNodeParams found;

    // A kernel: its shape, and a copy of its parameters that lives with the node.
    CUmodule module;
    CUfunction fill;
    OK(cuModuleLoadData(&module, PTX_HEADER PTX_FILL));
    OK(cuModuleGetFunction(&fill, module, "fill"));
    unsigned value = 40;
    void *parameters[] = {&memory, &value};
    CUDA_KERNEL_NODE_PARAMS kernel = {};
    kernel.func = fill, kernel.gridDimX = 2, kernel.gridDimY = kernel.gridDimZ = 1;
    kernel.blockDimX = 8, kernel.blockDimY = kernel.blockDimZ = 1, kernel.kernelParams = parameters;
    OK(cuGraphAddKernelNode(&node, graph, nullptr, 0, &kernel));
    value = 0;
    memset(&found, 0xFF, sizeof found);
    OK(get(node, &found));
    EXPECT(found.type == CU_GRAPH_NODE_TYPE_KERNEL && found.kernel.gridDimX == 2 && found.kernel.blockDimX == 8);
    EXPECT(*(CUdeviceptr *)found.kernel.kernelParams[0] == memory && *(unsigned *)found.kernel.kernelParams[1] == 40);
    EXPECT(found.kernel.func == fill && !found.kernel.extra);

    unsigned char host[64];
    CUDA_MEMCPY3D copy = {};
    copy.srcMemoryType = CU_MEMORYTYPE_DEVICE, copy.srcDevice = memory, copy.srcPitch = 16;
    copy.dstMemoryType = CU_MEMORYTYPE_HOST, copy.dstHost = host, copy.dstPitch = 16;
    copy.WidthInBytes = 16, copy.Height = 4, copy.Depth = 1;
    OK(cuGraphAddMemcpyNode(&node, graph, nullptr, 0, &copy, context));
    OK(get(node, &found));
    EXPECT(found.type == CU_GRAPH_NODE_TYPE_MEMCPY && found.memcpy.copyCtx == context);
    EXPECT(found.memcpy.copyParams.srcDevice == memory && found.memcpy.copyParams.dstHost == host);
    EXPECT(found.memcpy.copyParams.WidthInBytes == 16 && found.memcpy.copyParams.Height == 4);

    CUDA_MEMSET_NODE_PARAMS set = {memory, 64, 9, 2, 8, 3};
    OK(cuGraphAddMemsetNode(&node, graph, nullptr, 0, &set, context));
    OK(get(node, &found));
    EXPECT(found.type == CU_GRAPH_NODE_TYPE_MEMSET && found.memset.dst == memory && found.memset.pitch == 64);
    EXPECT(found.memset.value == 9 && found.memset.elementSize == 2 && found.memset.width == 8 && found.memset.height == 3);
    EXPECT(found.memset.ctx == context);

    int calls = 0;
    CUDA_HOST_NODE_PARAMS function = {called, &calls};
    OK(cuGraphAddHostNode(&node, graph, nullptr, 0, &function));
    OK(get(node, &found));
    EXPECT(found.type == CU_GRAPH_NODE_TYPE_HOST && found.host.fn == called && found.host.userData == &calls);

    OK(cuGraphCreate(&inner, 0));
    OK(cuGraphAddEmptyNode(&node, inner, nullptr, 0));
    OK(get(node, &found));
    EXPECT(found.type == CU_GRAPH_NODE_TYPE_EMPTY);
    OK(cuGraphAddChildGraphNode(&node, graph, nullptr, 0, inner));
    OK(cuGraphChildGraphNodeGetGraph(node, &held));
    OK(get(node, &found));
    EXPECT(found.type == CU_GRAPH_NODE_TYPE_GRAPH && found.graph.graph == held && held != inner);

    CUevent event;
    OK(cuEventCreate(&event, 0));
    OK(cuGraphAddEventRecordNode(&node, graph, nullptr, 0, event));
    OK(get(node, &found));
    EXPECT(found.type == CU_GRAPH_NODE_TYPE_EVENT_RECORD && found.eventRecord.event == event);
    OK(cuGraphAddEventWaitNode(&node, graph, nullptr, 0, event));
    OK(get(node, &found));
    EXPECT(found.type == CU_GRAPH_NODE_TYPE_WAIT_EVENT && found.eventWait.event == event);

    CUDA_MEM_ALLOC_NODE_PARAMS allocation = {};
    allocation.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    allocation.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    allocation.bytesize = 1000;
    CUgraphNode allocated;
    OK(cuGraphAddMemAllocNode(&allocated, graph, nullptr, 0, &allocation));
    OK(get(allocated, &found));
    EXPECT(found.type == CU_GRAPH_NODE_TYPE_MEM_ALLOC && found.alloc.bytesize == 1000 && found.alloc.dptr == allocation.dptr);
    OK(cuGraphAddMemFreeNode(&node, graph, &allocated, 1, allocation.dptr));
    OK(get(node, &found));
    EXPECT(found.type == CU_GRAPH_NODE_TYPE_MEM_FREE && found.free.dptr == allocation.dptr);

    // Memory operations: the list is the node's.
    CUstreamBatchMemOpParams batch[3];
    memset(batch, 0, sizeof batch);
    batch[0].operation = CU_STREAM_MEM_OP_WRITE_VALUE_64, batch[0].writeValue.address = memory + 8;
    batch[0].writeValue.value64 = 0x123456789Aull;
    batch[1].operation = CU_STREAM_MEM_OP_WAIT_VALUE_32, batch[1].waitValue.address = memory + 8;
    batch[1].waitValue.value = 0x3456789Au, batch[1].waitValue.flags = CU_STREAM_WAIT_VALUE_EQ;
    batch[2].operation = CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES;
    CUDA_BATCH_MEM_OP_NODE_PARAMS operations = {context, 3, batch, 0}, again = {};
    OK(cuGraphAddBatchMemOpNode(&node, graph, nullptr, 0, &operations));
    memset(batch, 0, sizeof batch);
    OK(cuGraphBatchMemOpNodeGetParams(node, &again));
    EXPECT(again.count == 3 && again.paramArray != batch && again.ctx == context && again.flags == 0);
    EXPECT(again.paramArray[0].operation == CU_STREAM_MEM_OP_WRITE_VALUE_64);
    EXPECT(again.paramArray[0].writeValue.address == memory + 8 && again.paramArray[0].writeValue.value64 == 0x123456789Aull);
    EXPECT(again.paramArray[1].operation == CU_STREAM_MEM_OP_WAIT_VALUE_32 && again.paramArray[1].waitValue.value == 0x3456789Au);
    EXPECT(again.paramArray[1].waitValue.flags == CU_STREAM_WAIT_VALUE_EQ);
    EXPECT(again.paramArray[2].operation == CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES);
    OK(get(node, &found));
    EXPECT(found.type == CU_GRAPH_NODE_TYPE_BATCH_MEM_OP && found.memOp.count == 3);
    EXPECT(found.memOp.paramArray == again.paramArray);
    // What was told makes the same node anew.
    CUgraph other;
    CUgraphExec exec;
    unsigned long long word = 0;
    OK(cuGraphCreate(&other, 0));
    OK(cuGraphAddBatchMemOpNode(&node, other, nullptr, 0, &again));
    OK(cuGraphInstantiate(&exec, other, 0));
    OK(cuGraphLaunch(exec, nullptr));
    OK(cuMemcpyDtoH(&word, memory + 8, sizeof word));
    EXPECT(word == 0x123456789Aull);

    CUgraphConditionalHandle handle;
    OK(cuGraphConditionalHandleCreate(&handle, other, context, 0, CU_GRAPH_COND_ASSIGN_DEFAULT));
    CUgraphNodeParams condition;
    memset(&condition, 0, sizeof condition);
    condition.type = CU_GRAPH_NODE_TYPE_CONDITIONAL, condition.conditional.handle = handle;
    condition.conditional.type = CU_GRAPH_COND_TYPE_WHILE, condition.conditional.size = 1, condition.conditional.ctx = context;
#if CUDA_VERSION >= 13000
    OK(cuGraphAddNode(&node, other, nullptr, nullptr, 0, &condition));
#else
    OK(cuGraphAddNode(&node, other, nullptr, 0, &condition));
#endif
    OK(get(node, &found));
    EXPECT(found.type == CU_GRAPH_NODE_TYPE_CONDITIONAL && found.conditional.handle == handle && found.conditional.size == 1);
    EXPECT(found.conditional.type == CU_GRAPH_COND_TYPE_WHILE && found.conditional.ctx == context);
    EXPECT(found.conditional.phGraph_out[0] == condition.conditional.phGraph_out[0]);

    FAILS(get(node, nullptr), CUDA_ERROR_INVALID_VALUE);
    FAILS(cuGraphBatchMemOpNodeGetParams(node, &again), CUDA_ERROR_INVALID_VALUE);
    OK(cuGraphDestroy(graph));
    OK(cuGraphDestroy(other));
    printf("PASS\n");
    return 0;
}
