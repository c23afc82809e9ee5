// Captures begun by one API and ended by the other, with work of both in forked streams; graphs changed by one after the other has instantiated them.
#include "../driver.h"
#include <cuda_runtime.h>

__global__ void accumulate(int* data, int value) { data[threadIdx.x] += value * (threadIdx.x + 1); }

static const int COUNT = 32;
static int* data;

static void check(int factor) {
    int ints[COUNT];
    EXPECT(cudaMemcpy(ints, data, sizeof ints, cudaMemcpyDeviceToHost) == cudaSuccess);
    for (int i = 0; i < COUNT; ++i) EXPECT(ints[i] == factor * (i + 1));
}

int main() {
    begin();
    CUmodule module;
    CUfunction fill;
    CUstream ours;
    cudaStream_t theirs;
    cudaEvent_t fork;
    CUevent join;
    int* scratch;
    OK(cuModuleLoadData(&module, PTX_HEADER PTX_FILL));
    OK(cuModuleGetFunction(&fill, module, "fill"));
    OK(cuStreamCreate(&ours, CU_STREAM_NON_BLOCKING));
    EXPECT(cudaStreamCreateWithFlags(&theirs, cudaStreamNonBlocking) == cudaSuccess);
    EXPECT(cudaEventCreateWithFlags(&fork, cudaEventDisableTiming) == cudaSuccess);
    OK(cuEventCreate(&join, CU_EVENT_DISABLE_TIMING));
    EXPECT(cudaMalloc(&data, COUNT * sizeof(int)) == cudaSuccess && cudaMalloc(&scratch, COUNT * sizeof(int)) == cudaSuccess);
    EXPECT(cudaMemset(data, 0, COUNT * sizeof(int)) == cudaSuccess && cudaDeviceSynchronize() == cudaSuccess);

    // Begun by the runtime in the driver's stream, forked to the runtime's stream, joined and ended by the driver.
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t exec;
    CUstreamCaptureStatus status;
    cudaStreamCaptureStatus runtime_status;
    int value = 3;
    void* parameters[] = {&scratch, &value};
    EXPECT(cudaStreamBeginCapture(ours, cudaStreamCaptureModeThreadLocal) == cudaSuccess);
    OK(cuStreamIsCapturing(ours, &status));
    EXPECT(status == CU_STREAM_CAPTURE_STATUS_ACTIVE);
    EXPECT(cudaEventRecord(fork, ours) == cudaSuccess);
    EXPECT(cudaStreamWaitEvent(theirs, fork, 0) == cudaSuccess);
    accumulate<<<1, COUNT, 0, ours>>>(data, 2);
    OK(cuLaunchKernel(fill, 1, 1, 1, COUNT, 1, 1, 0, theirs, parameters, nullptr));
    OK(cuEventRecord(join, theirs));
    OK(cuStreamWaitEvent(ours, join, 0));
    accumulate<<<1, COUNT, 0, ours>>>(data, 5);
    OK(cuStreamEndCapture(ours, &graph));
    EXPECT(cudaStreamIsCapturing(theirs, &runtime_status) == cudaSuccess && runtime_status == cudaStreamCaptureStatusNone);
    size_t count = 0;
    EXPECT(cudaGraphGetNodes(graph, nullptr, &count) == cudaSuccess && count == 3);
    EXPECT(cudaGraphInstantiate(&exec, graph, 0) == cudaSuccess);
    OK(cuGraphLaunch(exec, theirs));
    EXPECT(cudaGraphLaunch(exec, theirs) == cudaSuccess && cudaStreamSynchronize(theirs) == cudaSuccess);
    check(14);
    int ints[COUNT];
    OK(cuMemcpyDtoH(ints, (CUdeviceptr)scratch, sizeof ints));
    for (int i = 0; i < COUNT; ++i) EXPECT(ints[i] == 3 + i);

    // A kernel node's parameters read by the one API and set by the other.
    CUgraphNode nodes[3];
    OK(cuGraphGetNodes(graph, nodes, &count));
    int seen = 0;
    for (CUgraphNode node : nodes) {
        CUDA_KERNEL_NODE_PARAMS known = {};
        OK(cuGraphKernelNodeGetParams(node, &known));
        cudaGraphNodeType type;
        EXPECT(cudaGraphNodeGetType(node, &type) == cudaSuccess && type == cudaGraphNodeTypeKernel);
        if (known.func == fill) {
            EXPECT(*(int*)known.kernelParams[1] == 3);
            continue;
        }
        ++seen;
        int replaced = 10 * seen;
        void* others[] = {&data, &replaced};
        cudaKernelNodeParams changed = {};
        EXPECT(cudaGraphKernelNodeGetParams(node, &changed) == cudaSuccess && changed.func == (void*)accumulate);
        changed.kernelParams = others;
        EXPECT(cudaGraphExecKernelNodeSetParams(exec, node, &changed) == cudaSuccess);
    }
    EXPECT(seen == 2);
    EXPECT(cudaMemset(data, 0, COUNT * sizeof(int)) == cudaSuccess);
    OK(cuCtxSynchronize());
    OK(cuGraphLaunch(exec, ours));
    OK(cuStreamSynchronize(ours));
    check(30);

    // An update of the runtime's executable from a graph that the driver captures.
    CUgraph other;
    OK(cuStreamBeginCapture(ours, CU_STREAM_CAPTURE_MODE_RELAXED));
    EXPECT(cudaEventRecord(fork, ours) == cudaSuccess);
    OK(cuStreamWaitEvent(theirs, fork, 0));
    accumulate<<<1, COUNT, 0, ours>>>(data, 100);
    OK(cuLaunchKernel(fill, 1, 1, 1, COUNT, 1, 1, 0, theirs, parameters, nullptr));
    EXPECT(cudaEventRecord(join, theirs) == cudaSuccess && cudaStreamWaitEvent(ours, join, 0) == cudaSuccess);
    accumulate<<<1, COUNT, 0, ours>>>(data, 200);
    EXPECT(cudaStreamEndCapture(ours, &other) == cudaSuccess);
    CUgraphExecUpdateResultInfo result;
    OK(cuGraphExecUpdate(exec, other, &result));
    EXPECT(result.result == CU_GRAPH_EXEC_UPDATE_SUCCESS);
    EXPECT(cudaGraphLaunch(exec, theirs) == cudaSuccess && cudaStreamSynchronize(theirs) == cudaSuccess);
    check(330);
    // What the one refuses in a capture spoils it for the other.
    OK(cuStreamBeginCapture(ours, CU_STREAM_CAPTURE_MODE_GLOBAL));
    EXPECT(cudaStreamSynchronize(ours) == cudaErrorStreamCaptureUnsupported);
    FAILS(cuLaunchKernel(fill, 1, 1, 1, COUNT, 1, 1, 0, ours, parameters, nullptr), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    EXPECT(cudaStreamEndCapture(ours, &graph) == cudaErrorStreamCaptureInvalidated && !graph);
    cudaGetLastError();
    OK(cuGraphExecDestroy(exec));
    EXPECT(cudaGraphDestroy(other) == cudaSuccess && cudaPeekAtLastError() == cudaSuccess);
    printf("PASS\n");
    return 0;
}
