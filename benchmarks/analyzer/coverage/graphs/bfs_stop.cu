// Breadth-first search; a flag goes to the device and comes back in each level.
#include "common.cuh"

__global__ void expand(const int *starts, const int *edges, char *mask, char *next, const char *seen, int *cost, int n) {
    int node = blockIdx.x * blockDim.x + threadIdx.x;
    if (node >= n || !mask[node]) return;
    mask[node] = 0;
    for (int i = starts[node]; i < starts[node + 1]; ++i)
        if (!seen[edges[i]]) cost[edges[i]] = cost[node] + 1, next[edges[i]] = 1;
}

__global__ void commit(char *mask, char *next, char *seen, bool *over, int n) {
    int node = blockIdx.x * blockDim.x + threadIdx.x;
    if (node < n && next[node]) mask[node] = seen[node] = 1, *over = true, next[node] = 0;
}

int main() {
    int n = 1000;
    std::vector<int> starts, edges;
    graph(n, starts, edges);
    int *d_starts = on_device<int>(starts.size()), *d_edges = on_device<int>(edges.size()), *d_cost = on_device<int>(n);
    char *d_mask = on_device<char>(n), *d_next = on_device<char>(n), *d_seen = on_device<char>(n), one = 1;
    bool *d_over = on_device<bool>(1);
    cudaMemcpy(d_starts, starts.data(), starts.size() * 4, cudaMemcpyHostToDevice);
    cudaMemcpy(d_edges, edges.data(), edges.size() * 4, cudaMemcpyHostToDevice);
    cudaMemcpy(d_mask, &one, 1, cudaMemcpyHostToDevice);
    cudaMemcpy(d_seen, &one, 1, cudaMemcpyHostToDevice);
    dim3 grid((n + 255) / 256, 1, 1), threads(256, 1, 1);
    int k = 0;
    bool stop;
    do {
        stop = false;
        cudaMemcpy(d_over, &stop, sizeof(bool), cudaMemcpyHostToDevice);
        expand<<<grid, threads, 0>>>(d_starts, d_edges, d_mask, d_next, d_seen, d_cost, n);
        commit<<<grid, threads, 0>>>(d_mask, d_next, d_seen, d_over, n);
        cudaMemcpy(&stop, d_over, sizeof(bool), cudaMemcpyDeviceToHost);
        k++;
    } while (stop);
    printf("%d levels\n", k);
}
