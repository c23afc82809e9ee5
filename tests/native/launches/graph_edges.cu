// Edges of graphs with ports and types, graphs that belong to nodes, and what captures refuse. What is expected was measured by others on
// a GPU of compute capability 8.6 with a driver of CUDA 13.2; programmatic edges follow the device's capability.
#include "../support.cuh"

#include <cstring>
#include <thread>

static Verdict verdict;

#define GIVES(call, expected) verdict.expect((call) == (expected), #call " == " #expected)

__global__ void increment(int *value) { atomicAdd(value, 1); }

static int *device;
static cudaStream_t idle;

static cudaGraphNode_t kernel(cudaGraph_t graph) {
    void *arguments[] = {&device};
    cudaKernelNodeParams params = {};
    params.func = reinterpret_cast<void *>(increment);
    params.gridDim = params.blockDim = dim3(1);
    params.kernelParams = arguments;
    cudaGraphNode_t node;
    CHECK(cudaGraphAddKernelNode(&node, graph, nullptr, 0, &params));
    return node;
}

static cudaGraphNode_t empty(cudaGraph_t graph) {
    cudaGraphNode_t node;
    CHECK(cudaGraphAddEmptyNode(&node, graph, nullptr, 0));
    return node;
}

static cudaGraphEdgeData edge(int from_port, int to_port, int type) {
    cudaGraphEdgeData data;
    std::memset(&data, 0, sizeof data);
    data.from_port = from_port;
    data.to_port = to_port;
    data.type = type;
    return data;
}

// Ports and type of the edge between two nodes as three digits, or -1.
static int between(cudaGraph_t graph, cudaGraphNode_t from, cudaGraphNode_t to) {
    size_t count = 0;
    CHECK(cudaGraphGetEdges(graph, nullptr, nullptr, nullptr, &count));
    std::vector<cudaGraphNode_t> sources(count), targets(count);
    std::vector<cudaGraphEdgeData> data(count);
    CHECK(cudaGraphGetEdges(graph, sources.data(), targets.data(), data.data(), &count));
    for (size_t i = 0; i < count; ++i) {
        if (sources[i] == from && targets[i] == to) {
            return data[i].from_port * 100 + data[i].to_port * 10 + data[i].type;
        }
    }
    return -1;
}

static void edges() {
    int major;
    CHECK(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0));
    cudaGraph_t graph;
    CHECK(cudaGraphCreate(&graph, 0));
    const struct {
        int from_port, to_port, type;
        bool allowed;
    } kinds[] = {{0, 0, 0, true},  {2, 0, 0, true},  {1, 0, 0, false}, {0, 0, 1, false}, {1, 0, 1, major >= 9},
                 {2, 0, 1, major >= 9}, {0, 1, 0, false}, {3, 0, 1, false}, {0, 0, 2, false}};
    for (auto &kind : kinds) {
        cudaGraphNode_t a = kernel(graph), b = kernel(graph);
        cudaGraphEdgeData data = edge(kind.from_port, kind.to_port, kind.type), plain = edge(0, 0, 0);
        GIVES(cudaGraphAddDependencies(graph, &a, &b, &data, 1), kind.allowed ? cudaSuccess : cudaErrorInvalidValue);
        GIVES(between(graph, a, b), kind.allowed ? kind.from_port * 100 + kind.type : -1);
        if (kind.allowed) {
            cudaGraphNode_t found[1];
            cudaGraphEdgeData said[1];
            size_t count = 1;
            GIVES(cudaGraphNodeGetDependencies(b, found, said, &count), cudaSuccess);
            verdict.expect(count == 1 && found[0] == a && !std::memcmp(said, &data, sizeof data), "a dependency's data");
            GIVES(cudaGraphNodeGetDependentNodes(a, found, said, &count), cudaSuccess);
            verdict.expect(count == 1 && found[0] == b && !std::memcmp(said, &data, sizeof data), "a dependent node's data");
            GIVES(cudaGraphAddDependencies(graph, &a, &b, &plain, 1), cudaErrorInvalidValue);  // there is one
            GIVES(cudaGraphRemoveDependencies(graph, &a, &b, &plain, 1), cudaSuccess);
            GIVES(cudaGraphRemoveDependencies(graph, &a, &b, &data, 1), cudaErrorInvalidValue);
        }
    }
    // Ports are those of kernels, and of several edges none is added where one cannot be.
    cudaGraphNode_t k = kernel(graph), target = kernel(graph), e = empty(graph);
    cudaGraphEdgeData completion = edge(2, 0, 0), wrong = edge(0, 0, 2), two[] = {edge(0, 0, 0), edge(2, 0, 0)};
    GIVES(cudaGraphAddDependencies(graph, &e, &target, &completion, 1), cudaErrorInvalidValue);
    GIVES(cudaGraphAddDependencies(graph, &k, &e, &completion, 1), cudaSuccess);
    cudaGraphNode_t from[] = {k, e}, to[] = {target, target};
    GIVES(cudaGraphAddDependencies(graph, from, to, two, 2), cudaErrorInvalidValue);
    GIVES(between(graph, k, target), -1);
    GIVES(cudaGraphAddDependencies(graph, from, to, nullptr, 2), cudaSuccess);
    GIVES(between(graph, k, target), 0);
    size_t nodes, after;
    CHECK(cudaGraphGetNodes(graph, nullptr, &nodes));
    cudaGraphNodeParams params = {cudaGraphNodeTypeEmpty};
    cudaGraphNode_t made;
    GIVES(cudaGraphAddNode(&made, graph, &k, &wrong, 1, &params), cudaErrorInvalidValue);
    CHECK(cudaGraphGetNodes(graph, nullptr, &after));
    GIVES(after, nodes);
    GIVES(cudaGraphAddNode(&made, graph, &k, &completion, 1, &params), cudaSuccess);
    GIVES(between(graph, k, made), 200);
    // Clones keep them.
    cudaGraph_t clone;
    cudaGraphNode_t here, there;
    CHECK(cudaGraphClone(&clone, graph));
    CHECK(cudaGraphNodeFindInClone(&here, k, clone));
    CHECK(cudaGraphNodeFindInClone(&there, made, clone));
    GIVES(between(clone, here, there), 200);
    CHECK(cudaGraphDestroy(clone));
    CHECK(cudaGraphDestroy(graph));
}

