// Jacobi on a plate; the largest change comes back in each iteration, the arrays swap.
#include "common.cuh"

__global__ void relax(const float *from, float *to, int *worst, int n) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < 1 || y < 1 || x >= n - 1 || y >= n - 1) return;
    float value = 0.25f * (from[y * n + x - 1] + from[y * n + x + 1] + from[(y - 1) * n + x] + from[(y + 1) * n + x]);
    atomicMax(worst, __float_as_int(fabsf(value - from[y * n + x])));
    to[y * n + x] = value;
}

int main() {
    const int n = 34, limit = 1000;
    const float tolerance = 1e-2f;
    float *plate = (float *)calloc(n * n, sizeof(float));
    for (int i = 0; i < n; ++i) plate[i] = 100;
    float *d_a = on_device<float>(n * n), *d_b = on_device<float>(n * n), *d_error = on_device<float>(1);
    CHECK(cudaMemcpy(d_a, plate, n * n * 4, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(d_b, plate, n * n * 4, cudaMemcpyHostToDevice));
    dim3 block(16, 16), grid((n + 15) / 16, (n + 15) / 16);
    cudaEvent_t begin, end;
    CHECK(cudaEventCreate(&begin));
    CHECK(cudaEventCreate(&end));
    CHECK(cudaEventRecord(begin));
    float error = 1;
    int iteration = 0;
    while (error > tolerance && iteration < limit) {
        CHECK(cudaMemset(d_error, 0, sizeof(float)));
        relax<<<grid, block>>>(d_a, d_b, (int *)d_error, n);
        CHECK(cudaPeekAtLastError());
        CHECK(cudaMemcpy(&error, d_error, sizeof(float), cudaMemcpyDeviceToHost));
        float *kept = d_a;
        d_a = d_b;
        d_b = kept;
        if (iteration % 100 == 0) printf("%5d, %0.6f\n", iteration, error);
        iteration++;
    }
    CHECK(cudaEventRecord(end));
    CHECK(cudaEventSynchronize(end));
    printf("%d iterations\n", iteration);
}
