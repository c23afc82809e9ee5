// Stream capture and graphs: captured over two streams, launched many times, made node by node, changed, updated, refused.
#include <cstring>
#include <initializer_list>

#include "../support.cuh"

__global__ void add(int *data, int value, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        data[i] += value;
    }
}

__global__ void sum_of(const int *a, const int *b, int *sum, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        sum[i] = a[i] + b[i];
    }
}

static const int n = 1000;
static const size_t bytes = n * sizeof(int);

static int host_calls = 0;

static void CUDART_CB count(void *data) { *static_cast<int *>(data) += 1; }

// Two streams joined by events, a set, copies in all directions, a host function.
static void captured(Verdict &verdict) {
    std::vector<int> input(n, 1), seen(n, 0);
    int *pinned;
    CHECK(cudaMallocHost(&pinned, bytes));
    DeviceArray<int> a(n), b(n), sum(n);
    cudaStream_t stream, other;
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
    cudaEvent_t fork, join;
    CHECK(cudaEventCreateWithFlags(&fork, cudaEventDisableTiming));
    CHECK(cudaEventCreateWithFlags(&join, cudaEventDisableTiming));

    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    CHECK(cudaMemcpyAsync(a.get(), input.data(), bytes, cudaMemcpyHostToDevice, stream));
    CHECK(cudaEventRecord(fork, stream));
    CHECK(cudaStreamWaitEvent(other, fork, 0));
    CHECK(cudaMemsetAsync(b.get(), 1, bytes, other));
    add<<<4, 256, 0, other>>>(b.get(), 5, n);
    CHECK_LAUNCH();
    CHECK(cudaEventRecord(join, other));
    add<<<4, 256, 0, stream>>>(a.get(), 2, n);
    CHECK_LAUNCH();
    CHECK(cudaStreamWaitEvent(stream, join, 0));
    sum_of<<<4, 256, 0, stream>>>(a.get(), b.get(), sum.get(), n);
    CHECK_LAUNCH();
    cudaStreamCaptureStatus status;
    CHECK(cudaStreamIsCapturing(other, &status));
    verdict.expect(status == cudaStreamCaptureStatusActive, "the second stream takes part");
    CHECK(cudaStreamDestroy(other));  // it has been joined
    CHECK(cudaMemcpyAsync(seen.data(), sum.get(), bytes, cudaMemcpyDeviceToHost, stream));
    CHECK(cudaMemcpyAsync(pinned, a.get(), bytes, cudaMemcpyDeviceToHost, stream));
#if CUDART_VERSION >= 13020
    CHECK(cudaLaunchHostFunc_v2(stream, count, &host_calls, cudaHostTaskSpinWait));
#else
    CHECK(cudaLaunchHostFunc(stream, count, &host_calls));
#endif
    cudaGraph_t graph;
    CHECK(cudaStreamEndCapture(stream, &graph));
    CHECK(cudaStreamIsCapturing(stream, &status));
    verdict.expect(status == cudaStreamCaptureStatusNone, "the capture ended");
    verdict.expect(seen[0] == 0 && host_calls == 0, "nothing was done while capturing");

    size_t nodes = 0, roots = 0;
    CHECK(cudaGraphGetNodes(graph, nullptr, &nodes));
    CHECK(cudaGraphGetRootNodes(graph, nullptr, &roots));
    std::printf("captured %zu nodes, %zu root\n", nodes, roots);
    std::vector<cudaGraphNode_t> all(nodes);
    CHECK(cudaGraphGetNodes(graph, all.data(), &nodes));
    for (cudaGraphNode_t node : all) {
        cudaGraphNodeType type;
        CHECK(cudaGraphNodeGetType(node, &type));
        cudaKernelNodeParams kernel = {};
        if (type == cudaGraphNodeTypeKernel) {
            CHECK(cudaGraphKernelNodeGetParams(node, &kernel));
            const bool named = kernel.func == reinterpret_cast<void *>(add) || kernel.func == reinterpret_cast<void *>(sum_of);
            verdict.expect(named, "a captured kernel has the address by which the program names it");
        }
    }
    cudaGraphExec_t exec;
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    CHECK(cudaGraphDestroy(graph));
    for (int round = 0; round < 20; ++round) {
        for (int &value : input) {
            value = round * 3;
        }
        CHECK(cudaGraphLaunch(exec, stream));
        CHECK(cudaStreamSynchronize(stream));
        verdict.expect(seen[n - 1] == round * 3 + 2 + 0x01010101 + 5, "the sum of this launch");
        verdict.expect(pinned[7] == round * 3 + 2, "the pinned copy of this launch");
    }
    std::printf("host function ran %d times\n", host_calls);
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaStreamDestroy(stream));
    CHECK(cudaFreeHost(pinned));
}

