// Conditional nodes of graphs: if, if/else, while and switch, made with the API and by capture, nested, with copies and sets in their bodies, and with
// conditions that kernels set; launched again, cloned, changed and updated.
#include "../support.cuh"

#include <climits>
#include <tuple>

using Handle = cudaGraphConditionalHandle;

__global__ void set_condition(Handle handle, const int *value) { cudaGraphSetConditional(handle, *value); }

__global__ void add(int *cell, int value) { *cell += value; }

// Counts down, and goes on as long as there is something left.
__global__ void count_down(Handle handle, int *left, int *steps) {
    ++*steps;
    if (--*left == 0) {
        cudaGraphSetConditional(handle, 0);
    }
}

// One step of Newton's method for a square root, until it stays.
__global__ void newton(Handle handle, double *x, double of, int *steps) {
    const double next = 0.5 * (*x + of / *x);
    *steps += 1;
    cudaGraphSetConditional(handle, next != *x && *steps < 100);
    *x = next;
}

// Many threads, of which one sets the condition.
__global__ void halve(Handle handle, int *data, int count, unsigned *done) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) {
        data[i] /= 2;
    }
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0 && atomicAdd(done, 1) == gridDim.x - 1) {
        *done = 0;
        cudaGraphSetConditional(handle, data[count - 1] > 0);
    }
}

__global__ void arm(Handle handle, int *left, int value) {
    *left = value;
    cudaGraphSetConditional(handle, value != 0);
}

static Handle condition(cudaGraph_t graph, unsigned value, unsigned flags = cudaGraphCondAssignDefault) {
    Handle handle;
    CHECK(cudaGraphConditionalHandleCreate(&handle, graph, value, flags));
    return handle;
}

static cudaGraphNode_t conditional(cudaGraph_t graph, std::vector<cudaGraphNode_t> behind, Handle handle,
                                   cudaGraphConditionalNodeType type, std::vector<cudaGraph_t> &bodies) {
    cudaGraphNodeParams params = {};
    params.type = cudaGraphNodeTypeConditional;
    params.conditional.handle = handle;
    params.conditional.type = type;
    params.conditional.size = static_cast<unsigned>(bodies.size());
    cudaGraphNode_t node;
    CHECK(cudaGraphAddNode(&node, graph, behind.data(), nullptr, behind.size(), &params));
    bodies.assign(params.conditional.phGraph_out, params.conditional.phGraph_out + bodies.size());
    return node;
}

template <typename... Parameters, typename... Arguments>
static cudaGraphNode_t kernel(cudaGraph_t graph, std::vector<cudaGraphNode_t> behind, void (*function)(Parameters...),
                              Arguments... given) {
    std::tuple<Parameters...> values(given...);
    void *arguments[sizeof...(Parameters)];
    int at = 0;
    std::apply([&](auto &...value) { ((arguments[at++] = &value), ...); }, values);
    cudaKernelNodeParams params = {};
    params.func = reinterpret_cast<void *>(function);
    params.gridDim = params.blockDim = dim3(1);
    params.kernelParams = arguments;
    cudaGraphNode_t node;
    CHECK(cudaGraphAddKernelNode(&node, graph, behind.data(), behind.size(), &params));
    return node;
}

static cudaGraphExec_t instantiated(cudaGraph_t graph) {
    cudaGraphExec_t executable;
    CHECK(cudaGraphInstantiate(&executable, graph, 0));
    return executable;
}

static void run(cudaGraphExec_t executable, cudaStream_t stream, int times = 1) {
    for (int i = 0; i < times; ++i) {
        CHECK(cudaGraphLaunch(executable, stream));
    }
    CHECK(cudaStreamSynchronize(stream));
}

static int value_of(const int *cell) {
    int value = INT_MIN;
    CHECK(cudaMemcpy(&value, cell, sizeof value, cudaMemcpyDeviceToHost));
    return value;
}

static void set(int *cell, int value) { CHECK(cudaMemcpy(cell, &value, sizeof value, cudaMemcpyHostToDevice)); }

static cudaGraph_t empty_graph() {
    cudaGraph_t graph;
    CHECK(cudaGraphCreate(&graph, 0));
    return graph;
}

