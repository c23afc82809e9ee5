// Breadth-first search in a function that is given both places of its flag.
#include "common.cuh"

__global__ void visit(const int *starts, const int *edges, int *depth, int level, bool *done, int n) {
    int node = blockIdx.x * blockDim.x + threadIdx.x;
    if (node >= n || depth[node] != level) return;
    for (int at = starts[node]; at < starts[node + 1]; ++at)
        if (depth[edges[at]] < 0) depth[edges[at]] = level + 1, *done = false;
}

__attribute__((noinline)) void search(int *starts, int *edges, int *depth, bool *cpu_done, bool *gpu_done, int n) {
    int level = 0;
    while (!(*cpu_done)) {
        *cpu_done = true;
        cudaMemcpy(gpu_done, cpu_done, sizeof(bool), cudaMemcpyHostToDevice);
        visit<<<(n + 63) / 64, 64>>>(starts, edges, depth, level++, gpu_done, n);
        cudaMemcpy(cpu_done, gpu_done, sizeof(bool), cudaMemcpyDeviceToHost);
    }
}

int main() {
    const int n = 300;
    std::vector<int> starts, edges, depth(n, -1);
    graph(n, starts, edges);
    depth[0] = 0;
    int *d_starts = on_device<int>(n + 1), *d_edges = on_device<int>(edges.size()), *d_depth = on_device<int>(n);
    CHECK(cudaMemcpy(d_starts, starts.data(), (n + 1) * 4, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(d_edges, edges.data(), edges.size() * 4, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(d_depth, depth.data(), n * 4, cudaMemcpyHostToDevice));
    bool *cpu_done = (bool *)malloc(sizeof(bool)), *gpu_done = on_device<bool>(1);
    *cpu_done = false;
    search(d_starts, d_edges, d_depth, cpu_done, gpu_done, n);
    CHECK(cudaMemcpy(depth.data(), d_depth, n * 4, cudaMemcpyDeviceToHost));
    printf("%d\n", depth[n - 1]);
    free(cpu_done);
}
