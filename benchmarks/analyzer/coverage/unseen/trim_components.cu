// A class trims a graph until nothing changes; flag and sizes are members, each round is a method's.
#include <iostream>

#include "common.cuh"

__global__ void trim(const int *starts, const int *edges, int *colours, int *changed, int *trimmed, int n) {
    int node = blockIdx.x * blockDim.x + threadIdx.x;
    if (node >= n || colours[node] < 0) return;
    for (int at = starts[node]; at < starts[node + 1]; ++at)
        if (edges[at] > node && colours[edges[at]] >= 0) return;
    colours[node] = -1, *changed = 1, atomicAdd(trimmed, 1);
}

class Components {
  public:
    Components(int nodes, const std::vector<int> &starts, const std::vector<int> &edges) : nodes_(nodes) {
        h_changed_ = new int(0);
        d_starts_ = on_device<int>(starts.size()), d_edges_ = on_device<int>(edges.size());
        d_colours_ = on_device<int>(nodes), d_changed_ = on_device<int>(1), d_trimmed_ = on_device<int>(1);
        CHECK(cudaMemcpy(d_starts_, starts.data(), starts.size() * 4, cudaMemcpyHostToDevice));
        CHECK(cudaMemcpy(d_edges_, edges.data(), edges.size() * 4, cudaMemcpyHostToDevice));
    }
    ~Components() { delete h_changed_; }

    int run() {
        std::cout << "--- trim ---" << std::endl;
        int blocks = (nodes_ + 127) / 128, rounds = 0;
        do {
            *h_changed_ = 0;
            CHECK(cudaMemcpy(d_changed_, h_changed_, sizeof(int), cudaMemcpyHostToDevice));
            CHECK(cudaMemset(d_trimmed_, 0, sizeof(int)));
            trim<<<blocks, 128>>>(d_starts_, d_edges_, d_colours_, d_changed_, d_trimmed_, nodes_);
            CHECK(cudaDeviceSynchronize());
            CHECK(cudaMemcpy(h_changed_, d_changed_, sizeof(int), cudaMemcpyDeviceToHost));
            ++rounds;
        } while (*h_changed_ == 1);
        return rounds;
    }

  private:
    int nodes_, *h_changed_, *d_starts_, *d_edges_, *d_colours_, *d_changed_, *d_trimmed_;
};

int main() {
    std::vector<int> starts, edges;
    graph(200, starts, edges);
    Components components(200, starts, edges);
    std::cout << components.run() << " rounds" << std::endl;
}