static void if_and_else(Verdict &verdict, cudaStream_t stream) {
    DeviceArray<int> cells(3);
    int *which = cells.get(), *yes = which + 1, *no = which + 2;
    CHECK(cudaMemset(which, 0, 3 * sizeof(int)));
    cudaGraph_t graph = empty_graph();
    Handle handle = condition(graph, 0, 0);
    cudaGraphNode_t first = kernel(graph, {}, set_condition, handle, which);
    std::vector<cudaGraph_t> both(2), one(1);
    cudaGraphNode_t node = conditional(graph, {first}, handle, cudaGraphCondTypeIf, both);
    kernel(both[0], {}, add, yes, 1);
    kernel(both[1], {}, add, no, 1);
    Handle always = condition(graph, 7);
    conditional(graph, {node}, always, cudaGraphCondTypeIf, one);
    kernel(one[0], {}, add, yes, 100);
    Handle never = condition(graph, 0);
    conditional(graph, {node}, never, cudaGraphCondTypeIf, one);
    kernel(one[0], {}, add, no, 100);
    cudaGraphNodeType type;
    CHECK(cudaGraphNodeGetType(node, &type));
    verdict.expect(type == cudaGraphNodeTypeConditional, "the node's type");
    cudaGraphExec_t executable = instantiated(graph);
    CHECK(cudaGraphDestroy(graph)); // what was made of it goes on
    run(executable, stream, 3);
    set(which, -5);
    run(executable, stream, 4);
    std::printf("if %d else %d\n", value_of(yes), value_of(no));
    CHECK(cudaGraphExecDestroy(executable));
}

static void loops(Verdict &verdict, cudaStream_t stream) {
    DeviceArray<int> cells(4);
    DeviceArray<double> x(1);
    int *left = cells.get(), *steps = left + 1, *log = left + 2, *copied = left + 3;
    CHECK(cudaMemset(left, 0, 4 * sizeof(int)));
    cudaGraph_t graph = empty_graph();
    Handle handle = condition(graph, 1);
    std::vector<cudaGraph_t> body(1);
    conditional(graph, {}, handle, cudaGraphCondTypeWhile, body);
    cudaMemsetParams zero = {};
    zero.dst = log;
    zero.elementSize = 4;
    zero.width = zero.height = 1;
    zero.value = 40;
    cudaGraphNode_t clear, more, copy;
    CHECK(cudaGraphAddMemsetNode(&clear, body[0], nullptr, 0, &zero));
    more = kernel(body[0], {clear}, add, log, 2);
    CHECK(cudaGraphAddMemcpyNode1D(&copy, body[0], &more, 1, copied, log, sizeof(int), cudaMemcpyDeviceToDevice));
    kernel(body[0], {copy}, count_down, handle, left, steps);
    cudaGraph_t clone;
    CHECK(cudaGraphClone(&clone, graph));
    cudaGraphExec_t executable = instantiated(graph), other = instantiated(clone);
    for (int count : {1, 5, 1000}) {
        set(left, count);
        run(executable, stream);
        set(left, count);
        run(other, stream);
    }
    std::printf("while %d, last %d\n", value_of(steps), value_of(copied));

    // Other work for a node of the body, and another graph of the same shape.
    cudaKernelNodeParams params;
    CHECK(cudaGraphKernelNodeGetParams(more, &params));
    int value = 3;
    void *arguments[] = {&log, &value};
    params.kernelParams = arguments;
    CHECK(cudaGraphExecKernelNodeSetParams(executable, more, &params));
    set(left, 2);
    run(executable, stream);
    verdict.expect(value_of(copied) == 43, "changed in the executable graph");
    cudaGraphExecUpdateResultInfo info;
    CHECK(cudaGraphExecUpdate(executable, graph, &info));
    set(left, 2);
    run(executable, stream);
    verdict.expect(value_of(copied) == 42, "updated");
    CHECK(cudaGraphExecDestroy(executable));
    CHECK(cudaGraphExecDestroy(other));
    CHECK(cudaGraphDestroy(clone));
    CHECK(cudaGraphDestroy(graph));

    graph = empty_graph();
    handle = condition(graph, 1);
    conditional(graph, {}, handle, cudaGraphCondTypeWhile, body);
    kernel(body[0], {}, newton, handle, x.get(), 2.0, steps);
    executable = instantiated(graph);
    double root = 1;
    set(steps, 0);
    CHECK(cudaMemcpy(x.get(), &root, sizeof root, cudaMemcpyHostToDevice));
    run(executable, stream);
    CHECK(cudaMemcpy(&root, x.get(), sizeof root, cudaMemcpyDeviceToHost));
    std::printf("root %.12f\n", root);
    verdict.expect(value_of(steps) > 4 && value_of(steps) < 10, "steps to a root");
    CHECK(cudaGraphExecDestroy(executable));
    CHECK(cudaGraphDestroy(graph));
}

