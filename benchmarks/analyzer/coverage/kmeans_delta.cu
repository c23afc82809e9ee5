// k-means on the device: only the number of changes comes back.
#include "common.cuh"

__global__ void assign(const float *points, const float *centres, int *member, int *changed, int n, int k) {
    int point = blockIdx.x * blockDim.x + threadIdx.x;
    if (point >= n) return;
    int found = 0;
    for (int c = 1; c < k; ++c)
        if (fabsf(points[point] - centres[c]) < fabsf(points[point] - centres[found])) found = c;
    if (member[point] != found) member[point] = found, atomicAdd(changed, 1);
}

__global__ void centre(const float *points, float *centres, const int *member, int n) {
    float sum = 0, count = 0;
    for (int i = 0; i < n; ++i)
        if (member[i] == (int)threadIdx.x) sum += points[i], count += 1;
    if (count > 0) centres[threadIdx.x] = sum / count;
}

int main(int argc, char **argv) {
    int n = 2000, k = argc > 1 ? atoi(argv[1]) : 8, iterations = 0, changed;
    float threshold = 0.001f, delta;
    std::vector<float> points(n);
    for (int i = 0; i < n; ++i) points[i] = (float)((i * 7919) % 1000);
    float *d_points = on_device<float>(n), *d_centres = on_device<float>(k);
    int *d_member = on_device<int>(n), *d_changed = on_device<int>(1);
    CHECK(cudaMemcpy(d_points, points.data(), n * 4, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(d_centres, points.data(), k * 4, cudaMemcpyHostToDevice));
    double start = seconds();
    do {
        changed = 0;
        CHECK(cudaMemcpy(d_changed, &changed, sizeof changed, cudaMemcpyHostToDevice));
        assign<<<(n + 255) / 256, 256>>>(d_points, d_centres, d_member, d_changed, n, k);
        centre<<<1, k>>>(d_points, d_centres, d_member, n);
        CHECK(cudaMemcpy(&changed, d_changed, sizeof changed, cudaMemcpyDeviceToHost));
        delta = (float)changed / n;
        iterations++;
    } while (delta > threshold && iterations < 100);
    fprintf(stderr, "%f s\n", seconds() - start);
    printf("%d iterations\n", iterations);
}
