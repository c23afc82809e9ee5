// Facilities are tried one after another; costs of a whole block come back, and the host decides whether one opens.
#include "common.cuh"

__global__ void gains(const float *points, const int *assigned, float *lower, int candidate, int n, int k) {
    int i = threadIdx.x;
    if (i < k) lower[i] = 0;
    __syncthreads();
    if (i < n) atomicAdd(&lower[assigned[i] % k], fabsf(points[i] - points[candidate]) - 20);
}

__global__ void open(int *assigned, int candidate, int n) {
    int i = threadIdx.x;
    if (i < n && i % 3 == candidate % 3) assigned[i] = candidate;
}

int main() {
    const int n = 200, k = 16;
    std::vector<float> points(n);
    for (int i = 0; i < n; ++i) points[i] = (float)((i * 31) % 97);
    float *d_points = on_device<float>(n), *d_lower = on_device<float>(k);
    int *d_assigned = on_device<int>(n);
    CHECK(cudaMemcpy(d_points, points.data(), n * 4, cudaMemcpyHostToDevice));
    float *lower = (float *)malloc(k * sizeof(float)), change = 0, cost = 1000;
    int opened = 0;
    unsigned long draw = 7;
    for (int i = 0; i < 60; ++i) {
        draw = (draw * 25214903917ul + 11) & 0xffffffffffff;
        int candidate = (int)(draw >> 17) % n;
        gains<<<1, 256>>>(d_points, d_assigned, d_lower, candidate, n, k);
        CHECK(cudaMemcpy(lower, d_lower, k * sizeof(float), cudaMemcpyDeviceToHost));
        float gain = 10;
        for (int j = 0; j < k; ++j)
            if (lower[j] > 0) gain -= lower[j];
        if (gain < 0) {
            open<<<1, 256>>>(d_assigned, candidate, n);
            change -= gain;
            opened++;
        }
        if (cost - change < 1) break;
    }
    printf("%d opened, %g\n", opened, change);
}
