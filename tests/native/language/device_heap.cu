// malloc and free, new and delete in kernels: blocks that outlive a kernel, linked lists, a heap that runs out.
#include "../support.cuh"

struct Node {
    int value;
    Node *next;
};

struct Counter {
    int count;
    __device__ explicit Counter(int start) : count(start) {}
    __device__ ~Counter() { count = -1; }
    __device__ int up() { return ++count; }
};

__device__ Node *lists[64];

// Each thread builds a list of its own; the next kernel sums and frees it.
__global__ void build(int length) {
    Node *head = nullptr;
    for (int i = 0; i < length; ++i) {
        Node *node = static_cast<Node *>(malloc(sizeof(Node)));
        node->value = threadIdx.x * 100 + i;
        node->next = head;
        head = node;
    }
    lists[threadIdx.x] = head;
}

__global__ void sum(int *out) {
    int total = 0;
    for (Node *node = lists[threadIdx.x]; node != nullptr;) {
        Node *next = node->next;
        total += node->value;
        free(node);
        node = next;
    }
    out[threadIdx.x] = total;
}

__global__ void objects(int *out) {
    Counter *counter = new Counter(threadIdx.x);
    int *values = new int[threadIdx.x + 1];
    for (int i = 0; i <= threadIdx.x; ++i) {
        values[i] = counter->up();
    }
    out[threadIdx.x] = values[threadIdx.x] + (counter->count == 2 * static_cast<int>(threadIdx.x) + 1 ? 0 : 1000);
    delete[] values;
    delete counter;
}

// One block of shared scratch per thread block.
__global__ void scratch(int *out) {
    __shared__ int *memory;
    if (threadIdx.x == 0) {
        memory = static_cast<int *>(malloc(blockDim.x * sizeof(int)));
    }
    __syncthreads();
    memory[threadIdx.x] = threadIdx.x + blockIdx.x;
    __syncthreads();
    out[blockIdx.x * blockDim.x + threadIdx.x] = memory[blockDim.x - 1 - threadIdx.x];
    __syncthreads();
    if (threadIdx.x == 0) {
        free(memory);
    }
}

__global__ void exhaust(size_t bytes, int *out) {
    // Volatile: a compiler may leave out an allocation of which only this is asked, and take it to have succeeded (clang does).
    void *volatile first = malloc(bytes);
    void *volatile second = malloc(bytes);
    out[0] = first != nullptr;
    out[1] = second != nullptr;
    free(second);
    free(first);
    void *volatile again = malloc(bytes);
    out[2] = again != nullptr;
    free(again);
    free(nullptr);
}

int main() {
    Verdict verdict;
    size_t limit = 0;
    CHECK(cudaDeviceGetLimit(&limit, cudaLimitMallocHeapSize));
    verdict.expect(limit == 8 << 20, "the default size of the heap");
    CHECK(cudaDeviceSetLimit(cudaLimitMallocHeapSize, 16 << 20));

    DeviceArray<int> out(1024);
    for (int round = 0; round < 3; ++round) {
        build<<<1, 64>>>(50);
        CHECK_LAUNCH();
        sum<<<1, 64>>>(out.get());
        CHECK_LAUNCH();
    }
    std::vector<int> sums(64);
    for (int i = 0; i < 64; ++i) {
        sums[i] = i * 100 * 50 + 49 * 50 / 2;
    }
    verdict.equal(out.download(), sums, "list");

    objects<<<1, 64>>>(out.get());
    CHECK_LAUNCH();
    std::vector<int> counts(64);
    for (int i = 0; i < 64; ++i) {
        counts[i] = 2 * i + 1;
    }
    verdict.equal(out.download(), counts, "object");

    scratch<<<8, 128>>>(out.get());
    CHECK_LAUNCH();
    std::vector<int> reversed(1024);
    for (int i = 0; i < 1024; ++i) {
        reversed[i] = i / 128 + 127 - i % 128;
    }
    verdict.equal(out.download(), reversed, "scratch");

    exhaust<<<1, 1>>>(10 << 20, out.get());
    CHECK_LAUNCH();
    std::vector<int> had = out.download();
    had.resize(3);
    verdict.equal(had, std::vector<int>{1, 0, 1}, "block of 10 MiB");
    print_checksum("device_heap", sums);
    return verdict.finish();
}
