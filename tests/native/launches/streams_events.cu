// Two streams with pinned memory, asynchronous copies and events: a stream waits for another, times are sane, queries
// end, work of a destroyed stream is done.
#include <algorithm>

#include "../support.cuh"

__global__ void scale(const int *from, int *to, int factor, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        to[i] = from[i] * factor;
    }
}

__global__ void add(const int *a, const int *b, int *sum, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        sum[i] = a[i] + b[i];
    }
}

int main() {
    const int n = 50000;
    const size_t bytes = n * sizeof(int);
    Verdict verdict;
    int *host[2], *result;
    CHECK(cudaMallocHost(&host[0], bytes));
    CHECK(cudaHostAlloc(&host[1], bytes, cudaHostAllocDefault));
    CHECK(cudaHostAlloc(&result, bytes, cudaHostAllocPortable));
    for (int i = 0; i < n; ++i) {
        host[0][i] = i;
        host[1][i] = 7 - i * 3;
        result[i] = -1;
    }
    DeviceArray<int> a(n), b(n), scaled_a(n), scaled_b(n), sum(n);

    cudaStream_t streams[2];
    CHECK(cudaStreamCreate(&streams[0]));
    CHECK(cudaStreamCreateWithFlags(&streams[1], cudaStreamNonBlocking));
    cudaEvent_t start, scaled, done;
    CHECK(cudaEventCreate(&start));
    CHECK(cudaEventCreateWithFlags(&scaled, cudaEventDisableTiming));
    CHECK(cudaEventCreate(&done));

    const int blocks = (n + 255) / 256;
    CHECK(cudaEventRecord(start, streams[0]));
    CHECK(cudaMemcpyAsync(a.get(), host[0], bytes, cudaMemcpyHostToDevice, streams[0]));
    scale<<<blocks, 256, 0, streams[0]>>>(a.get(), scaled_a.get(), 5, n);
    CHECK(cudaMemcpyAsync(b.get(), host[1], bytes, cudaMemcpyHostToDevice, streams[1]));
    scale<<<blocks, 256, 0, streams[1]>>>(b.get(), scaled_b.get(), -2, n);
    CHECK(cudaEventRecord(scaled, streams[1]));
    CHECK(cudaStreamWaitEvent(streams[0], scaled, 0));
    add<<<blocks, 256, 0, streams[0]>>>(scaled_a.get(), scaled_b.get(), sum.get(), n);
    CHECK(cudaMemcpyAsync(result, sum.get(), bytes, cudaMemcpyDeviceToHost, streams[0]));
    CHECK(cudaEventRecord(done, streams[0]));
    CHECK_LAUNCH();
    CHECK(cudaEventSynchronize(done));
    bool right = true;
    for (int i = 0; i < n; ++i) {
        right = right && result[i] == i * 5 + (7 - i * 3) * -2;
    }
    verdict.expect(right, "sum over two streams");
    verdict.expect(cudaEventQuery(done) == cudaSuccess, "a synchronized event is done");
    verdict.expect(cudaStreamQuery(streams[0]) == cudaSuccess, "its stream has no work left");

    float milliseconds = -1.0f;
    CHECK(cudaEventElapsedTime(&milliseconds, start, done));
    verdict.expect(milliseconds >= 0.0f && milliseconds < 60000.0f, "elapsed time");
    verdict.expect(cudaEventElapsedTime(&milliseconds, start, scaled) == cudaErrorInvalidResourceHandle,
                   "an event without timing has no elapsed time");
    verdict.expect(cudaGetLastError() == cudaErrorInvalidResourceHandle, "last error");

    // Pinned memory may be written again only after the copy: several rounds through one buffer.
    bool rounds_right = true;
    for (int round = 0; round < 5; ++round) {
        for (int i = 0; i < n; ++i) {
            host[0][i] = round * 1000 + i % 1000;
        }
        CHECK(cudaMemcpyAsync(a.get(), host[0], bytes, cudaMemcpyHostToDevice, streams[0]));
        scale<<<blocks, 256, 0, streams[0]>>>(a.get(), scaled_a.get(), round + 1, n);
        CHECK(cudaMemcpyAsync(result, scaled_a.get(), bytes, cudaMemcpyDeviceToHost, streams[0]));
        CHECK(cudaStreamSynchronize(streams[0]));
        for (int i = 0; i < n; ++i) {
            rounds_right = rounds_right && result[i] == (round * 1000 + i % 1000) * (round + 1);
        }
    }
    verdict.expect(rounds_right, "rounds through one pinned buffer");

    // A copy from pageable memory has captured its source when it returns.
    std::vector<int> pageable(n, 3);
    CHECK(cudaMemcpyAsync(a.get(), pageable.data(), bytes, cudaMemcpyHostToDevice, streams[0]));
    std::fill(pageable.begin(), pageable.end(), 4);
    CHECK(cudaMemsetAsync(b.get(), 1, bytes, streams[0]));
    add<<<blocks, 256, 0, streams[0]>>>(a.get(), b.get(), sum.get(), n);
    CHECK(cudaStreamSynchronize(streams[0]));
    verdict.expect(sum.download() == std::vector<int>(n, 3 + 0x01010101), "pageable source, asynchronous memset");

    int least = 0, greatest = 0, priority = 99;
    unsigned flags = 99;
    cudaStream_t urgent;
    CHECK(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    verdict.expect(greatest <= least, "priority range");
    CHECK(cudaStreamCreateWithPriority(&urgent, cudaStreamNonBlocking, greatest));
    CHECK(cudaStreamGetPriority(urgent, &priority));
    CHECK(cudaStreamGetFlags(urgent, &flags));
    verdict.expect(priority == greatest && flags == cudaStreamNonBlocking, "stream's priority and flags");
    scale<<<blocks, 256, 0, urgent>>>(a.get(), scaled_a.get(), 9, n);
    CHECK(cudaStreamDestroy(urgent));  // its work is still done
    CHECK(cudaDeviceSynchronize());
    verdict.expect(scaled_a.download() == std::vector<int>(n, 27), "work of a destroyed stream");

    CHECK(cudaEventDestroy(start));
    CHECK(cudaEventDestroy(scaled));
    CHECK(cudaEventDestroy(done));
    CHECK(cudaStreamDestroy(streams[0]));
    CHECK(cudaStreamDestroy(streams[1]));
    CHECK(cudaFreeHost(host[0]));
    CHECK(cudaFreeHost(host[1]));
    CHECK(cudaFreeHost(result));
    std::printf("streams_events %d values\n", n);
    return verdict.finish();
}