// A graph made by hand; launched in two streams; nodes changed before and after it was instantiated.
static void by_hand(Verdict &verdict) {
    DeviceArray<int> data(n);
    cudaGraph_t graph;
    CHECK(cudaGraphCreate(&graph, 0));
    cudaMemsetParams set = {};
    set.dst = data.get();
    set.value = 7;
    set.elementSize = 4;
    set.width = n;
    set.height = 1;
    cudaGraphNode_t first, second, third, empty;
    CHECK(cudaGraphAddMemsetNode(&first, graph, nullptr, 0, &set));
    int *pointer = data.get(), value = 10, count_ = n;
    void *arguments[] = {&pointer, &value, &count_};
    cudaKernelNodeParams kernel = {};
    kernel.func = reinterpret_cast<void *>(add);
    kernel.gridDim = dim3(4);
    kernel.blockDim = dim3(256);
    kernel.kernelParams = arguments;
    CHECK(cudaGraphAddKernelNode(&second, graph, &first, 1, &kernel));
    value = 100;
    CHECK(cudaGraphAddKernelNode(&third, graph, &second, 1, &kernel));
    CHECK(cudaGraphAddEmptyNode(&empty, graph, &third, 1));
    cudaKernelNodeParams told = {};
    value = -1;  // captured when the node was made
    CHECK(cudaGraphKernelNodeGetParams(second, &told));
    value = 100;
    verdict.expect(told.gridDim.x == 4 && *static_cast<int *>(told.kernelParams[1]) == 10, "parameters of a node");
#if CUDART_VERSION >= 13020
    cudaGraphNodeParams general = {};
    CHECK(cudaGraphNodeGetParams(second, &general));
    verdict.expect(general.type == cudaGraphNodeTypeKernel && general.kernel.func == told.func &&
                       general.kernel.gridDim.x == 4 && *static_cast<int *>(general.kernel.kernelParams[1]) == 10,
                   "parameters of a node of any kind");
#endif
    cudaLaunchAttributeValue attribute = {};
    attribute.priority = -1;
    CHECK(cudaGraphKernelNodeSetAttribute(second, cudaLaunchAttributePriority, &attribute));
    attribute.cooperative = 1;
    CHECK(cudaGraphKernelNodeSetAttribute(second, cudaLaunchAttributeCooperative, &attribute));
    CHECK(cudaGraphKernelNodeCopyAttributes(third, second));
    attribute.priority = 5;
    CHECK(cudaGraphKernelNodeSetAttribute(second, cudaLaunchAttributePriority, &attribute));
    CHECK(cudaGraphKernelNodeSetParams(third, &kernel));  // attributes stay
    CHECK(cudaGraphKernelNodeGetAttribute(third, cudaLaunchAttributePriority, &attribute));
    verdict.expect(attribute.priority == -1, "an attribute of a node");
    CHECK(cudaGraphKernelNodeGetAttribute(third, cudaLaunchAttributeCooperative, &attribute));
    verdict.expect(attribute.cooperative == 1, "a cooperative node");
    value = -1;
    verdict.expect(cudaGraphKernelNodeGetAttribute(first, cudaLaunchAttributePriority, &attribute) == cudaErrorInvalidValue,
                   "a set has no attributes");
    cudaGetLastError();
    cudaGraphNodeType type;
    CHECK(cudaGraphNodeGetType(first, &type));
    verdict.expect(type == cudaGraphNodeTypeMemset, "a set is one");

    cudaGraphExec_t exec;
    CHECK(cudaGraphInstantiateWithFlags(&exec, graph, 0));
    cudaStream_t streams[2];
    for (cudaStream_t &stream : streams) {
        CHECK(cudaStreamCreate(&stream));
        CHECK(cudaGraphLaunch(exec, stream));
        CHECK(cudaGraphLaunch(exec, stream));
        CHECK(cudaGraphLaunch(exec, stream));
        CHECK(cudaStreamSynchronize(stream));
        std::printf("by hand %d\n", data.download()[n - 1]);
    }
    // The executable graph changes, the graph does not.
    value = 1000;
    CHECK(cudaGraphExecKernelNodeSetParams(exec, third, &kernel));
    CHECK(cudaGraphLaunch(exec, streams[0]));
    std::printf("changed %d\n", data.download()[0]);
    CHECK(cudaGraphNodeSetEnabled(exec, third, 0));
    CHECK(cudaGraphLaunch(exec, streams[0]));
    std::printf("disabled %d\n", data.download()[0]);
    CHECK(cudaGraphNodeSetEnabled(exec, third, 1));

    // An update takes over what the graph says now.
    value = 20;
    CHECK(cudaGraphKernelNodeSetParams(second, &kernel));
    cudaGraphExecUpdateResultInfo info;
    CHECK(cudaGraphExecUpdate(exec, graph, &info));
    verdict.expect(info.result == cudaGraphExecUpdateSuccess, "an update");
    for (int i = 0; i < 5; ++i) {
        CHECK(cudaGraphLaunch(exec, streams[1]));
    }
    std::printf("updated %d\n", data.download()[0]);
    cudaGraphNode_t extra;
    CHECK(cudaGraphAddKernelNode(&extra, graph, nullptr, 0, &kernel));
    verdict.expect(cudaGraphExecUpdate(exec, graph, &info) == cudaErrorGraphExecUpdateFailure &&
                       info.result == cudaGraphExecUpdateErrorTopologyChanged,
                   "an update of another shape is refused");
    cudaGetLastError();
    CHECK(cudaGraphDestroyNode(extra));

    // A clone, and the graph as a node of another.
    cudaGraph_t clone, outer;
    CHECK(cudaGraphClone(&clone, graph));
    cudaGraphNode_t in_clone;
    CHECK(cudaGraphNodeFindInClone(&in_clone, second, clone));
    CHECK(cudaGraphCreate(&outer, 0));
    cudaGraphNode_t child, after;
    CHECK(cudaGraphAddChildGraphNode(&child, outer, nullptr, 0, clone));
    std::vector<int> result(n, 0);
    CHECK(cudaGraphAddMemcpyNode1D(&after, outer, &child, 1, result.data(), data.get(), bytes, cudaMemcpyDeviceToHost));
    cudaGraphExec_t nested;
    CHECK(cudaGraphInstantiate(&nested, outer, 0));
    CHECK(cudaGraphLaunch(nested, 0));
    CHECK(cudaDeviceSynchronize());
    std::printf("nested %d\n", result[n / 2]);
    CHECK(cudaGraphExecDestroy(nested));
    CHECK(cudaGraphDestroy(outer));
    CHECK(cudaGraphDestroy(clone));
    CHECK(cudaGraphDestroy(graph));
    CHECK(cudaGraphExecDestroy(exec));
    for (cudaStream_t stream : streams) {
        CHECK(cudaStreamDestroy(stream));
    }
}

