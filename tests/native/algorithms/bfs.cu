// Level-synchronous breadth-first search: the host copies a flag back after every level and stops when nothing changed.
#include <queue>

#include "../support.cuh"

__global__ void expand(const int *offsets, const int *targets, int *levels, int level, int nodes, int *changed) {
    int node = blockIdx.x * blockDim.x + threadIdx.x;
    if (node >= nodes || levels[node] != level) {
        return;
    }
    for (int edge = offsets[node]; edge < offsets[node + 1]; ++edge) {
        int target = targets[edge];
        if (levels[target] < 0) {
            levels[target] = level + 1;  // several threads may write, all the same value
            *changed = 1;
        }
    }
}

int main() {
    const int nodes = 20000;
    Random random(10);
    // A long chain with random shortcuts to nearby nodes: many levels of uneven size. The last nodes are unreachable.
    std::vector<int> offsets(nodes + 1), targets;
    for (int node = 0; node < nodes; ++node) {
        offsets[node] = static_cast<int>(targets.size());
        int edges = 1 + random.below(6);
        for (int edge = 0; edge < edges; ++edge) {
            int target = node + 1 + static_cast<int>(random.below(600)) - 100;
            if (target >= 0 && target < nodes - 50) {
                targets.push_back(target);
            }
        }
    }
    offsets[nodes] = static_cast<int>(targets.size());

    std::vector<int> expected(nodes, -1);
    std::queue<int> queue;
    queue.push(0);
    expected[0] = 0;
    while (!queue.empty()) {
        int node = queue.front();
        queue.pop();
        for (int edge = offsets[node]; edge < offsets[node + 1]; ++edge) {
            if (expected[targets[edge]] < 0) {
                expected[targets[edge]] = expected[node] + 1;
                queue.push(targets[edge]);
            }
        }
    }

    std::vector<int> levels(nodes, -1);
    levels[0] = 0;
    DeviceArray<int> device_offsets(offsets), device_targets(targets), device_levels(levels), device_changed(1);
    int level = 0, changed;
    do {
        changed = 0;
        CHECK(cudaMemcpy(device_changed.get(), &changed, sizeof changed, cudaMemcpyHostToDevice));
        expand<<<(nodes + 255) / 256, 256>>>(device_offsets.get(), device_targets.get(), device_levels.get(), level,
                                             nodes, device_changed.get());
        CHECK_LAUNCH();
        CHECK(cudaMemcpy(&changed, device_changed.get(), sizeof changed, cudaMemcpyDeviceToHost));
        ++level;
    } while (changed);
    levels = device_levels.download();

    Verdict verdict;
    verdict.equal(levels, expected, "level");
    int reached = 0;
    for (int value : levels) {
        reached += value >= 0;
    }
    std::printf("bfs %d launches, %d of %d nodes reached\n", level, reached, nodes);
    print_checksum("bfs", levels);
    return verdict.finish();
}
