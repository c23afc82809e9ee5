// PageRank until the ranks change little; ranks live in two arrays that take turns.
#include "common.cuh"

__global__ void contribute(const float *rank, float *next, const int *starts, const int *edges, int n) {
    int node = blockIdx.x * blockDim.x + threadIdx.x;
    if (node >= n) return;
    int degree = starts[node + 1] - starts[node];
    for (int i = starts[node]; i < starts[node + 1]; ++i) atomicAdd(&next[edges[i]], rank[node] / degree);
}

__global__ void damp(const float *rank, float *next, float *difference, float d, int n) {
    int node = blockIdx.x * blockDim.x + threadIdx.x;
    if (node >= n) return;
    next[node] = (1 - d) / n + d * next[node];
    atomicAdd(difference, fabsf(next[node] - rank[node]));
}

int main() {
    const int n = 300;
    std::vector<int> starts, edges;
    graph(n, starts, edges);
    std::vector<float> ranks(n, 1.0f / n);
    float *d_rank[2] = {on_device<float>(n), on_device<float>(n)}, *d_difference = on_device<float>(1);
    int *d_starts = on_device<int>(starts.size()), *d_edges = on_device<int>(edges.size());
    CHECK(cudaMemcpy(d_starts, starts.data(), starts.size() * 4, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(d_edges, edges.data(), edges.size() * 4, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(d_rank[0], ranks.data(), n * 4, cudaMemcpyHostToDevice));
    int current = 0, iterations = 0;
    float difference = 1;
    while (difference > 1e-5f && iterations < 50) {
        CHECK(cudaMemset(d_rank[1 - current], 0, n * sizeof(float)));
        CHECK(cudaMemset(d_difference, 0, sizeof(float)));
        contribute<<<(n + 63) / 64, 64>>>(d_rank[current], d_rank[1 - current], d_starts, d_edges, n);
        damp<<<(n + 63) / 64, 64>>>(d_rank[current], d_rank[1 - current], d_difference, 0.85f, n);
        CHECK(cudaDeviceSynchronize());
        CHECK(cudaMemcpy(&difference, d_difference, sizeof(float), cudaMemcpyDeviceToHost));
        current = 1 - current;
        ++iterations;
    }
    printf("%d iterations\n", iterations);
}
