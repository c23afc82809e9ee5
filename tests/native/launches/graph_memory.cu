// Memory nodes of graphs: memory that outlives its graph, that another graph or the program frees, addresses used again within a
// graph, graphs that together would need more memory than there is, and launches that CUDA refuses.
#include <cstring>
#include <initializer_list>

#include "../support.cuh"

__global__ void count_from(int *data, int start, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        data[i] = start + i;
    }
}

__global__ void twice(const int *from, int *to, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        to[i] = 2 * from[i];
    }
}

static const int n = 300000;
static const size_t bytes = n * sizeof(int);
static const int blocks = (n + 255) / 256;

static cudaMemAllocNodeParams of_size(size_t size) {
    cudaMemAllocNodeParams params;
    std::memset(&params, 0, sizeof params);
    params.bytesize = size;
    params.poolProps.allocType = cudaMemAllocationTypePinned;
    params.poolProps.location.type = cudaMemLocationTypeDevice;
    return params;
}

static cudaGraphExec_t executable(cudaGraph_t graph, unsigned long long flags = 0) {
    cudaGraphExec_t exec;
    CHECK(cudaGraphInstantiate(&exec, graph, flags));
    CHECK(cudaGraphDestroy(graph));
    return exec;
}

// A graph that allocates memory, and counts from `start` in it.
static cudaGraphExec_t allocating(int **data, int start, unsigned long long flags = 0) {
    cudaGraph_t graph;
    CHECK(cudaGraphCreate(&graph, 0));
    cudaGraphNode_t allocation, kernel;
    cudaMemAllocNodeParams params = of_size(bytes);
    CHECK(cudaGraphAddMemAllocNode(&allocation, graph, nullptr, 0, &params));
    *data = static_cast<int *>(params.dptr);
    int size = n;
    void *arguments[] = {data, &start, &size};
    cudaKernelNodeParams launch = {};
    launch.func = reinterpret_cast<void *>(count_from);
    launch.gridDim = dim3(blocks);
    launch.blockDim = dim3(256);
    launch.kernelParams = arguments;
    CHECK(cudaGraphAddKernelNode(&kernel, graph, &allocation, 1, &launch));
    return executable(graph, flags);
}

// What is allocated; whether what is free is kept is the driver's choice.
static size_t footprint() {
    size_t now;
    CHECK(cudaDeviceGraphMemTrim(0));
    CHECK(cudaDeviceGetGraphMemAttribute(0, cudaGraphMemAttrReservedMemCurrent, &now));
    return now;
}

static int at(const int *data, int place) {
    int value;
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaMemcpy(&value, data + place, sizeof value, cudaMemcpyDeviceToHost));
    return value;
}

static void outlives_its_graph(Verdict &verdict, cudaStream_t stream) {
    int *data, *other;
    cudaGraphExec_t exec = allocating(&data, 5);
    verdict.expect(footprint() == 0, "no memory before the launch");
    verdict.expect(cudaFree(data) == cudaErrorInvalidValue, "memory that no launch has allocated is not freed");
    CHECK(cudaGraphLaunch(exec, stream));
    CHECK(cudaStreamSynchronize(stream));
    verdict.expect(footprint() >= bytes, "memory behind the launch");
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaMalloc(&other, bytes));
    CHECK(cudaMemset(other, 0, bytes));
    verdict.expect(other != data && at(data, 0) == 5 && at(data, n - 1) == n + 4, "it is there when the graph has ended");
    CHECK(cudaFree(data));
    verdict.expect(cudaFree(data) == cudaErrorInvalidValue, "freed once");
    CHECK(cudaFree(other));
    verdict.expect(footprint() == 0, "nothing is left");
}

