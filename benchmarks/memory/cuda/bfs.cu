// Breadth-first search, level by level, a thread for each node of the graph, edges at random. Arguments: nodes, edges of a node.
#include "check.cuh"

__global__ void level(const int *starts, const int *targets, int *distances, int *again, int now, int nodes) {
    int node = blockIdx.x * blockDim.x + threadIdx.x;
    if (node >= nodes || distances[node] != now) return;
    for (int edge = starts[node]; edge < starts[node + 1]; ++edge) {
        int target = targets[edge];
        if (distances[target] < 0) {
            distances[target] = now + 1;
            *again = 1;
        }
    }
}

int main(int count, char **words) {
    int nodes = argument(count, words, 1, 1 << 16), degree = argument(count, words, 2, 8);
    Random random{4};
    std::vector<int> starts(nodes + 1), targets(size_t(nodes) * degree), distances(nodes, -1);
    for (int node = 0; node <= nodes; ++node) starts[node] = node * degree;
    for (int &target : targets) target = random() % nodes;
    distances[0] = 0;
    int *s = to_device(starts), *t = to_device(targets), *d = to_device(distances), *again = room<int>(1);
    for (int now = 0, more = 1; more; ++now) {
        MUST(cudaMemset(again, 0, sizeof(int)));
        level<<<(nodes + 255) / 256, 256>>>(s, t, d, again, now, nodes);
        MUST(cudaMemcpy(&more, again, sizeof(int), cudaMemcpyDeviceToHost));
    }
    std::vector<int> queue{0};
    for (size_t head = 0; head < queue.size(); ++head)
        for (int edge = starts[queue[head]]; edge < starts[queue[head] + 1]; ++edge)
            if (distances[targets[edge]] < 0) {
                distances[targets[edge]] = distances[queue[head]] + 1;
                queue.push_back(targets[edge]);
            }
    return finish(from_device(d, nodes) == distances);
}
