// Breadth-first search of a grid with walls: the host clears a flag, and reads it behind each level.
#include "../support.cuh"

__global__ void expand(const unsigned char *wall, int *levels, int level, int side, bool *changed) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= side * side || levels[i] != level) {
        return;
    }
    int x = i % side, y = i / side;
    const int next[4] = {x > 0 ? i - 1 : i, x < side - 1 ? i + 1 : i, y > 0 ? i - side : i,
                         y < side - 1 ? i + side : i};
    for (int j : next) {
        if (!wall[j] && levels[j] < 0) {
            levels[j] = level + 1;
            *changed = true;
        }
    }
}

// The same on the host; the deepest level.
static int search(const std::vector<unsigned char> &wall, int side, std::vector<int> &levels) {
    std::vector<int> reached(1, 0);
    int deepest = 0;
    auto visit = [&](int from, int to) {
        if (!wall[to] && levels[to] < 0) {
            levels[to] = levels[from] + 1;
            reached.push_back(to);
        }
    };
    for (size_t index = 0; index < reached.size(); ++index) {
        int i = reached[index], x = i % side, y = i / side;
        deepest = levels[i];
        if (x > 0) visit(i, i - 1);
        if (x < side - 1) visit(i, i + 1);
        if (y > 0) visit(i, i - side);
        if (y < side - 1) visit(i, i + side);
    }
    return deepest;
}

int main() {
    const int side = 64, nodes = side * side;
    Random random(5);
    std::vector<unsigned char> wall(nodes);
    for (int i = 1; i < nodes; ++i) {
        wall[i] = random.below(100) < 30;
    }
    std::vector<int> levels(nodes, -1), expected(nodes, -1);
    levels[0] = expected[0] = 0;
    const int deepest = search(wall, side, expected);

    DeviceArray<unsigned char> device_wall(wall);
    DeviceArray<int> device_levels(levels);
    bool *device_changed, changed = true;
    CHECK(cudaMalloc(&device_changed, sizeof(bool)));
    int level = 0;
    while (changed) {
        changed = false;
        CHECK(cudaMemcpy(device_changed, &changed, sizeof(bool), cudaMemcpyHostToDevice));
        expand<<<(nodes + 255) / 256, 256>>>(device_wall.get(), device_levels.get(), level, side, device_changed);
        CHECK_LAUNCH();
        CHECK(cudaMemcpy(&changed, device_changed, sizeof(bool), cudaMemcpyDeviceToHost));
        level++;
    }
    levels = device_levels.download();
    Verdict verdict;
    verdict.equal(levels, expected, "level");
    verdict.expect(level == deepest + 1, "as many levels as on the host");
    std::printf("levels %d\n", level);
    return verdict.finish();
}