static void launched_again(Verdict &verdict, cudaStream_t stream) {
    int *data;
    cudaGraphExec_t exec = allocating(&data, 7);
    for (int i = 0; i < 3; ++i) {
        CHECK(cudaGraphLaunch(exec, stream));
        verdict.expect(cudaGraphLaunch(exec, stream) == cudaErrorInvalidValue, "no launch before the memory is freed");
        count_from<<<blocks, 256, 0, stream>>>(data, i, n);
        verdict.expect(at(data, 10) == 10 + i, "the program may use it");
        CHECK(cudaFreeAsync(data, stream));
    }
    size_t kept;
    CHECK(cudaDeviceGetGraphMemAttribute(0, cudaGraphMemAttrReservedMemCurrent, &kept));
    verdict.expect(kept >= bytes && footprint() == 0, "what is free is kept until it is trimmed");
    CHECK(cudaGraphLaunch(exec, stream));
    verdict.expect(footprint() >= bytes && at(data, 1) == 8, "what is allocated is not trimmed");
    CHECK(cudaFree(data));
    CHECK(cudaGraphExecDestroy(exec));

    exec = allocating(&data, 9, cudaGraphInstantiateFlagAutoFreeOnLaunch);
    for (int i = 0; i < 3; ++i) {
        CHECK(cudaGraphLaunch(exec, stream));
    }
    verdict.expect(at(data, 2) == 11, "freed by the next launch");
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaFree(data));
}

static void freed_by_another_graph(Verdict &verdict, cudaStream_t stream) {
    int *data;
    cudaGraphExec_t allocates = allocating(&data, 3);
    cudaGraph_t graph;
    cudaGraphNode_t node;
    CHECK(cudaGraphCreate(&graph, 0));
    CHECK(cudaGraphAddMemFreeNode(&node, graph, nullptr, 0, data));
    cudaGraphExec_t frees = executable(graph);
    for (int i = 0; i < 4; ++i) {
        CHECK(cudaGraphLaunch(allocates, stream));
        CHECK(cudaGraphLaunch(frees, stream));
    }
    verdict.expect(cudaGraphLaunch(frees, stream) == cudaErrorInvalidValue, "it is free already");
    CHECK(cudaGraphLaunch(allocates, stream));
    CHECK(cudaGraphExecDestroy(allocates));
    verdict.expect(at(data, 4) == 7, "allocated");
    CHECK(cudaGraphLaunch(frees, stream));
    CHECK(cudaStreamSynchronize(stream));
    CHECK(cudaGraphExecDestroy(frees));
    verdict.expect(footprint() == 0, "freed by a graph when its own has ended");
}

