// Four host threads launch at once, each with its own data, into own streams and into their default stream. Built also
// with per-thread default streams.
#include <thread>

#include "../support.cuh"

__global__ void scramble(unsigned *values, unsigned seed, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        values[i] = values[i] * 1664525u + seed + i;
    }
}

static bool work(unsigned seed, bool own_stream) {
    const int n = 3000, rounds = 25;
    cudaStream_t stream = nullptr;
    if (own_stream) {
        CHECK(cudaStreamCreate(&stream));
    }
    std::vector<unsigned> values(n, seed), expected(n, seed);
    unsigned *device = nullptr;
    CHECK(cudaMalloc(&device, n * sizeof(unsigned)));
    CHECK(cudaMemcpyAsync(device, values.data(), n * sizeof(unsigned), cudaMemcpyHostToDevice, stream));
    for (int round = 0; round < rounds; ++round) {
        scramble<<<(n + 127) / 128, 128, 0, stream>>>(device, seed + round, n);
        CHECK_LAUNCH();
        for (int i = 0; i < n; ++i) {
            expected[i] = expected[i] * 1664525u + seed + round + i;
        }
        if (round % 10 == 9) {
            CHECK(cudaStreamSynchronize(stream));
        }
        // The last error belongs to the thread.
        if (round == static_cast<int>(seed % 20)) {
            if (cudaSetDevice(50) != cudaErrorInvalidDevice || cudaGetLastError() != cudaErrorInvalidDevice) {
                return false;
            }
        }
    }
    CHECK(cudaMemcpyAsync(values.data(), device, n * sizeof(unsigned), cudaMemcpyDeviceToHost, stream));
    CHECK(cudaStreamSynchronize(stream));
    CHECK(cudaFree(device));
    if (own_stream) {
        CHECK(cudaStreamDestroy(stream));
    }
    return values == expected && cudaGetLastError() == cudaSuccess;
}

int main() {
    Verdict verdict;
    for (bool own_stream : {true, false}) {
        bool right[4] = {};
        std::vector<std::thread> threads;
        for (unsigned t = 0; t < 4; ++t) {
            threads.emplace_back([&right, t, own_stream] { right[t] = work(1000 * t + 17, own_stream); });
        }
        for (std::thread &thread : threads) {
            thread.join();
        }
        for (bool one : right) {
            verdict.expect(one, own_stream ? "a thread with its own stream" : "a thread with the default stream");
        }
    }
    std::printf("threads\n");
    return verdict.finish();
}
