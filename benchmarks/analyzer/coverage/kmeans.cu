// k-means: the membership comes back in each iteration, the host computes centres and counts changes.
#include "common.cuh"

__global__ void nearest(const float *points, const float *centres, int *member, int n, int k) {
    int point = blockIdx.x * blockDim.x + threadIdx.x;
    if (point >= n) return;
    float best = 1e30f;
    for (int c = 0; c < k; ++c) {
        float dx = points[2 * point] - centres[2 * c], dy = points[2 * point + 1] - centres[2 * c + 1];
        if (dx * dx + dy * dy < best) best = dx * dx + dy * dy, member[point] = c;
    }
}

int main() {
    const int n = 256, k = 5;
    float *points = (float *)malloc(n * 2 * sizeof(float)), *centres = (float *)malloc(k * 2 * sizeof(float));
    int *member = (int *)malloc(n * sizeof(int)), *before = (int *)malloc(n * sizeof(int));
    for (int i = 0; i < 2 * n; ++i) points[i] = (float)((i * 37) % 101);
    for (int i = 0; i < n; ++i) before[i] = -1;
    memcpy(centres, points, k * 2 * sizeof(float));
    float *d_points = on_device<float>(2 * n), *d_centres = on_device<float>(2 * k);
    int *d_member = on_device<int>(n);
    CHECK(cudaMemcpy(d_points, points, n * 2 * sizeof(float), cudaMemcpyHostToDevice));
    int delta, loop = 0;
    do {
        CHECK(cudaMemcpy(d_centres, centres, k * 2 * sizeof(float), cudaMemcpyHostToDevice));
        nearest<<<(n + 127) / 128, 128>>>(d_points, d_centres, d_member, n, k);
        CHECK(cudaDeviceSynchronize());
        CHECK(cudaMemcpy(member, d_member, n * sizeof(int), cudaMemcpyDeviceToHost));
        float sums[2 * k] = {};
        int sizes[k] = {};
        delta = 0;
        for (int i = 0; i < n; ++i) {
            int c = member[i];
            if (before[i] != c) delta++, before[i] = c;
            sizes[c]++;
            sums[2 * c] += points[2 * i];
            sums[2 * c + 1] += points[2 * i + 1];
        }
        for (int c = 0; c < k; ++c)
            if (sizes[c] > 0) centres[2 * c] = sums[2 * c] / sizes[c], centres[2 * c + 1] = sums[2 * c + 1] / sizes[c];
    } while (delta > 0 && loop++ < 500);
    printf("%d iterations, %g\n", loop, centres[0]);
}