// Memory one behind the other: a quarter of what there is, ten times.
static void uses_addresses_again(Verdict &verdict, cudaStream_t stream) {
    size_t available, total;
    CHECK(cudaMemGetInfo(&available, &total));
    cudaGraph_t graph;
    CHECK(cudaGraphCreate(&graph, 0));
    cudaGraphNode_t last = nullptr;
    void *first = nullptr;
    for (int i = 0; i < 10; ++i) {
        cudaGraphNode_t allocation, set, end;
        cudaMemAllocNodeParams params = of_size(available / 4 - i);
        CHECK(cudaGraphAddMemAllocNode(&allocation, graph, i ? &last : nullptr, i ? 1 : 0, &params));
        first = i ? first : params.dptr;
        verdict.expect(params.dptr == first, "the same address");
        cudaMemAllocNodeParams told;
        CHECK(cudaGraphMemAllocNodeGetParams(allocation, &told));
        verdict.expect(told.bytesize == params.bytesize && told.dptr == params.dptr, "what it was made with");
        cudaMemsetParams value = {};
        value.dst = params.dptr;
        value.value = i;
        value.elementSize = 4;
        value.width = 16;
        value.height = 1;
        CHECK(cudaGraphAddMemsetNode(&set, graph, &allocation, 1, &value));
        CHECK(cudaGraphAddMemFreeNode(&end, graph, &set, 1, params.dptr));
        last = end;
    }
    cudaMemAllocNodeParams params = of_size(4096);
    cudaGraphNode_t beside;
    CHECK(cudaGraphAddMemAllocNode(&beside, graph, nullptr, 0, &params));
    verdict.expect(params.dptr != first, "what waits for nothing has memory of its own");
    CHECK(cudaGraphAddMemFreeNode(&last, graph, &beside, 1, params.dptr));
    cudaGraphExec_t exec = executable(graph);
    CHECK(cudaGraphLaunch(exec, stream));
    CHECK(cudaGraphLaunch(exec, stream));
    CHECK(cudaStreamSynchronize(stream));

    // Other graphs, with more memory together than there is.
    cudaGraphExec_t others[2];
    for (cudaGraphExec_t &other : others) {
        cudaGraphNode_t allocation, end;
        params = of_size(available / 8 * 5);
        CHECK(cudaGraphCreate(&graph, 0));
        CHECK(cudaGraphAddMemAllocNode(&allocation, graph, nullptr, 0, &params));
        CHECK(cudaGraphAddMemFreeNode(&end, graph, &allocation, 1, params.dptr));
        other = executable(graph);
    }
    for (int round = 0; round < 2; ++round) {
        for (cudaGraphExec_t other : others) {
            CHECK(cudaGraphLaunch(other, stream));
        }
    }
    CHECK(cudaStreamSynchronize(stream));
    for (cudaGraphExec_t other : others) {
        CHECK(cudaGraphExecDestroy(other));
    }

    // An allocation that has room only where the graph's memory is.
    CHECK(cudaGraphLaunch(exec, stream));
    void *large;
    CHECK(cudaMalloc(&large, available / 8 * 7));
    verdict.expect(footprint() == 0, "given back");
    CHECK(cudaFree(large));
    CHECK(cudaGraphLaunch(exec, stream));
    CHECK(cudaStreamSynchronize(stream));
    CHECK(cudaGraphExecDestroy(exec));
    verdict.expect(footprint() == 0, "it ends with the graphs");
}

static void captured(Verdict &verdict, cudaStream_t stream) {
    std::vector<int> input(n), output(n), expected(n);
    int *a, *b, *c;
    cudaGraph_t graph;
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    CHECK(cudaMallocAsync(&a, bytes, stream));
    CHECK(cudaMallocAsync(&b, bytes, stream));
    CHECK(cudaMemcpyAsync(a, input.data(), bytes, cudaMemcpyHostToDevice, stream));
    twice<<<blocks, 256, 0, stream>>>(a, b, n);
    CHECK(cudaFreeAsync(a, stream));
    CHECK(cudaMallocAsync(&c, bytes, stream));
    twice<<<blocks, 256, 0, stream>>>(b, c, n);
    CHECK(cudaFreeAsync(b, stream));
    CHECK(cudaMemcpyAsync(output.data(), c, bytes, cudaMemcpyDeviceToHost, stream));
    CHECK(cudaFreeAsync(c, stream));
    CHECK(cudaStreamEndCapture(stream, &graph));
    verdict.expect(a == c && a != b, "the third is where the first was");
    cudaGraphExec_t exec = executable(graph);
    for (int round = 0; round < 5; ++round) {
        for (int i = 0; i < n; ++i) {
            input[i] = i * round;
            expected[i] = 4 * i * round;
        }
        CHECK(cudaGraphLaunch(exec, stream));
        CHECK(cudaStreamSynchronize(stream));
        verdict.equal(output, expected, "captured");
    }
    CHECK(cudaGraphExecDestroy(exec));
}

int main() {
    Verdict verdict;
    cudaStream_t stream;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    outlives_its_graph(verdict, stream);
    launched_again(verdict, stream);
    freed_by_another_graph(verdict, stream);
    uses_addresses_again(verdict, stream);
    captured(verdict, stream);
    CHECK(cudaStreamDestroy(stream));
    std::printf("graph_memory\n");
    return verdict.finish();
}
