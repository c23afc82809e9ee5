// Breadth-first search by queues: the size of the next frontier comes back and is the next launch's grid; queues swap.
#include "common.cuh"

__global__ void expand(const int *starts, const int *edges, int *cost, const int *in, int *out, int *count, int size, int level) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= size) return;
    for (int i = starts[in[at]]; i < starts[in[at] + 1]; ++i)
        if (atomicCAS(&cost[edges[i]], -1, level) == -1) out[atomicAdd(count, 1)] = edges[i];
}

int main() {
    int n = 1000;
    std::vector<int> starts, edges, cost(n, -1);
    graph(n, starts, edges);
    cost[0] = 0;
    int *d_starts = on_device<int>(starts.size()), *d_edges = on_device<int>(edges.size()), *d_cost = on_device<int>(n);
    int *d_in = on_device<int>(n), *d_out = on_device<int>(n), *d_count = on_device<int>(1);
    CHECK(cudaMemcpy(d_starts, starts.data(), starts.size() * 4, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(d_edges, edges.data(), edges.size() * 4, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(d_cost, cost.data(), n * 4, cudaMemcpyHostToDevice));
    int frontier = 1, level = 0;
    while (frontier > 0) {
        level++;
        CHECK(cudaMemset(d_count, 0, sizeof(int)));
        expand<<<(frontier + 127) / 128, 128>>>(d_starts, d_edges, d_cost, d_in, d_out, d_count, frontier, level);
        CHECK(cudaGetLastError());
        CHECK(cudaMemcpy(&frontier, d_count, sizeof(int), cudaMemcpyDeviceToHost));
        printf("level %d: %d nodes\n", level, frontier);
        std::swap(d_in, d_out);
    }
}
