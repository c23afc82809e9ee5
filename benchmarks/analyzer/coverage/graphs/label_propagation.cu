// Labels spread until none changes: `while (changed)`, with a helper that checks codes as the samples' one does.
#include "common.cuh"

template <typename T>
void check(T result, char const *const func, const char *const file, int const line) {
    if (result) {
        fprintf(stderr, "CUDA error at %s:%d code=%d \"%s\" \n", file, line, (unsigned)result, func);
        exit(EXIT_FAILURE);
    }
}
#define checkCudaErrors(val) check((val), #val, __FILE__, __LINE__)

__global__ void spread(int *labels, const int *starts, const int *edges, int *changed, int n) {
    int node = blockIdx.x * blockDim.x + threadIdx.x;
    if (node >= n) return;
    for (int i = starts[node]; i < starts[node + 1]; ++i)
        if (atomicMin(&labels[edges[i]], labels[node]) > labels[node]) *changed = 1;
}

struct Graph {
    int nodes, *starts, *edges, *labels, *changed;
};

__attribute__((noinline)) int components(Graph &g) {
    int h_changed = 1, rounds = 0;
    while (h_changed) {
        h_changed = 0;
        checkCudaErrors(cudaMemcpy(g.changed, &h_changed, sizeof(int), cudaMemcpyHostToDevice));
        spread<<<(g.nodes + 255) / 256, 256>>>(g.labels, g.starts, g.edges, g.changed, g.nodes);
        checkCudaErrors(cudaGetLastError());
        checkCudaErrors(cudaMemcpy(&h_changed, g.changed, sizeof(int), cudaMemcpyDeviceToHost));
        rounds++;
    }
    return rounds;
}

int main() {
    std::vector<int> starts, edges, labels;
    graph(700, starts, edges);
    for (int i = 0; i < 700; ++i) labels.push_back(i);
    Graph g{700, on_device<int>(starts.size()), on_device<int>(edges.size()), on_device<int>(700), on_device<int>(1)};
    checkCudaErrors(cudaMemcpy(g.starts, starts.data(), starts.size() * 4, cudaMemcpyHostToDevice));
    checkCudaErrors(cudaMemcpy(g.edges, edges.data(), edges.size() * 4, cudaMemcpyHostToDevice));
    checkCudaErrors(cudaMemcpy(g.labels, labels.data(), 700 * 4, cudaMemcpyHostToDevice));
    printf("%d rounds\n", components(g));
}
