// Loops of CUDA calls for test_manifest.py, one scenario a run: which, how often, where it ends early. `left` is how often the loop's calls
// are still to come, for the manifests that the test writes.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cuda_runtime.h>
#include <thread>
#include <time.h>
#include <vector>

extern "C" {
volatile long left;   // in this execution of the loop
volatile long always; // a wrong prediction
}

__global__ void put(int *to, int value) { *to = value * 3 + 1; }
__global__ void wait_a_while(int *to, int turns) {
    int value = 1;
    for (int turn = 0; turn < turns; ++turn)
        value = value * 1664525 + 1013904223;
    *to = value;
}

static void check(cudaError_t code) {
    if (code != cudaSuccess) {
        std::printf("error %d\n", static_cast<int>(code));
        std::exit(1);
    }
}

static unsigned long checksum(const std::vector<int> &values) {
    unsigned long sum = 0;
    for (int value : values)
        sum = sum * 31 + static_cast<unsigned>(value);
    return sum;
}

// N copies to the host, each of the iteration's result.
static void reads(int n, int *device) {
    std::vector<int> values(n);
    for (int i = 0; i < n; ++i) {
        left = n - 1 - i;
        put<<<1, 1>>>(device, i);
        check(cudaMemcpy(&values[i], device, sizeof(int), cudaMemcpyDeviceToHost));
    }
    std::printf("%lu\n", checksum(values));
}

// The same, and then a call that is no copy.
static void reads_then_free(int n, int *device) {
    std::vector<int> values(n);
    for (int i = 0; i < n; ++i) {
        put<<<1, 1>>>(device, i);
        check(cudaMemcpy(&values[i], device, sizeof(int), cudaMemcpyDeviceToHost));
    }
    check(cudaFree(device));
    std::printf("%lu\n", checksum(values));
}

static void reads_then_synchronize(int n, int *device) {
    std::vector<int> values(n);
    for (int i = 0; i < n; ++i) {
        put<<<1, 1>>>(device, i);
        check(cudaMemcpy(&values[i], device, sizeof(int), cudaMemcpyDeviceToHost));
    }
    check(cudaDeviceSynchronize());
    std::printf("%lu\n", checksum(values));
}

// What was copied to the host is what the next kernel is passed: its parameter is the variable itself.
static void passed_on(int n, int *device) {
    int *other = nullptr, *place = nullptr, value = 0;
    void *parameters[] = {&place, &value};
    check(cudaMalloc(&other, sizeof(int) * n));
    for (int i = 0; i < n; ++i) {
        left = n - 1 - i;
        place = other + i;
        put<<<1, 1>>>(device, i);
        check(cudaMemcpy(&value, device, sizeof(int), cudaMemcpyDeviceToHost));
        check(cudaLaunchKernel(reinterpret_cast<const void *>(put), 1, 1, parameters, 0, nullptr));
    }
    std::vector<int> again(n);
    check(cudaMemcpy(again.data(), other, sizeof(int) * n, cudaMemcpyDeviceToHost));
    std::printf("%lu\n", checksum(again));
}

// What was copied to the host goes back to the device, in the same loop.
static void there_and_back(int n, int *device) {
    std::vector<int> values(n);
    int *other = nullptr;
    check(cudaMalloc(&other, sizeof(int) * n));
    for (int i = 0; i < n; ++i) {
        left = n - 1 - i;
        put<<<1, 1>>>(device, i);
        check(cudaMemcpy(&values[i], device, sizeof(int), cudaMemcpyDeviceToHost));
        check(cudaMemcpy(other + i, &values[i], sizeof(int), cudaMemcpyHostToDevice));
    }
    std::vector<int> again(n);
    check(cudaMemcpy(again.data(), other, sizeof(int) * n, cudaMemcpyDeviceToHost));
    std::printf("%lu %lu\n", checksum(values), checksum(again));
}

static void synchronizations(int n, int *device) {
    int value = 0;
    for (int i = 0; i < n; ++i) {
        left = n - 1 - i;
        put<<<1, 1>>>(device, i);
        check(cudaDeviceSynchronize());
    }
    check(cudaMemcpy(&value, device, sizeof value, cudaMemcpyDeviceToHost));
    std::printf("%d\n", value);
}

// After a synchronization a query is answered with success.
static void queries(int n, int *device) {
    int ready = 0;
    for (int i = 0; i < n; ++i) {
        wait_a_while<<<1, 1>>>(device, 200000);
        check(cudaStreamSynchronize(0));
        ready += cudaStreamQuery(0) == cudaSuccess;
    }
    std::printf("%d\n", ready);
}

// The copies to pinned memory must be there when a synchronization returns.
static void pinned(int n, int *device) {
    int *memory = nullptr;
    unsigned long sum = 0;
    check(cudaMallocHost(&memory, sizeof(int)));
    for (int i = 0; i < n; ++i) {
        put<<<1, 1>>>(device, i);
        check(cudaMemcpyAsync(memory, device, sizeof(int), cudaMemcpyDeviceToHost));
        check(cudaStreamSynchronize(0));
        sum = sum * 31 + static_cast<unsigned>(*memory);
    }
    check(cudaFreeHost(memory));
    std::printf("%lu\n", sum);
}

