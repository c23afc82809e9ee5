// Connected components by union and find with atomics, in one launch, and by spreading labels until nothing changes.
#include <functional>

#include "../support.cuh"

__device__ int root(volatile int *parent, int node) {
    while (parent[node] != node) {
        node = parent[node];
    }
    return node;
}

__global__ void unite(const int2 *edges, int count, int *parent) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) {
        return;
    }
    int a = root(parent, edges[i].x), b = root(parent, edges[i].y);
    while (a != b) {
        if (a > b) {
            const int c = a;
            a = b, b = c;
        }
        const int old = atomicCAS(&parent[b], b, a);
        if (old == b) {
            return;
        }
        a = root(parent, a), b = root(parent, old);
    }
}

__global__ void flatten(int *parent, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        parent[i] = root(parent, i);
    }
}

__global__ void spread(const int2 *edges, int count, int *label, int *changed) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) {
        const int a = label[edges[i].x], b = label[edges[i].y];
        if (a != b) {
            atomicMin(&label[edges[i].x], b);
            atomicMin(&label[edges[i].y], a);
            *changed = 1;
        }
    }
}

int main() {
    Verdict verdict;
    const int n = 3000, count = 2400;
    std::vector<int2> edges(count);
    std::vector<int> parent(n), start(n);
    Random random(21);
    for (int i = 0; i < n; ++i) {
        parent[i] = start[i] = i;
    }
    const std::function<int(int)> find = [&](int node) { return parent[node] == node ? node : parent[node] = find(parent[node]); };
    for (int2 &edge : edges) {
        edge = make_int2(int(random.below(n)), int(random.below(n)));
        const int a = find(edge.x), b = find(edge.y);
        parent[std::max(a, b)] = std::min(a, b);
    }
    int components = 0;
    for (int i = 0; i < n; ++i) {
        components += find(i) == i;
        parent[i] = find(i);
    }
    DeviceArray<int2> device_edges(edges);
    DeviceArray<int> device_parent(start), label(start), changed(1);
    unite<<<(count + 127) / 128, 128>>>(device_edges.get(), count, device_parent.get());
    flatten<<<(n + 127) / 128, 128>>>(device_parent.get(), n);
    CHECK_LAUNCH();
    verdict.equal(device_parent.download(), parent, "united");
    do {
        changed.zero();
        spread<<<(count + 127) / 128, 128>>>(device_edges.get(), count, label.get(), changed.get());
        CHECK_LAUNCH();
    } while (changed.download()[0]);
    verdict.equal(label.download(), parent, "spread");
    std::printf("components %d\n", components);
    return verdict.finish();
}
