// What the benchmarks run in the guest. Prints one line of JSON: medians in microseconds.
//   guest launch COUNT          COUNT launches of a kernel with four arguments, then one synchronize
//   guest latency ROUNDS        launch + synchronize, and a copy of 4 bytes to the host, one at a time
//   guest copies BYTES ROUNDS   copies of BYTES to the device (waited for) and to the host
//   guest upload BYTES ROUNDS same|fresh|zeros   copies of BYTES to the device, waited for
// Beside each: the same thing without a device, in this process (an append of a launch's bytes, memcpy).

#include <cuda_runtime.h>

#include "check.cuh"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

__global__ void four(int *a, int *b, float scale, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) b[i] = int(a[i] * scale);
}

static double now() {
    using clock = std::chrono::steady_clock;
    return std::chrono::duration<double, std::micro>(clock::now().time_since_epoch()).count();
}

static double median(std::vector<double> values) {
    if (values.empty()) return 0;
    std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
    return values[values.size() / 2];
}

// The median over batches of the mean time of one call; single calls are too short for the clock.
template <typename Call>
static double median_of_batches(int count, int batch, Call call) {
    std::vector<double> times;
    for (int done = 0; done < count; done += batch) {
        double start = now();
        for (int i = 0; i < batch; ++i) call();
        times.push_back((now() - start) / batch);
    }
    return median(times);
}

// A launch writes 80 bytes of record; this only writes them.
struct Tape {
    std::vector<char> bytes = std::vector<char>(1 << 20);
    size_t at = 0;
    __attribute__((noinline)) void append(const void *data, size_t size) {
        if (at + size > bytes.size()) at = 0;
        std::memcpy(&bytes[at], data, size);
        at += size;
    }
};

static void launch(int count) {
    int *a, *b;
    OK(cudaMalloc(&a, 4096));
    OK(cudaMalloc(&b, 4096));
    four<<<1, 32>>>(a, b, 1.0f, 32);  // opens the module
    OK(cudaDeviceSynchronize());
    double start = now();
    double each = median_of_batches(count, 100, [&] { four<<<1, 32>>>(a, b, 1.0f, 32); });
    OK(cudaDeviceSynchronize());
    double amortised = (now() - start) / std::max(count, 1);
    Tape tape;
    char record[80] = {1};
    double append = median_of_batches(count, 100, [&] { tape.append(record, sizeof record); });
    std::printf("{\"launch\": %.4f, \"amortised\": %.4f, \"append\": %.4f}\n", each, amortised, append);
}

static void latency(int rounds) {
    int *a, *b, value = 0;
    OK(cudaMalloc(&a, 4096));
    OK(cudaMalloc(&b, 4096));
    OK(cudaMemset(a, 0, 4096));
    auto synchronize = [&] {
        four<<<1, 32>>>(a, b, 1.0f, 32);
        OK(cudaDeviceSynchronize());
    };
    auto copy = [&] { OK(cudaMemcpy(&value, b, 4, cudaMemcpyDeviceToHost)); };
    for (int i = 0; i < rounds / 10; ++i) synchronize(), copy();
    double launched = median_of_batches(rounds, 1, synchronize), copied = median_of_batches(rounds, 1, copy);
    std::printf("{\"launch_synchronize\": %.4f, \"copy_4_bytes\": %.4f}\n", launched, copied);
}

static void copies(size_t bytes, int rounds) {
    char *device;
    OK(cudaMalloc(&device, bytes));
    std::vector<char> one(bytes, 1), two(bytes, 2);
    auto to_device = [&] {
        OK(cudaMemcpy(device, one.data(), bytes, cudaMemcpyHostToDevice));
        OK(cudaDeviceSynchronize());
    };
    auto to_host = [&] { OK(cudaMemcpy(two.data(), device, bytes, cudaMemcpyDeviceToHost)); };
    auto plain = [&] {
        std::memcpy(two.data(), one.data(), bytes);
        asm volatile("" ::"r"(two.data()) : "memory");
    };
    to_device(), to_host(), plain();
    double up = median_of_batches(rounds, 1, to_device), down = median_of_batches(rounds, 1, to_host);
    double memcpy_time = median_of_batches(rounds, 1, plain);
    std::printf("{\"to_device\": %.4f, \"to_host\": %.4f, \"memcpy\": %.4f}\n", up, down, memcpy_time);
}

// Copies of BYTES to the device: the same each time, new noise each time, or mostly zeros; the time of one.
static void upload(size_t bytes, int rounds, const char *kind) {
    char *device;
    OK(cudaMalloc(&device, bytes));
    std::vector<unsigned long long> words(bytes / 8);
    unsigned long long state = 88172645463325252ull;
    auto renew = [&] {
        for (auto &word : words) state ^= state << 13, state ^= state >> 7, state ^= state << 17, word = state;
    };
    bool fresh = !std::strcmp(kind, "fresh"), zeros = !std::strcmp(kind, "zeros");
    if (!zeros) renew();
    std::vector<double> times;
    for (int i = 0; i <= rounds; i++) {
        if (fresh) renew();
        words[i % words.size()] = zeros ? i : words[i % words.size()];
        double start = now();
        OK(cudaMemcpy(device, words.data(), bytes, cudaMemcpyHostToDevice));
        OK(cudaDeviceSynchronize());
        if (i) times.push_back(now() - start);
    }
    std::printf("{\"upload\": %.4f}\n", median(times));
}

int main(int argc, char **argv) {
    if (argc == 3 && !std::strcmp(argv[1], "launch")) launch(std::atoi(argv[2]));
    else if (argc == 3 && !std::strcmp(argv[1], "latency")) latency(std::atoi(argv[2]));
    else if (argc == 4 && !std::strcmp(argv[1], "copies")) copies(std::atol(argv[2]), std::atoi(argv[3]));
    else if (argc == 5 && !std::strcmp(argv[1], "upload")) upload(std::atol(argv[2]), std::atoi(argv[3]), argv[4]);
    else return 2;
    return 0;
}
