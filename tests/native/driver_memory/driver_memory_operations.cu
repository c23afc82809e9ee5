// Writes of words and waits for them in streams, alone, in batches, captured and as nodes of graphs.
#include "../driver.h"

int main() {
    begin();
    CUcontext context;
    OK(cuCtxGetCurrent(&context));
    CUstream one, two;
    CUdeviceptr memory;
    OK(cuStreamCreate(&one, CU_STREAM_NON_BLOCKING));
    OK(cuStreamCreate(&two, CU_STREAM_NON_BLOCKING));
    OK(cuMemAlloc(&memory, 64));
    OK(cuMemsetD8(memory, 0, 64));
    OK(cuCtxSynchronize());
    OK(cuStreamWriteValue32(one, memory, 5, CU_STREAM_WRITE_VALUE_DEFAULT));
    OK(cuStreamWriteValue64(one, memory + 8, 0x1234567890ull, CU_STREAM_WRITE_VALUE_DEFAULT));
    OK(cuStreamWaitValue32(two, memory, 5, CU_STREAM_WAIT_VALUE_EQ));
    OK(cuStreamWaitValue32(two, memory, 4, CU_STREAM_WAIT_VALUE_GEQ));
    OK(cuStreamWaitValue32(two, memory, 1, CU_STREAM_WAIT_VALUE_AND));
    OK(cuStreamWaitValue32(two, memory, 1, CU_STREAM_WAIT_VALUE_NOR));
    OK(cuStreamWaitValue64(two, memory + 8, 0x1234567890ull, CU_STREAM_WAIT_VALUE_EQ));
    CUstreamBatchMemOpParams batch[3];
    memset(batch, 0, sizeof batch);
    batch[0].operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
    batch[0].writeValue.address = memory + 16;
    batch[0].writeValue.value = 77;
    batch[1].operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
    batch[1].waitValue.address = memory + 16;
    batch[1].waitValue.value = 77;
    batch[1].waitValue.flags = CU_STREAM_WAIT_VALUE_EQ;
    batch[2].operation = CU_STREAM_MEM_OP_WRITE_VALUE_64;
    batch[2].writeValue.address = memory + 24;
    batch[2].writeValue.value64 = 0xABCDEF0123ull;
    OK(cuStreamBatchMemOp(two, 3, batch, 0));
    OK(cuCtxSynchronize());
    unsigned words[8];
    OK(cuMemcpyDtoH(words, memory, sizeof words));
    EXPECT(words[0] == 5 && words[2] == 0x34567890u && words[3] == 0x12 && words[4] == 77 && words[7] == 0xAB);

    // The same as a node, and captured.
    CUgraph graph, captured;
    CUgraphNode node;
    CUgraphNodeType type;
    CUgraphExec exec;
    CUDA_BATCH_MEM_OP_NODE_PARAMS params = {context, 3, batch, 0};
    OK(cuMemsetD8(memory, 0, 64));
    OK(cuCtxSynchronize());
    OK(cuGraphCreate(&graph, 0));
    OK(cuGraphAddBatchMemOpNode(&node, graph, nullptr, 0, &params));
    OK(cuGraphNodeGetType(node, &type));
    EXPECT(type == CU_GRAPH_NODE_TYPE_BATCH_MEM_OP);
    OK(cuGraphInstantiate(&exec, graph, 0));
    OK(cuGraphLaunch(exec, one));
    OK(cuStreamBeginCapture(two, CU_STREAM_CAPTURE_MODE_RELAXED));
    OK(cuStreamWriteValue32(two, memory, 11, 0));
    OK(cuStreamEndCapture(two, &captured));
    OK(cuStreamSynchronize(one));
    OK(cuMemcpyDtoH(words, memory, sizeof words));
    EXPECT(words[0] == 0 && words[4] == 77 && words[7] == 0xAB);
    OK(cuGraphInstantiate(&exec, captured, 0));
    OK(cuGraphLaunch(exec, two));
    OK(cuStreamSynchronize(two));
    OK(cuMemcpyDtoH(words, memory, sizeof words));
    EXPECT(words[0] == 11);

    EXPECT(cuStreamWriteValue32(one, memory + 2, 0, 0) == CUDA_ERROR_INVALID_VALUE);
    EXPECT(cuStreamWriteValue64(one, memory + 4, 0, 0) == CUDA_ERROR_INVALID_VALUE);
    EXPECT(cuStreamWriteValue32(one, 0, 0, 0) == CUDA_ERROR_INVALID_VALUE);
    EXPECT(cuStreamWriteValue32(one, memory, 0, 8) == CUDA_ERROR_INVALID_VALUE);
    EXPECT(cuStreamWaitValue32(one, memory, 0, 8) == CUDA_ERROR_INVALID_VALUE);
    if (on_farlane()) EXPECT(cuStreamBatchMemOp(one, 1, nullptr, 0) == CUDA_ERROR_INVALID_VALUE);
    EXPECT(cuStreamBatchMemOp(one, 3, batch, 1) == CUDA_ERROR_INVALID_VALUE);
    OK(cuStreamSynchronize(one));
    printf("PASS\n");
    return 0;
}
