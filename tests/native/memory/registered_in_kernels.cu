// Memory that the program has registered, in kernels by the program's own pointer: as an argument, in a structure, through pointers that lie in such
// memory, together with the device's pointer, with atomic operations and wide accesses, in a captured graph, after registering again.
#include <malloc.h>

#include <algorithm>
#include <cstdlib>

#include "../support.cuh"

struct Job {
    int count;
    const int *from;
    int *to;
};

struct Node {
    int value;
    Node *next;
};

__global__ void add(Job job, int value) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < job.count; i += gridDim.x * blockDim.x) {
        job.to[i] = job.from[i] + value;
    }
}

__global__ void count_by_value(const int *values, int count, int *bins) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
        atomicAdd(&bins[values[i] % 8], 1);
    }
}

__global__ void four_at_a_time(int4 *values, int count) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) {
        int4 found = values[i];
        values[i] = make_int4(found.w, found.z, found.y, found.x);
    }
}

// Follows pointers that the program wrote.
__global__ void walk(Node *first, long long *sum) {
    for (Node *node = first; node != nullptr; node = node->next) {
        *sum += node->value;
        node->value = -node->value;
    }
}

// The same word through both pointers, by turns.
__global__ void both(volatile int *own, volatile int *other, int rounds) {
    for (int round = 0; round < rounds; ++round) {
        *own = *own + 1;
        *other = *other + 10;
    }
}

template <typename T> static T *pages(size_t count) {
    return static_cast<T *>(std::aligned_alloc(4096, (count * sizeof(T) + 4095) / 4096 * 4096));
}

int main() {
    mallopt(M_MMAP_THRESHOLD, 128 << 10); // which would rise with what is freed
    Verdict verdict;
    const int count = 60 * 1024;
    const size_t bytes = count * sizeof(int);
    int *mine = pages<int>(count);
    std::vector<int> large(count);
    for (int i = 0; i < count; ++i) {
        mine[i] = i;
    }
    CHECK(cudaHostRegister(mine, bytes, cudaHostRegisterDefault));
    CHECK(cudaHostRegister(large.data(), bytes, cudaHostRegisterMapped));
    for (int round = 0; round < 3; ++round) {
        add<<<16, 128>>>(Job{count, mine, large.data()}, 10);
        add<<<16, 128>>>(Job{count - 100, large.data() + 100, mine + 100}, round);
        CHECK_LAUNCH();
        for (int i = round; i < count; i += 7777) { // the program's own, in some pages
            mine[i] *= 2;
        }
    }
    long long sum = 0;
    for (int i = 0; i < count; ++i) {
        sum += mine[i] + 3ll * large[i];
    }
    std::printf("sum %lld\n", sum);

    int *there;
    CHECK(cudaHostGetDevicePointer(&there, mine, 0));
    mine[7] = 1;
    both<<<1, 1>>>(mine + 7, there + 7, 100);
    CHECK_LAUNCH();
    verdict.expect(mine[7] == 1 + 1100, "both pointers");

    int *bins = pages<int>(1024);
    std::fill(bins, bins + 1024, 0);
    CHECK(cudaHostRegister(bins, 4096, cudaHostRegisterPortable));
    for (int i = 0; i < count; ++i) {
        mine[i] = i % 24;
    }
    count_by_value<<<32, 256>>>(mine, count, bins);
    four_at_a_time<<<count / 4 / 256, 256>>>(reinterpret_cast<int4 *>(mine), count / 4);
    CHECK_LAUNCH();
    verdict.equal(std::vector<int>(bins, bins + 9), {7680, 7680, 7680, 7680, 7680, 7680, 7680, 7680, 0}, "bins");
    verdict.expect(mine[0] == 3 && mine[1] == 2 && mine[count - 1] == (count - 4) % 24, "four at a time");

    const int length = 3000;
    Node *nodes = pages<Node>(length);
    long long *total = pages<long long>(1), all = 0;
    *total = 0;
    CHECK(cudaHostRegister(nodes, length * sizeof(Node) / 4096 * 4096 + 4096, 0));
    CHECK(cudaHostRegister(total, 4096, 0));
    for (int i = 0; i < length; ++i) {
        nodes[i] = Node{i * 3, i + 7 < length ? &nodes[i + 7] : nullptr};
        all += i % 7 == 0 ? i * 3 : 0;
    }
    walk<<<1, 1>>>(nodes, total);
    CHECK_LAUNCH();
    verdict.expect(*total == all, "a list");
    verdict.expect(nodes[7].value == -21 && nodes[8].value == 24, "its values");

    cudaStream_t stream;
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    add<<<16, 128, 0, stream>>>(Job{count, mine, large.data()}, 1);
    add<<<16, 128, 0, stream>>>(Job{count, large.data(), mine}, 1);
    CHECK(cudaStreamEndCapture(stream, &graph));
    CHECK(cudaGraphInstantiate(&executable, graph, 0));
    for (int launch = 0; launch < 10; ++launch) {
        CHECK(cudaGraphLaunch(executable, stream));
    }
    CHECK(cudaStreamSynchronize(stream));
    verdict.expect(mine[0] == 23 && large[5] == mine[5] - 1, "a graph");

    CHECK(cudaHostUnregister(mine));
    mine[0] = 1000;
    verdict.expect(mine[1] == 22, "unregistered");
    CHECK(cudaHostRegister(mine, bytes, 0));
    add<<<16, 128>>>(Job{count, mine, mine}, 5);
    CHECK_LAUNCH();
    verdict.expect(mine[0] == 1005 && mine[1] == 27, "registered again");
    for (void *memory : {static_cast<void *>(mine), static_cast<void *>(large.data()), static_cast<void *>(bins),
                         static_cast<void *>(nodes), static_cast<void *>(total)}) {
        CHECK(cudaHostUnregister(memory));
    }
    CHECK(cudaGraphExecDestroy(executable));
    CHECK(cudaGraphDestroy(graph));
    CHECK(cudaStreamDestroy(stream));
    for (void *memory : {static_cast<void *>(mine), static_cast<void *>(bins), static_cast<void *>(nodes), static_cast<void *>(total)}) {
        std::free(memory);
    }
    std::printf("registered_in_kernels\n");
    return verdict.finish();
}
