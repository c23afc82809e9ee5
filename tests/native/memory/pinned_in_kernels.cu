// Pinned host memory in kernels, by the address that the program has: allocated without cudaHostAllocMapped, used by kernels only after copies, by a
// structure's pointer, in a captured graph, freed and allocated anew, also by several threads at once; memory that only copies use stays the program's.
#include "../support.cuh"

#include <atomic>
#include <cstring>
#include <thread>

struct Job {
    int count;
    const float *from;
    float *to;
};

__global__ void scale(Job job, float factor) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < job.count; i += gridDim.x * blockDim.x) {
        job.to[i] = job.from[i] * factor;
    }
}

__global__ void count_up(int *counter) { atomicAdd(counter, 1); }

// Each thread's memory comes and goes; what it frees is soon another's, at the same address.
void come_and_go(int id, std::atomic<int> &wrong) {
    for (int round = 0; round < 25; ++round) {
        const int count = 1024 + 300 * ((id * 7 + round) % 11);
        const size_t bytes = count * sizeof(float);
        float *data, *other;
        CHECK(cudaMallocHost(&data, bytes));
        CHECK(cudaMallocHost(&other, bytes));
        DeviceArray<float> device(count);
        cudaStream_t stream;
        CHECK(cudaStreamCreate(&stream));
        for (int i = 0; i < count; ++i) {
            data[i] = static_cast<float>(i + id);
        }
        CHECK(cudaMemcpyAsync(device.get(), data, bytes, cudaMemcpyHostToDevice, stream));
        scale<<<4, 64, 0, stream>>>(Job{count, device.get(), other}, 2.0f);
        CHECK(cudaMemcpyAsync(data, device.get(), bytes, cudaMemcpyDeviceToHost, stream));
        scale<<<4, 64, 0, stream>>>(Job{count, other, data}, 2.0f);
        CHECK(cudaStreamSynchronize(stream));
        for (int i = 0; i < count; ++i) {
            wrong += data[i] != 4.0f * (i + id) || other[i] != 2.0f * (i + id);
        }
        CHECK(cudaFreeHost(data));
        CHECK(cudaFreeHost(other));
        CHECK(cudaStreamDestroy(stream));
    }
}

int main() {
    Verdict verdict;
    const int count = 3000;
    const size_t bytes = count * sizeof(float);
    float *from, *to, *staging;
    int *counter;
    CHECK(cudaMallocHost(&from, bytes));
    CHECK(cudaHostAlloc(&to, bytes, cudaHostAllocDefault));
    CHECK(cudaHostAlloc(&staging, bytes, cudaHostAllocPortable));
    CHECK(cudaMallocHost(&counter, sizeof(int)));

    // Copies first: the program's memory, and nothing else.
    DeviceArray<float> device(count);
    for (int i = 0; i < count; ++i) {
        from[i] = static_cast<float>(i);
    }
    CHECK(cudaMemcpyAsync(device.get(), from, bytes, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpyAsync(to, device.get(), bytes, cudaMemcpyDeviceToHost));
    scale<<<4, 64>>>(Job{count, device.get(), device.get()}, 2.0f);
    CHECK(cudaMemcpyAsync(staging, device.get(), bytes, cudaMemcpyDeviceToHost));
    CHECK(cudaDeviceSynchronize());
    verdict.expect(std::memcmp(from, to, bytes) == 0 && staging[count - 1] == 2.0f * (count - 1), "copies");

    // A kernel reads and writes it, and so does the program in between.
    std::vector<float> expected(count);
    for (int round = 1; round <= 3; ++round) {
        for (int i = 0; i < count; ++i) {
            from[i] = static_cast<float>(i + round);
            expected[i] = from[i] * 3.0f;
        }
        scale<<<4, 64>>>(Job{count, from, to}, 3.0f);
        CHECK_LAUNCH();
        CHECK(cudaDeviceSynchronize());
        verdict.expect(std::memcmp(to, expected.data(), bytes) == 0, "read and written by a kernel");
    }

    // Copies with it are what they were.
    CHECK(cudaMemcpy(device.get(), to, bytes, cudaMemcpyHostToDevice));
    CHECK(cudaMemset(from, 0, bytes));
    CHECK(cudaMemcpy(staging, device.get(), bytes, cudaMemcpyDefault));
    verdict.expect(std::memcmp(staging, expected.data(), bytes) == 0 && from[count / 2] == 0.0f, "copied and set");
    CHECK(cudaMemcpy(from, staging, bytes, cudaMemcpyHostToHost));
    verdict.expect(std::memcmp(from, expected.data(), bytes) == 0, "copied within the host");

    // A counter, in a loop and in a graph.
    *counter = 5;
    for (int i = 0; i < 40; ++i) {
        count_up<<<1, 32>>>(counter);
    }
    CHECK(cudaDeviceSynchronize());
    verdict.expect(*counter == 5 + 40 * 32, "a loop counts");
    cudaStream_t stream;
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    CHECK(cudaMemcpyAsync(device.get(), staging, bytes, cudaMemcpyHostToDevice, stream));
    scale<<<4, 64, 0, stream>>>(Job{count, device.get(), to}, 0.5f);
    count_up<<<1, 1, 0, stream>>>(counter);
    CHECK(cudaStreamEndCapture(stream, &graph));
    CHECK(cudaGraphInstantiate(&executable, graph, 0));
    for (int round = 0; round < 3; ++round) {
        staging[7] = static_cast<float>(round);
        CHECK(cudaGraphLaunch(executable, stream));
        CHECK(cudaStreamSynchronize(stream));
        verdict.expect(to[7] == 0.5f * round && *counter == 1286 + round, "a graph");
    }
    // From now on the device reaches what the graph copies from.
    scale<<<1, 32, 0, stream>>>(Job{16, to, staging}, 4.0f);
    CHECK(cudaGraphLaunch(executable, stream));
    CHECK(cudaStreamSynchronize(stream));
    verdict.expect(staging[7] == 4.0f && to[7] == 2.0f, "a graph's source that a kernel has written");
    CHECK(cudaGraphExecDestroy(executable));
    CHECK(cudaGraphDestroy(graph));

    // What a pointer is, and asking for the device's.
    cudaPointerAttributes attributes;
    CHECK(cudaPointerGetAttributes(&attributes, to + 3));
    verdict.expect(attributes.type == cudaMemoryTypeHost && attributes.devicePointer == to + 3, "the same address");
    float *again, *there = nullptr;
    CHECK(cudaFreeHost(from));
    CHECK(cudaMallocHost(&again, bytes));
    again[1] = 0.25f;
    CHECK(cudaHostGetDevicePointer(reinterpret_cast<void **>(&there), again, 0));
    verdict.expect(there == again, "the device's pointer");
    scale<<<1, 32>>>(Job{2, there, to}, 8.0f);
    CHECK(cudaDeviceSynchronize());
    verdict.expect(to[1] == 2.0f, "allocated anew");

    CHECK(cudaFreeHost(again));
    CHECK(cudaFreeHost(to));
    CHECK(cudaFreeHost(staging));
    CHECK(cudaFreeHost(counter));
    CHECK(cudaStreamDestroy(stream));

    std::atomic<int> wrong{0};
    std::vector<std::thread> threads;
    for (int id = 0; id < 4; ++id) {
        threads.emplace_back(come_and_go, id, std::ref(wrong));
    }
    for (std::thread &thread : threads) {
        thread.join();
    }
    verdict.expect(wrong == 0, "several threads");
    std::printf("pinned_in_kernels\n");
    return verdict.finish();
}