// A graph captured anew each time round and handed to the same executable graph; memory of its own.
static void recaptured(Verdict &verdict) {
    DeviceArray<int> data(n);
    data.zero();
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    cudaGraphExec_t exec = nullptr;
    for (int round = 0; round < 10; ++round) {
        CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
        int *scratch;
        CHECK(cudaMallocAsync(&scratch, bytes, stream));
        CHECK(cudaMemcpyAsync(scratch, data.get(), bytes, cudaMemcpyDeviceToDevice, stream));
        add<<<4, 256, 0, stream>>>(scratch, round, n);
        CHECK_LAUNCH();
        CHECK(cudaMemcpyAsync(data.get(), scratch, bytes, cudaMemcpyDeviceToDevice, stream));
        CHECK(cudaFreeAsync(scratch, stream));
        cudaGraph_t graph;
        CHECK(cudaStreamEndCapture(stream, &graph));
        cudaGraphExecUpdateResultInfo info;
        if (exec == nullptr) {
            CHECK(cudaGraphInstantiate(&exec, graph, 0));
        } else {
            CHECK(cudaGraphExecUpdate(exec, graph, &info));
        }
        CHECK(cudaGraphDestroy(graph));
        CHECK(cudaGraphLaunch(exec, stream));
        CHECK(cudaGraphLaunch(exec, stream));
    }
    CHECK(cudaStreamSynchronize(stream));
    std::printf("recaptured %d\n", data.download()[3]);
    verdict.expect(data.download()[n - 1] == 90, "twice 0 to 9");
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaStreamDestroy(stream));
}

