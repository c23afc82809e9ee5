// What captures forbid: the three modes, in this thread and in others, forks to other streams and their joins, dependencies set by hand.
#include "../driver.h"

#include <thread>

static CUcontext context;
static CUstream stream, other;
static CUdeviceptr memory;

static void ended(CUresult expected) {
    CUgraph graph = nullptr;
    FAILS(cuStreamEndCapture(stream, &graph), expected);
    EXPECT((expected == CUDA_SUCCESS) == (graph != nullptr));
    if (graph) OK(cuGraphDestroy(graph));
}

// cuMemAlloc is unsafe while streams are captured: whether a thread may call it depends on the modes of both.
static CUresult allocate() {
    CUdeviceptr made;
    CUresult result = cuMemAlloc(&made, 64);
    if (result == CUDA_SUCCESS) OK(cuMemFree(made));
    return result;
}

static CUresult elsewhere(CUstreamCaptureMode mode) {
    CUresult result;
    std::thread thread([&] {
        OK(cuCtxSetCurrent(context));
        CUstreamCaptureMode mine = mode;
        OK(cuThreadExchangeStreamCaptureMode(&mine));
        EXPECT(mine == CU_STREAM_CAPTURE_MODE_GLOBAL);  // how each thread begins
        result = allocate();
    });
    thread.join();
    return result;
}

static void modes() {
    const CUstreamCaptureMode all[] = {CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, CU_STREAM_CAPTURE_MODE_RELAXED};
    for (CUstreamCaptureMode mode : all) {
        OK(cuStreamBeginCapture(stream, mode));
        OK(cuMemsetD32Async(memory, 1, 4, stream));
        const bool allowed = mode == CU_STREAM_CAPTURE_MODE_RELAXED;
        EXPECT(allocate() == (allowed ? CUDA_SUCCESS : CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED));
        // What was refused ends the capture.
        ended(allowed ? CUDA_SUCCESS : CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
        for (CUstreamCaptureMode theirs : all) {
            OK(cuStreamBeginCapture(stream, mode));
            OK(cuMemsetD32Async(memory, 1, 4, stream));
            const bool refused = mode == CU_STREAM_CAPTURE_MODE_GLOBAL && theirs == CU_STREAM_CAPTURE_MODE_GLOBAL;
            EXPECT(elsewhere(theirs) == (refused ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_SUCCESS));
            ended(refused ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : CUDA_SUCCESS);
        }
    }
    // A capture that is not relaxed ends in the thread in which it began. Another one that tries ends it for good.
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    std::thread thread([] {
        CUgraph graph;
        OK(cuCtxSetCurrent(context));
        FAILS(cuStreamEndCapture(stream, &graph), CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
    });
    thread.join();
    ended(CUDA_ERROR_ILLEGAL_STATE);
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    std::thread last([] {
        OK(cuCtxSetCurrent(context));
        ended(CUDA_SUCCESS);
    });
    last.join();
}

static void forks() {
    CUevent fork, join;
    CUgraph graph;
    CUgraphExec exec;
    CUstreamCaptureStatus status;
    size_t count = 0;
    unsigned words[8];
    OK(cuEventCreate(&fork, CU_EVENT_DISABLE_TIMING));
    OK(cuEventCreate(&join, CU_EVENT_DISABLE_TIMING));
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK(cuMemsetD32Async(memory, 1, 8, stream));
    OK(cuEventRecord(fork, stream));
    OK(cuStreamWaitEvent(other, fork, 0));
    OK(cuStreamIsCapturing(other, &status));
    EXPECT(status == CU_STREAM_CAPTURE_STATUS_ACTIVE);
    OK(cuMemsetD32Async(memory + 16, 2, 4, other));
    OK(cuMemsetD32Async(memory, 3, 2, stream));
    OK(cuEventRecord(join, other));
    // An event of a capture is for streams only.
    FAILS(cuEventQuery(join), CUDA_ERROR_CAPTURED_EVENT);
    FAILS(cuEventSynchronize(join), CUDA_ERROR_CAPTURED_EVENT);
    OK(cuStreamWaitEvent(stream, join, 0));
    OK(cuMemsetD32Async(memory + 8, 4, 4, stream));
    OK(cuStreamEndCapture(stream, &graph));
    OK(cuGraphGetNodes(graph, nullptr, &count));
    EXPECT(count == 4);
#if CUDA_VERSION >= 13000
    OK(cuGraphGetEdges(graph, nullptr, nullptr, nullptr, &count));
#else
    OK(cuGraphGetEdges(graph, nullptr, nullptr, &count));
#endif
    EXPECT(count == 4);  // one forks to two, two join in one
    OK(cuGraphInstantiate(&exec, graph, 0));
    OK(cuGraphLaunch(exec, other));
    OK(cuStreamSynchronize(other));
    OK(cuMemcpyDtoH(words, memory, sizeof words));
    EXPECT(words[0] == 3 && words[1] == 3 && words[2] == 4 && words[5] == 4 && words[6] == 2 && words[7] == 2);
    OK(cuGraphExecDestroy(exec));
    OK(cuGraphDestroy(graph));

    // A fork that was not joined spoils the capture; a stream that only joined in may not end it.
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK(cuEventRecord(fork, stream));
    OK(cuStreamWaitEvent(other, fork, 0));
    OK(cuMemsetD32Async(memory, 5, 1, other));
    ended(CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
    OK(cuStreamIsCapturing(other, &status));
    EXPECT(status == CU_STREAM_CAPTURE_STATUS_NONE);
    OK(cuEventDestroy(fork));
    OK(cuEventDestroy(join));
}

int main() {
    begin();
    OK(cuCtxGetCurrent(&context));
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    OK(cuMemAlloc(&memory, 64));
    modes();
    forks();
    OK(cuMemFree(memory));
    OK(cuStreamDestroy(stream));
    OK(cuStreamDestroy(other));
    OK(cuCtxSynchronize());
    printf("PASS\n");
    return 0;
}