static void captured(Verdict &verdict, cudaStream_t stream) {
    const int count = 5000;
    std::vector<int> start(count);
    for (int i = 0; i < count; ++i) {
        start[i] = i * 3;
    }
    DeviceArray<int> data(start);
    DeviceArray<int> cells(4);
    DeviceArray<unsigned> done(1);
    int *rounds = cells.get(), *pinned;
    CHECK(cudaMallocHost(&pinned, 2 * sizeof(int)));
    pinned[0] = pinned[1] = 0;
    CHECK(cudaMemset(rounds, 0, 4 * sizeof(int)));
    CHECK(cudaMemset(done.get(), 0, sizeof(unsigned)));

    cudaStream_t side;
    CHECK(cudaStreamCreate(&side));
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
    add<<<1, 1, 0, stream>>>(rounds + 1, 10);
    cudaStreamCaptureStatus status;
    unsigned long long id;
    cudaGraph_t graph;
    const cudaGraphNode_t *tips;
    size_t tip_count;
    CHECK(cudaStreamGetCaptureInfo(stream, &status, &id, &graph, &tips, nullptr, &tip_count));
    Handle handle = condition(graph, 1);
    std::vector<cudaGraph_t> body(1);
    cudaGraphNode_t node = conditional(graph, std::vector<cudaGraphNode_t>(tips, tips + tip_count), handle, cudaGraphCondTypeWhile, body);
    CHECK(cudaStreamUpdateCaptureDependencies(stream, &node, nullptr, 1, cudaStreamSetCaptureDependencies));
    CHECK(cudaStreamBeginCaptureToGraph(side, body[0], nullptr, nullptr, 0, cudaStreamCaptureModeRelaxed));
    add<<<1, 1, 0, side>>>(rounds, 1);
    CHECK(cudaMemcpyAsync(pinned, rounds, sizeof(int), cudaMemcpyDeviceToHost, side));
    halve<<<(count + 255) / 256, 256, 0, side>>>(handle, data.get(), count, done.get());
    CHECK(cudaStreamEndCapture(side, nullptr));
    add<<<1, 1, 0, stream>>>(rounds + 1, 5);
    CHECK(cudaMemcpyAsync(pinned + 1, rounds + 1, sizeof(int), cudaMemcpyDeviceToHost, stream));
    CHECK(cudaStreamEndCapture(stream, &graph));
    cudaGraphExec_t executable = instantiated(graph);
    for (int launch = 0; launch < 3; ++launch) {
        data.upload(start);
        run(executable, stream);
    }
    std::printf("captured %d rounds, %d\n", pinned[0], pinned[1]);
    verdict.equal(data.download(), std::vector<int>(count, 0), "halved");
    CHECK(cudaGraphExecDestroy(executable));
    CHECK(cudaGraphDestroy(graph));
    CHECK(cudaStreamDestroy(side));
    CHECK(cudaFreeHost(pinned));
}