// A capture makes the edge that it was given, once.
static void captured_edges() {
    cudaStream_t stream;
    cudaGraph_t graph, ended;
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaGraphCreate(&graph, 0));
    cudaGraphNode_t seed = kernel(graph);
    cudaGraphEdgeData completion = edge(2, 0, 0), wrong = edge(0, 0, 1);
    GIVES(cudaStreamBeginCaptureToGraph(stream, graph, &seed, &wrong, 1, cudaStreamCaptureModeGlobal), cudaErrorInvalidValue);
    CHECK(cudaStreamBeginCaptureToGraph(stream, graph, &seed, &completion, 1, cudaStreamCaptureModeGlobal));
    increment<<<1, 1, 0, stream>>>(device);
    increment<<<1, 1, 0, stream>>>(device);
    CHECK(cudaStreamUpdateCaptureDependencies(stream, &seed, &completion, 1, cudaStreamSetCaptureDependencies));
    cudaStreamCaptureStatus status;
    const cudaGraphNode_t *tips;
    const cudaGraphEdgeData *said;
    size_t count;
    CHECK(cudaStreamGetCaptureInfo(stream, &status, nullptr, nullptr, &tips, &said, &count));
    verdict.expect(count == 1 && tips[0] == seed && said[0].from_port == 2, "what the next node waits for");
    increment<<<1, 1, 0, stream>>>(device);
    CHECK(cudaStreamEndCapture(stream, &ended));
    cudaGraphNode_t nodes[4];
    count = 4;
    CHECK(cudaGraphGetNodes(graph, nodes, &count));
    GIVES(count, 4);
    GIVES(between(graph, seed, nodes[1]), 200);
    GIVES(between(graph, nodes[1], nodes[2]), 0);
    GIVES(between(graph, seed, nodes[3]), 200);
    cudaGraphExec_t exec;
    CHECK(cudaMemset(device, 0, 4));
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    CHECK(cudaGraphLaunch(exec, stream));
    int value;
    CHECK(cudaStreamSynchronize(stream));
    CHECK(cudaMemcpy(&value, device, 4, cudaMemcpyDeviceToHost));
    GIVES(value, 4);
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphDestroy(graph));
    CHECK(cudaStreamDestroy(stream));
}

static void children() {
    cudaGraph_t child, parent, other, seen;
    CHECK(cudaGraphCreate(&child, 0));
    CHECK(cudaGraphCreate(&parent, 0));
    CHECK(cudaGraphCreate(&other, 0));
    empty(child);
    cudaGraphNodeParams params = {cudaGraphNodeTypeGraph};
    params.graph.graph = child;
    params.graph.ownership = cudaGraphChildGraphOwnershipMove;
    cudaGraphNode_t node, second;
    GIVES(cudaGraphAddNode(&node, child, nullptr, nullptr, 0, &params), cudaErrorInvalidValue);  // into itself
    GIVES(cudaGraphAddNode(&node, parent, nullptr, nullptr, 0, &params), cudaSuccess);
    GIVES(cudaGraphChildGraphNodeGetGraph(node, &seen), cudaSuccess);
    GIVES(seen, child);
    GIVES(cudaGraphDestroy(child), cudaErrorInvalidValue);
    empty(child);  // it can still be changed
    size_t count;
    GIVES(cudaGraphGetNodes(seen, nullptr, &count), cudaSuccess);
    GIVES(count, 2);
    cudaGraphExec_t exec;
    GIVES(cudaGraphInstantiate(&exec, parent, 0), cudaSuccess);
    CHECK(cudaGraphExecDestroy(exec));
    // A graph that belongs to a node is used through that node alone; it can be cloned.
    GIVES(cudaGraphInstantiate(&exec, child, 0), cudaErrorNotSupported);
    GIVES(cudaGraphAddChildGraphNode(&second, other, nullptr, 0, child), cudaErrorNotSupported);
    GIVES(cudaGraphAddNode(&second, other, nullptr, nullptr, 0, &params), cudaErrorNotSupported);
    cudaGraph_t clone;
    GIVES(cudaGraphClone(&clone, child), cudaSuccess);
    CHECK(cudaGraphDestroy(clone));
    GIVES(cudaGraphDestroy(parent), cudaSuccess);
    CHECK(cudaGraphDestroy(other));
}

