// y = a * x + y, a hundred times: launches and copies to the device, then one copy back.
#include <cstdio>
#include <cstdlib>
#include <vector>

static void check(cudaError_t error) {
    if (error != cudaSuccess) {
        std::fprintf(stderr, "saxpy: %s\n", cudaGetErrorString(error));
        std::exit(1);
    }
}

__global__ void saxpy(int n, float a, const float *x, float *y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        y[i] += a * x[i];
    }
}

int main() {
    const int n = 1 << 16, times = 100;
    std::vector<float> x(n, 2.0f), y(n, 1.0f);
    float *dx, *dy;
    check(cudaMalloc(&dx, n * sizeof(float)));
    check(cudaMalloc(&dy, n * sizeof(float)));
    check(cudaMemcpy(dx, x.data(), n * sizeof(float), cudaMemcpyHostToDevice));
    check(cudaMemcpy(dy, y.data(), n * sizeof(float), cudaMemcpyHostToDevice));
    for (int i = 0; i < times; ++i) {
        saxpy<<<(n + 255) / 256, 256>>>(n, 0.5f, dx, dy);
        check(cudaGetLastError());
    }
    check(cudaMemcpy(y.data(), dy, n * sizeof(float), cudaMemcpyDeviceToHost));
    for (float value : y) {
        if (value != 1.0f + times) {
            std::printf("wrong: %g\n", value);
            return 1;
        }
    }
    std::printf("%d values are right\n", n);
    check(cudaFree(dx));
    check(cudaFree(dy));
    return 0;
}