static void nested_and_switched(Verdict &verdict, cudaStream_t stream) {
    DeviceArray<int> cells(8);
    int *outer = cells.get(), *inner = outer + 1, *steps = outer + 2, *which = outer + 3, *taken = outer + 4;
    CHECK(cudaMemset(outer, 0, 8 * sizeof(int)));
    cudaGraph_t graph = empty_graph();
    std::vector<cudaGraph_t> body(1), nested(1), unlikely(1);
    Handle rows = condition(graph, 1);
    conditional(graph, {}, rows, cudaGraphCondTypeWhile, body);
    Handle columns = condition(body[0], 0, 0), rare = condition(body[0], 0);
    cudaGraphNode_t armed = kernel(body[0], {}, arm, columns, inner, 7);
    cudaGraphNode_t loop = conditional(body[0], {armed}, columns, cudaGraphCondTypeWhile, nested);
    kernel(nested[0], {}, count_down, columns, inner, steps);
    cudaGraphNode_t never = conditional(body[0], {loop}, rare, cudaGraphCondTypeIf, unlikely);
    kernel(unlikely[0], {}, add, steps, 1000000);
    kernel(body[0], {never}, count_down, rows, outer, taken + 3);
    cudaGraphExec_t executable = instantiated(graph);
    for (int count : {3, 20}) {
        set(outer, count);
        run(executable, stream);
    }
    std::printf("nested %d in %d\n", value_of(steps), value_of(taken + 3));
    CHECK(cudaGraphExecDestroy(executable));
    CHECK(cudaGraphDestroy(graph));

    graph = empty_graph();
    Handle handle = condition(graph, 0, 0);
    cudaGraphNode_t first = kernel(graph, {}, set_condition, handle, which);
    std::vector<cudaGraph_t> cases(3);
    conditional(graph, {first}, handle, cudaGraphCondTypeSwitch, cases);
    kernel(cases[0], {}, add, taken, 1);
    kernel(cases[2], {}, add, taken + 2, 1); // the one between is empty
    executable = instantiated(graph);
    for (int value : {0, 2, 1, 2, 3, -1, 2, 0}) {
        set(which, value);
        run(executable, stream);
    }
    std::printf("switch %d %d %d\n", value_of(taken), value_of(taken + 1), value_of(taken + 2));
    CHECK(cudaGraphExecDestroy(executable));
    CHECK(cudaGraphDestroy(graph));

    // A body whose records are more than fit a template.
    graph = empty_graph();
    handle = condition(graph, 1);
    conditional(graph, {}, handle, cudaGraphCondTypeWhile, body);
    cudaGraphNode_t last = kernel(body[0], {}, add, taken, 1);
    for (int i = 0; i < 1500; ++i) {
        last = kernel(body[0], {last}, add, taken, 1);
    }
    kernel(body[0], {last}, count_down, handle, outer, steps);
    executable = instantiated(graph);
    set(outer, 2);
    set(taken, 0);
    run(executable, stream);
    verdict.expect(value_of(taken) == 3002, "a long body");
    CHECK(cudaGraphExecDestroy(executable));
    CHECK(cudaGraphDestroy(graph));
}

static void refused(Verdict &verdict) {
    cudaGraph_t graph = empty_graph();
    Handle handle = condition(graph, 1);
    cudaGraphNodeParams params = {};
    params.type = cudaGraphNodeTypeConditional;
    params.conditional.handle = handle + 4096;
    params.conditional.type = cudaGraphCondTypeWhile;
    params.conditional.size = 1;
    cudaGraphNode_t node;
    verdict.expect(cudaGraphAddNode(&node, graph, nullptr, nullptr, 0, &params) == cudaErrorInvalidValue, "no such handle");
    params.conditional.handle = handle;
    params.conditional.size = 2;
    verdict.expect(cudaGraphAddNode(&node, graph, nullptr, nullptr, 0, &params) == cudaErrorInvalidValue, "two bodies of a loop");
    Handle other;
    verdict.expect(cudaGraphConditionalHandleCreate(&other, graph, 0, 2) == cudaErrorInvalidValue, "unknown flags");
    cudaGetLastError();
    CHECK(cudaGraphDestroy(graph));
}

int main() {
    Verdict verdict;
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    if_and_else(verdict, stream);
    loops(verdict, stream);
    captured(verdict, stream);
    nested_and_switched(verdict, stream);
    refused(verdict);
    CHECK(cudaStreamDestroy(stream));
    return verdict.finish();
}
