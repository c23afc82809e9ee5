// Sixteen buffers of 2 MiB, used one after the other, twice: 32 MiB in all.
#include <cstdio>
#include <cstdlib>
#include <vector>

static void check(cudaError_t error) {
    if (error != cudaSuccess) {
        std::fprintf(stderr, "buffers: %s\n", cudaGetErrorString(error));
        std::exit(1);
    }
}

__global__ void add(int *values, int n, int what) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        values[i] += what;
    }
}

int main() {
    const int buffers = 16, n = 512 * 1024;
    int *device[buffers];
    for (int *&each : device) {
        check(cudaMalloc(&each, n * sizeof(int)));
        check(cudaMemset(each, 0, n * sizeof(int)));
    }
    for (int round = 1; round <= 2; ++round) {
        for (int number = 0; number < buffers; ++number) {
            add<<<n / 256, 256>>>(device[number], n, round * number);
        }
    }
    std::vector<int> values(n);
    for (int number = 0; number < buffers; ++number) {
        check(cudaMemcpy(values.data(), device[number], n * sizeof(int), cudaMemcpyDeviceToHost));
        if (values[0] != 3 * number || values[n - 1] != 3 * number) {
            std::printf("buffer %d is wrong\n", number);
            return 1;
        }
        check(cudaFree(device[number]));
    }
    std::printf("%d MiB are right\n", buffers * 2);
    return 0;
}