static void captures() {
    const cudaStreamCaptureMode modes[] = {cudaStreamCaptureModeGlobal, cudaStreamCaptureModeThreadLocal, cudaStreamCaptureModeRelaxed};
    cudaError_t (*const calls[])() = {
        [] { return cudaStreamQuery(idle); },
        [] { return cudaStreamSynchronize(idle); },
        [] {
            void *made;
            cudaError_t error = cudaMallocManaged(&made, 64);
            if (error == cudaSuccess) CHECK(cudaFree(made));
            return error;
        },
        [] {
            void *made;
            cudaError_t error = cudaMallocAsync(&made, 64, idle);
            if (error == cudaSuccess) CHECK(cudaFreeAsync(made, idle));
            return error;
        },
        [] {
            cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
            cudaArray_t made;
            cudaError_t error = cudaMallocArray(&made, &format, 8, 8);
            if (error == cudaSuccess) CHECK(cudaFreeArray(made));
            return error;
        },
        [] {
            cudaMemPool_t pool;
            CHECK(cudaDeviceGetDefaultMemPool(&pool, 0));
            return cudaMemPoolTrimTo(pool, 0);
        },
        [] { return cudaDeviceSetLimit(cudaLimitStackSize, 2048); },
        [] {
            cudaGraph_t graph;
            cudaGraphExec_t exec;
            CHECK(cudaGraphCreate(&graph, 0));
            cudaError_t error = cudaGraphInstantiate(&exec, graph, 0);
            if (error == cudaSuccess) CHECK(cudaGraphExecDestroy(exec));
            CHECK(cudaGraphDestroy(graph));
            return error;
        },
    };
    for (auto call : calls) {
        for (cudaStreamCaptureMode mode : modes) {
            cudaStream_t stream;
            cudaGraph_t graph = nullptr;
            CHECK(cudaStreamCreate(&stream));
            CHECK(cudaStreamBeginCapture(stream, mode));
            increment<<<1, 1, 0, stream>>>(device);
            const bool refused = mode != cudaStreamCaptureModeRelaxed;
            GIVES(call(), refused ? cudaErrorStreamCaptureUnsupported : cudaSuccess);
            GIVES(cudaStreamEndCapture(stream, &graph), refused ? cudaErrorStreamCaptureInvalidated : cudaSuccess);
            if (graph) CHECK(cudaGraphDestroy(graph));
            CHECK(cudaStreamDestroy(stream));
        }
    }
    // A capture that another thread ends, and may not, is over.
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    increment<<<1, 1, 0, stream>>>(device);
    std::thread([stream] {
        cudaGraph_t graph;
        GIVES(cudaStreamEndCapture(stream, &graph), cudaErrorStreamCaptureWrongThread);
    }).join();
    cudaStreamCaptureStatus status;
    CHECK(cudaStreamIsCapturing(stream, &status));
    GIVES(status, cudaStreamCaptureStatusNone);
    CHECK(cudaStreamDestroy(stream));
}

static void pools() {
    cudaMemPoolProps good = {};
    good.allocType = cudaMemAllocationTypePinned;
    good.location.type = cudaMemLocationTypeDevice;
    cudaMemPool_t pool;
    GIVES(cudaMemPoolCreate(&pool, &good), cudaSuccess);
    CHECK(cudaMemPoolDestroy(pool));
    int handles;
    CHECK(cudaDeviceGetAttribute(&handles, cudaDevAttrMemoryPoolSupportedHandleTypes, 0));
    cudaMemPoolProps wrong[4] = {good, good, good, good};
    wrong[0].allocType = cudaMemAllocationTypeInvalid;
    wrong[1].location.type = cudaMemLocationTypeInvalid;
    wrong[2].location.id = 5;
    wrong[3].reserved[0] = 1;
    for (auto &each : wrong) GIVES(cudaMemPoolCreate(&pool, &each), cudaErrorInvalidValue);
    if (!handles) {
        good.handleTypes = cudaMemHandleTypePosixFileDescriptor;
        GIVES(cudaMemPoolCreate(&pool, &good), cudaErrorInvalidValue);
        cudaMemAllocNodeParams params = {};
        params.bytesize = 4096;
        params.poolProps = good;
        cudaGraph_t graph;
        cudaGraphNode_t node;
        CHECK(cudaGraphCreate(&graph, 0));
        GIVES(cudaGraphAddMemAllocNode(&node, graph, nullptr, 0, &params), cudaErrorInvalidValue);
        CHECK(cudaGraphDestroy(graph));
    }
}

int main() {
    CHECK(cudaMalloc(&device, 64));
    CHECK(cudaStreamCreate(&idle));
    edges();
    captured_edges();
    children();
    captures();
    pools();
    return verdict.finish();
}