static void refused(Verdict &verdict) {
    cudaStream_t stream, other;
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaStreamCreate(&other));
    cudaGraph_t graph;
    cudaEvent_t event;
    CHECK(cudaEventCreate(&event));
    DeviceArray<int> data(n);

    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    std::printf("synchronize %d\n", cudaStreamSynchronize(stream));
    cudaStreamCaptureStatus status;
    CHECK(cudaStreamIsCapturing(stream, &status));
    std::printf("invalidated %d, end %d\n", status == cudaStreamCaptureStatusInvalidated,
                cudaStreamEndCapture(stream, &graph));

    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    CHECK(cudaEventRecord(event, stream));
    CHECK(cudaStreamWaitEvent(other, event, 0));
    CHECK(cudaMemsetAsync(data.get(), 0, bytes, other));
    std::printf("event %d\n", cudaEventQuery(event));
    std::printf("unjoined %d\n", cudaStreamEndCapture(stream, &graph));
    verdict.expect(graph == nullptr, "no graph");

    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    add<<<1, 1>>>(data.get(), 1, 1);
    std::printf("implicit %d\n", cudaGetLastError());
    std::printf("end %d\n", cudaStreamEndCapture(stream, &graph));

    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    void *pointer;
    std::printf("malloc %d\n", cudaMalloc(&pointer, 16));
    cudaStreamEndCapture(stream, &graph);
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
    CHECK(cudaMalloc(&pointer, 16));
    CHECK(cudaStreamEndCapture(stream, &graph));
    CHECK(cudaFree(pointer));
    CHECK(cudaGraphDestroy(graph));
    std::printf("legacy %d, not begun %d\n", cudaStreamBeginCapture(0, cudaStreamCaptureModeGlobal),
                cudaStreamEndCapture(stream, &graph));
    std::printf("destroyed twice %d\n", cudaGraphDestroy(reinterpret_cast<cudaGraph_t>(0)));
    cudaGetLastError();
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaStreamDestroy(stream));
    CHECK(cudaStreamDestroy(other));
}

// A kernel node whose parameters come packed in a buffer.
static void packed_parameters(Verdict &verdict) {
    DeviceArray<int> data(100);
    data.zero();
    struct {
        int *data;
        int value, n;
    } packed = {data.get(), 7, 90};
    size_t size = sizeof packed, little = 8;
    void *extra[] = {reinterpret_cast<void *>(1), &packed, reinterpret_cast<void *>(2), &size, nullptr};
    cudaKernelNodeParams kernel = {};
    kernel.func = reinterpret_cast<void *>(add);
    kernel.gridDim = dim3(4);
    kernel.blockDim = dim3(32);
    kernel.extra = extra;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    cudaGraphNode_t node;
    CHECK(cudaGraphCreate(&graph, 0));
    CHECK(cudaGraphAddKernelNode(&node, graph, nullptr, 0, &kernel));
    packed.value = 5;
    CHECK(cudaGraphAddKernelNode(&node, graph, &node, 1, &kernel));
    packed = {};
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    CHECK(cudaGraphLaunch(exec, nullptr));
    std::vector<int> found = data.download();
    verdict.expect(found[0] == 12 && found[89] == 12 && found[90] == 0, "packed parameters");
    CHECK(cudaGraphKernelNodeGetParams(node, &kernel));
    verdict.expect(kernel.extra == nullptr && *static_cast<int *>(kernel.kernelParams[1]) == 5, "they are told as pointers");
    kernel.extra = extra;
    verdict.expect(cudaGraphKernelNodeSetParams(node, &kernel) == cudaErrorInvalidValue, "both kinds");
    extra[3] = &little;
    kernel.kernelParams = nullptr;
    verdict.expect(cudaGraphKernelNodeSetParams(node, &kernel) == cudaErrorInvalidValue, "too few bytes");
    cudaGetLastError();
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphDestroy(graph));
}

__device__ int table[16];

__global__ void add_table(int *data) { data[threadIdx.x] += table[threadIdx.x]; }

