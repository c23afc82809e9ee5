// Work lists: as many threads as the list has entries; near lists are worked off, then the bound grows.
#include "common.cuh"

__global__ void expand(const int *starts, const int *edges, int *distance, const int *list, int entries, int bound,
                       int *near, int *near_size, int *far, int *far_size) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= entries) return;
    int node = list[at];
    for (int edge = starts[node]; edge < starts[node + 1]; ++edge) {
        int length = distance[node] + 1 + edges[edge] % 5;
        if (atomicMin(&distance[edges[edge]], length) <= length) continue;
        if (length < bound) near[atomicAdd(near_size, 1) % 4096] = edges[edge];
        else far[atomicAdd(far_size, 1) % 4096] = edges[edge];
    }
}

int main() {
    const int n = 250;
    std::vector<int> starts, edges, distance(n, 1 << 20);
    graph(n, starts, edges);
    distance[0] = 0;
    int *d_starts = on_device<int>(n + 1), *d_edges = on_device<int>(edges.size()), *d_distance = on_device<int>(n);
    int *d_list = on_device<int>(4096), *d_near = on_device<int>(4096), *d_far = on_device<int>(4096);
    int *d_sizes = on_device<int>(2), size = 1, far_size = 0, bound = 8, launches = 0, zeros[2] = {0, 0};
    CHECK(cudaMemcpy(d_starts, starts.data(), (n + 1) * 4, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(d_edges, edges.data(), edges.size() * 4, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(d_distance, distance.data(), n * 4, cudaMemcpyHostToDevice));
    while (size > 0) {
        while (size > 0) {
            CHECK(cudaMemcpy(d_sizes, zeros, sizeof(int), cudaMemcpyHostToDevice));
            expand<<<(size + 63) / 64, 64>>>(d_starts, d_edges, d_distance, d_list, size, bound, d_near, d_sizes, d_far,
                                             d_sizes + 1);
            CHECK(cudaMemcpy(&size, d_sizes, sizeof(int), cudaMemcpyDeviceToHost));
            std::swap(d_list, d_near);
            launches++;
        }
        CHECK(cudaMemcpy(&far_size, d_sizes + 1, sizeof(int), cudaMemcpyDeviceToHost));
        CHECK(cudaMemcpy(d_sizes, zeros, sizeof zeros, cudaMemcpyHostToDevice));
        std::swap(d_list, d_far);
        size = far_size, bound += 8;
    }
    printf("%d launches\n", launches);
}