static void registered(int n, int *device) {
    std::vector<int> memory(1024);
    check(cudaHostRegister(memory.data(), memory.size() * sizeof(int), 0));
    for (int i = 0; i < n; ++i) {
        put<<<1, 1>>>(device, i);
        check(cudaDeviceSynchronize());
    }
    check(cudaHostUnregister(memory.data()));
    std::printf("done\n");
}

// A call that fails in the loop: from then on nothing is answered early, and what was deferred is there.
static void failing(int n, int *device) {
    std::vector<int> values(n);
    int seen = 0;
    for (int i = 0; i < n; ++i) {
        left = n - 1 - i;
        put<<<1, 1>>>(device, i);
        cudaMemcpy(&values[i], device, sizeof(int), cudaMemcpyDeviceToHost);
        if (i == n / 2 && cudaMemset(reinterpret_cast<void *>(8), 0, 4) != cudaSuccess)
            for (int j = 0; j <= i; ++j)
                seen += values[j] == j * 3 + 1;
    }
    std::printf("%d %lu\n", seen, checksum(values));
}

// A kernel faults in the middle: the program learns of it, at the latest from the last copy.
static void faulting(int n, int *device) {
    int value = 0;
    cudaError_t code = cudaSuccess;
    for (int i = 0; i < n && code == cudaSuccess; ++i) {
        left = n - 1 - i;
        put<<<1, 1>>>(i == n / 2 ? reinterpret_cast<int *>(16) : device, i);
        code = cudaMemcpy(&value, device, sizeof(int), cudaMemcpyDeviceToHost);
    }
    std::printf("%s\n", code == cudaSuccess ? "success" : "failed");
}

static void nested(int n, int *device) {
    std::vector<int> values(n);
    for (int i = 0; i < n; ++i)
        for (int j = 0; j < 4; ++j) {
            left = 3 - j;
            put<<<1, 1>>>(device, i * 4 + j);
            check(cudaMemcpy(&values[i], device, sizeof(int), cudaMemcpyDeviceToHost));
        }
    std::printf("%lu\n", checksum(values));
}

static double seconds() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// The clock, read after a synchronization.
static void timed(int n, int *device) {
    double start = seconds();
    for (int i = 0; i < n; ++i) {
        wait_a_while<<<1, 1>>>(device, 1000);
        check(cudaDeviceSynchronize());
    }
    double end = seconds();
    std::printf("%d\n", end >= start && clock() != -1 && time(nullptr) > 0);
}

// Two threads, each with a loop of its own.
static void threads(int n, int *device) {
    unsigned long sums[2];
    auto work = [&](int number) {
        std::vector<int> values(n);
        int *own = nullptr;
        check(cudaMalloc(&own, sizeof(int)));
        for (int i = 0; i < n; ++i) {
            put<<<1, 1>>>(own, i + number);
            check(cudaMemcpy(&values[i], own, sizeof(int), cudaMemcpyDeviceToHost));
        }
        check(cudaFree(own));
        sums[number] = checksum(values);
    };
    std::thread first(work, 0), second(work, 1);
    first.join();
    second.join();
    std::printf("%lu %lu\n", sums[0], sums[1]);
    check(cudaFree(device));
}

// Only launches; the manifest may say anything.
static void launches(int n, int *device) {
    int value = 0;
    for (int i = 0; i < n; ++i) {
        left = n - 1 - i;
        put<<<1, 1>>>(device, i);
    }
    check(cudaMemcpy(&value, device, sizeof value, cudaMemcpyDeviceToHost));
    std::printf("%d\n", value);
}

int main(int count, char **words) {
    static const struct {
        const char *name;
        void (*run)(int, int *);
    } scenarios[] = {{"reads", reads},
                     {"reads_then_free", reads_then_free},
                     {"reads_then_synchronize", reads_then_synchronize},
                     {"passed_on", passed_on},
                     {"there_and_back", there_and_back},
                     {"synchronizations", synchronizations},
                     {"queries", queries},
                     {"pinned", pinned},
                     {"registered", registered},
                     {"failing", failing},
                     {"faulting", faulting},
                     {"nested", nested},
                     {"timed", timed},
                     {"threads", threads},
                     {"launches", launches}};
    if (count != 3)
        return 2;
    int *device = nullptr;
    always = 5;
    check(cudaMalloc(&device, sizeof(int)));
    put<<<1, 1>>>(device, 0); // opens the kernels' module
    wait_a_while<<<1, 1>>>(device, 1);
    check(cudaDeviceSynchronize());
    for (const auto &scenario : scenarios)
        if (std::strcmp(scenario.name, words[1]) == 0) {
            scenario.run(std::atoi(words[2]), device);
            return 0;
        }
    return 2;
}
