// A word of status is read in every hundredth iteration only; the iterations between need nothing of the device.
#include "../support.cuh"

__global__ void relax(float *x, int n, float step, int *status) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        x[i] -= step * (x[i] - i);
        if (i == n - 1) {
            *status = x[i] > 0.999f * i;
        }
    }
}

int main() {
    const int n = 512;
    float *x;
    int *device_status, status = 0, iterations = 0;
    CHECK(cudaMalloc(&x, n * sizeof(float)));
    CHECK(cudaMemset(x, 0, n * sizeof(float)));
    CHECK(cudaMalloc(&device_status, sizeof(int)));
    while (!status && iterations < 5000) {
        relax<<<n / 128, 128>>>(x, n, 0.01f, device_status);
        if (++iterations % 100 == 0) {
            CHECK(cudaMemcpy(&status, device_status, sizeof status, cudaMemcpyDeviceToHost));
        }
    }
    CHECK_LAUNCH();
    std::vector<float> found(n);
    CHECK(cudaMemcpy(found.data(), x, n * sizeof(float), cudaMemcpyDeviceToHost));
    Verdict verdict;
    verdict.expect(found[n - 1] > 0.999f * (n - 1) && found[n - 1] <= n - 1, "the last value");
    std::printf("every_hundredth %d iterations\n", iterations);
    return verdict.finish();
}