// Nodes of an executable graph that are changed in its place: a graph inside, copies of a variable.
static void changed_inside(Verdict &verdict) {
    DeviceArray<int> data(100);
    data.zero();
    int values[16], seen[16], value = 3, size = 100, *pointer = data.get();
    for (int i = 0; i < 16; ++i) {
        values[i] = i;
    }
    cudaGraph_t inner, outer;
    cudaGraphNode_t inside, before, child, behind, to, from;
    CHECK(cudaGraphCreate(&inner, 0));
    CHECK(cudaGraphCreate(&outer, 0));
    void *arguments[] = {&pointer, &value, &size}, *short_arguments[] = {&pointer};
    cudaKernelNodeParams kernel = {}, tables = {};
    kernel.func = reinterpret_cast<void *>(add);
    kernel.gridDim = dim3(1);
    kernel.blockDim = dim3(128);
    kernel.kernelParams = arguments;
    tables = kernel;
    tables.func = reinterpret_cast<void *>(add_table);
    tables.blockDim = dim3(16);
    tables.kernelParams = short_arguments;
    CHECK(cudaGraphAddKernelNode(&inside, inner, nullptr, 0, &kernel));
    CHECK(cudaGraphAddMemcpyNodeToSymbol(&to, outer, nullptr, 0, table, values, 64, 0, cudaMemcpyHostToDevice));
    CHECK(cudaGraphAddKernelNode(&before, outer, &to, 1, &tables));
    CHECK(cudaGraphAddChildGraphNode(&child, outer, &before, 1, inner));
    value = 1;
    CHECK(cudaGraphAddKernelNode(&behind, outer, &child, 1, &kernel));
    CHECK(cudaGraphAddMemcpyNodeFromSymbol(&from, outer, &behind, 1, seen, table, 8, 0, cudaMemcpyDeviceToHost));
    cudaGraphExec_t exec;
    CHECK(cudaGraphInstantiate(&exec, outer, 0));
    CHECK(cudaGraphLaunch(exec, nullptr));
    value = 10;
    CHECK(cudaGraphKernelNodeSetParams(inside, &kernel));
    CHECK(cudaGraphExecChildGraphNodeSetParams(exec, child, inner));
    CHECK(cudaGraphLaunch(exec, nullptr));
    CHECK(cudaStreamSynchronize(nullptr));
    std::vector<int> found = data.download();
    verdict.expect(found[5] == 2 * 5 + (3 + 1) + (10 + 1) && found[50] == 15 && seen[1] == 1, "a graph inside");

    CHECK(cudaGraphExecMemcpyNodeSetParamsToSymbol(exec, to, table, values + 8, 16, 16, cudaMemcpyHostToDevice));
    CHECK(cudaGraphExecMemcpyNodeSetParamsFromSymbol(exec, from, seen, table, 32, 16, cudaMemcpyDeviceToHost));
    CHECK(cudaGraphLaunch(exec, nullptr));
    CHECK(cudaStreamSynchronize(nullptr));
    verdict.expect(seen[0] == 8 && seen[3] == 11 && seen[4] == 8 && seen[7] == 11, "copies of a variable");
    CHECK(cudaGraphMemcpyNodeSetParamsToSymbol(to, table, values, 16, 16, cudaMemcpyHostToDevice));
    CHECK(cudaGraphMemcpyNodeSetParamsFromSymbol(from, seen, table, 4, 16, cudaMemcpyDeviceToHost));
    verdict.expect(cudaGraphExecChildGraphNodeSetParams(exec, behind, inner) == cudaErrorInvalidValue, "no graph inside");
    verdict.expect(cudaGraphExecChildGraphNodeSetParams(exec, child, outer) == cudaErrorInvalidValue, "another shape");
    cudaGetLastError();
    cudaGraphExec_t second;
    CHECK(cudaGraphInstantiate(&second, outer, 0));
    CHECK(cudaGraphLaunch(second, nullptr));
    CHECK(cudaStreamSynchronize(nullptr));
    verdict.expect(seen[0] == 0, "changed in the graph");
    CHECK(cudaGraphExecDestroy(second));
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphDestroy(outer));
    CHECK(cudaGraphDestroy(inner));
}

// Graphs, copies of them and what is made of them hold user objects.
static void held(Verdict &verdict) {
    int ended = 0;
    cudaUserObject_t object;
    cudaGraph_t graph, copy, outer;
    cudaGraphNode_t node;
    cudaGraphExec_t exec;
    CHECK(cudaUserObjectCreate(&object, &ended, count, 1, cudaUserObjectNoDestructorSync));
    CHECK(cudaGraphCreate(&graph, 0));
    CHECK(cudaGraphCreate(&outer, 0));
    CHECK(cudaGraphRetainUserObject(graph, object, 1, cudaGraphUserObjectMove));
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    CHECK(cudaGraphClone(&copy, graph));
    CHECK(cudaGraphAddChildGraphNode(&node, outer, nullptr, 0, graph));
    CHECK(cudaGraphDestroy(graph));
    CHECK(cudaGraphLaunch(exec, nullptr));
    CHECK(cudaGraphDestroy(copy));
    CHECK(cudaGraphDestroyNode(node));
    verdict.expect(ended == 0, "held by what was made of the graph");
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaDeviceSynchronize());
    verdict.expect(ended == 1, "ended with the last");
    CHECK(cudaGraphDestroy(outer));
}

int main() {
    Verdict verdict;
    captured(verdict);
    by_hand(verdict);
    recaptured(verdict);
    refused(verdict);
    packed_parameters(verdict);
    changed_inside(verdict);
    held(verdict);
    return verdict.finish();
}
