// Shortest paths: as many rounds as nodes at most, and an end as soon as nothing was relaxed.
#include "common.cuh"

__global__ void relax(int *distance, const int *starts, const int *edges, bool *again, int n) {
    int node = blockIdx.x * blockDim.x + threadIdx.x;
    if (node >= n || distance[node] == 1 << 30) return;
    for (int i = starts[node]; i < starts[node + 1]; ++i)
        if (atomicMin(&distance[edges[i]], distance[node] + i % 9 + 1) > distance[node] + i % 9 + 1) *again = true;
}

int main() {
    const int n = 400;
    std::vector<int> starts, edges, distance(n, 1 << 30);
    graph(n, starts, edges);
    distance[0] = 0;
    int *d_starts = on_device<int>(starts.size()), *d_edges = on_device<int>(edges.size()), *d_distance = on_device<int>(n);
    bool *d_again = on_device<bool>(1), again;
    CHECK(cudaMemcpy(d_starts, starts.data(), starts.size() * 4, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(d_edges, edges.data(), edges.size() * 4, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(d_distance, distance.data(), n * 4, cudaMemcpyHostToDevice));
    int rounds = 0;
    for (int i = 0; i < n - 1; ++i) {
        CHECK(cudaMemset(d_again, 0, sizeof(bool)));
        relax<<<(n + 127) / 128, 128>>>(d_distance, d_starts, d_edges, d_again, n);
        CHECK(cudaMemcpy(&again, d_again, sizeof(bool), cudaMemcpyDeviceToHost));
        rounds++;
        if (!again) break;
    }
    CHECK(cudaMemcpy(distance.data(), d_distance, n * 4, cudaMemcpyDeviceToHost));
    printf("%d rounds, %d\n", rounds, distance[n - 1]);
}
