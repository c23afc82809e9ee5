// Shortest paths behind an interface: a method makes one round and says whether anything changed.
#include "common.cuh"

__global__ void relax(const int *starts, const int *edges, int *distance, int *flag, int n) {
    int node = blockIdx.x * blockDim.x + threadIdx.x;
    if (node >= n) return;
    for (int at = starts[node]; at < starts[node + 1]; ++at)
        if (distance[node] + 1 < distance[edges[at]]) atomicMin(&distance[edges[at]], distance[node] + 1), *flag = 1;
}

struct Device {
    int *starts, *edges, *distance, *flag, nodes;
};

static bool round(const Device &device) {
    int flag = 0;
    CHECK(cudaMemcpy(device.flag, &flag, sizeof flag, cudaMemcpyHostToDevice));
    relax<<<(device.nodes + 127) / 128, 128>>>(device.starts, device.edges, device.distance, device.flag, device.nodes);
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpy(&flag, device.flag, sizeof flag, cudaMemcpyDeviceToHost));
    return flag != 0;
}

int main() {
    std::vector<int> starts, edges;
    graph(400, starts, edges);
    std::vector<int> distance(400, 1 << 20);
    distance[0] = 0;
    Device device = {on_device<int>(401), on_device<int>(edges.size()), on_device<int>(400), on_device<int>(1), 400};
    CHECK(cudaMemcpy(device.starts, starts.data(), 401 * 4, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(device.edges, edges.data(), edges.size() * 4, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(device.distance, distance.data(), 400 * 4, cudaMemcpyHostToDevice));
    int rounds = 0;
    while (round(device)) ++rounds;
    CHECK(cudaMemcpy(distance.data(), device.distance, 400 * 4, cudaMemcpyDeviceToHost));
    printf("%d rounds, %d\n", rounds, distance[399]);
}
