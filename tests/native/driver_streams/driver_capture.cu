// Capture of streams by the driver API: into new and given graphs, queries, dependencies, what is forbidden meanwhile.
#include "../driver.h"

int main() {
    begin();
    CUcontext context;
    OK(cuCtxGetCurrent(&context));
    CUstream stream;
    CUdeviceptr memory;
    CUgraph graph, found, given;
    CUgraphExec exec;
    CUstreamCaptureStatus status;
    cuuint64_t id = 0;
    const CUgraphNode* tips = nullptr;
    size_t count = 9;
    unsigned words[4];
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cuMemAlloc(&memory, sizeof words));
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    EXPECT(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED) == CUDA_ERROR_ILLEGAL_STATE);
    OK(cuMemsetD32Async(memory, 1, 4, stream));
    OK(cuMemsetD32Async(memory, 2, 2, stream));
    OK(cuStreamIsCapturing(stream, &status));
    EXPECT(status == CU_STREAM_CAPTURE_STATUS_ACTIVE);
#if CUDA_VERSION >= 13000
    OK(cuStreamGetCaptureInfo(stream, &status, &id, &found, &tips, nullptr, &count));
#else
    OK(cuStreamGetCaptureInfo(stream, &status, &id, &found, &tips, &count));
#endif
    EXPECT(id != 0 && count == 1 && tips[0]);
    OK(cuStreamEndCapture(stream, &graph));
    EXPECT(graph == found);
    OK(cuStreamIsCapturing(stream, &status));
    EXPECT(status == CU_STREAM_CAPTURE_STATUS_NONE);
    EXPECT(cuStreamEndCapture(stream, &found) == CUDA_ERROR_ILLEGAL_STATE && !found);
    OK(cuGraphGetNodes(graph, nullptr, &count));
    EXPECT(count == 2);
    OK(cuGraphInstantiate(&exec, graph, 0));
    OK(cuGraphLaunch(exec, stream));
    OK(cuStreamSynchronize(stream));
    OK(cuMemcpyDtoH(words, memory, sizeof words));
    EXPECT(words[0] == 2 && words[1] == 2 && words[2] == 1 && words[3] == 1);

    // Behind a node of a graph that is there already.
    CUgraphNode first, nodes[2];
    CUDA_MEMSET_NODE_PARAMS set = {memory, 0, 8, 4, 4, 1};
    OK(cuGraphCreate(&given, 0));
    OK(cuGraphAddMemsetNode(&first, given, nullptr, 0, &set, context));
    OK(cuStreamBeginCaptureToGraph(stream, given, &first, nullptr, 1, CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK(cuMemsetD32Async(memory, 9, 1, stream));
    OK(cuStreamEndCapture(stream, &found));
    EXPECT(found == given);
    count = 1;
#if CUDA_VERSION >= 13000
    OK(cuGraphGetEdges(given, nodes, nodes + 1, nullptr, &count));
#else
    OK(cuGraphGetEdges(given, nodes, nodes + 1, &count));
#endif
    EXPECT(count == 1 && nodes[0] == first && nodes[1] != first);

    // What waits for the stream ends the capture's usefulness.
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    EXPECT(cuStreamSynchronize(stream) == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    OK(cuStreamIsCapturing(stream, &status));
    EXPECT(status == CU_STREAM_CAPTURE_STATUS_INVALIDATED);
    EXPECT(cuMemsetD32Async(memory, 3, 1, stream) == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    EXPECT(cuStreamEndCapture(stream, &found) == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED && !found);
    OK(cuStreamSynchronize(stream));
    EXPECT(cuStreamBeginCapture(nullptr, CU_STREAM_CAPTURE_MODE_GLOBAL) == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    EXPECT(cuStreamBeginCapture(stream, (CUstreamCaptureMode)9) == CUDA_ERROR_INVALID_VALUE);
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    OK(cuThreadExchangeStreamCaptureMode(&mode));
    EXPECT(mode == CU_STREAM_CAPTURE_MODE_GLOBAL);
    if (on_farlane()) EXPECT(cuThreadExchangeStreamCaptureMode(nullptr) == CUDA_ERROR_INVALID_VALUE);
    EXPECT(cuStreamIsCapturing(stream, nullptr) == CUDA_ERROR_INVALID_VALUE);
    printf("PASS\n");
    return 0;
}
