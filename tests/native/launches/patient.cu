// Works on the device until it is told otherwise or CUDA fails: a line for every round, so that a test can end the host or
// this program in the middle. `patient ROUNDS [BYTES]`; holds BYTES of device memory meanwhile.
#include <unistd.h>

#include "../support.cuh"

__global__ void add_one(unsigned *values, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        values[i] += 1;
    }
}

int main(int argc, char **argv) {
    const int rounds = argc > 1 ? std::atoi(argv[1]) : 10;
    const size_t held = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1024;
    const int n = 1000;
    void *memory = nullptr;
    CHECK(cudaMalloc(&memory, held));
    CHECK(cudaMemset(memory, 1, held));
    DeviceArray<unsigned> values(n);
    values.zero();
    for (int round = 1; round <= rounds; ++round) {
        add_one<<<8, 128>>>(values.get(), n);
        cudaError_t error = cudaDeviceSynchronize();
        if (error != cudaSuccess) {
            std::printf("round %d: %d %s\n", round, error, cudaGetErrorName(error));
            return 3;
        }
        std::printf("round %d\n", round);
        std::fflush(stdout);
        usleep(20000);
    }
    bool right = values.download() == std::vector<unsigned>(n, rounds);
    std::printf(right ? "PASS\n" : "FAIL\n");
    return right ? 0 : 1;
}
