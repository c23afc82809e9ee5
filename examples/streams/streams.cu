// Two streams that work side by side, and an event that makes the second wait for the first.
#include <cstdio>
#include <cstdlib>

static void check(cudaError_t error) {
    if (error != cudaSuccess) {
        std::fprintf(stderr, "streams: %s\n", cudaGetErrorString(error));
        std::exit(1);
    }
}

__global__ void count(unsigned *values, int rounds) {
    unsigned value = threadIdx.x;
    for (int i = 0; i < rounds; ++i) {
        value = value * 1664525u + 1013904223u;
    }
    values[blockIdx.x * blockDim.x + threadIdx.x] = value;
}

__global__ void join(const unsigned *left, const unsigned *right, unsigned *both) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    both[i] = left[i] ^ right[i];
}

int main() {
    const int blocks = 64, threads = 128, n = blocks * threads;
    unsigned *left, *right, *both, first = 1;
    check(cudaMalloc(&left, n * sizeof(unsigned)));
    check(cudaMalloc(&right, n * sizeof(unsigned)));
    check(cudaMalloc(&both, n * sizeof(unsigned)));
    cudaStream_t one, two;
    cudaEvent_t done;
    check(cudaStreamCreate(&one));
    check(cudaStreamCreate(&two));
    check(cudaEventCreate(&done));
    for (int turn = 0; turn < 4; ++turn) {
        count<<<blocks, threads, 0, one>>>(left, 2000);
        check(cudaEventRecord(done, one));
        count<<<blocks, threads, 0, two>>>(right, 2000);
        check(cudaStreamWaitEvent(two, done, 0));
        join<<<blocks, threads, 0, two>>>(left, right, both);
    }
    check(cudaMemcpyAsync(&first, both, sizeof first, cudaMemcpyDeviceToHost, two));
    check(cudaStreamSynchronize(two));
    std::printf("both streams agree: %s\n", first == 0 ? "yes" : "no");
    return first == 0 ? 0 : 1;
}
