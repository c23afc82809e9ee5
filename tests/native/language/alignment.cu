// Aligning two sequences: a table filled along its diagonals by tiles in shared memory, one launch for each diagonal of tiles.
#include <algorithm>

#include "../support.cuh"

constexpr int TILE = 16, GAP = 2;

__device__ __host__ int score(char a, char b) { return a == b ? 3 : -1; }

__global__ void diagonal(const char *a, const char *b, int *table, int width, int which, int tiles) {
    __shared__ int cell[TILE + 1][TILE + 1];
    const int tile_y = max(0, which - tiles + 1) + blockIdx.x, tile_x = which - tile_y;
    const int x = tile_x * TILE, y = tile_y * TILE, t = threadIdx.x;
    cell[t + 1][0] = table[(y + t + 1) * width + x];
    cell[0][t + 1] = table[y * width + x + t + 1];
    if (t == 0) {
        cell[0][0] = table[y * width + x];
    }
    __syncthreads();
    for (int step = 0; step < 2 * TILE - 1; ++step) {
        const int i = t, j = step - t;
        if (j >= 0 && j < TILE) {
            const int diagonal = cell[i][j] + score(a[y + i], b[x + j]);
            cell[i + 1][j + 1] = max(diagonal, max(cell[i][j + 1], cell[i + 1][j]) - GAP);
        }
        __syncthreads();
    }
    for (int j = 0; j < TILE; ++j) {
        table[(y + t + 1) * width + x + j + 1] = cell[t + 1][j + 1];
    }
}

int main() {
    Verdict verdict;
    const int n = 160, width = n + 1, tiles = n / TILE;
    std::vector<char> a(n), b(n);
    Random random(6);
    for (int i = 0; i < n; ++i) {
        a[i] = "ACGT"[random.below(4)], b[i] = i % 5 ? a[i] : "ACGT"[random.below(4)];
    }
    std::vector<int> expected(width * width);
    for (int i = 0; i < width; ++i) {
        expected[i] = expected[i * width] = -GAP * i;
    }
    DeviceArray<int> table(expected);
    for (int i = 1; i < width; ++i) {
        for (int j = 1; j < width; ++j) {
            const int diagonal = expected[(i - 1) * width + j - 1] + score(a[i - 1], b[j - 1]);
            const int side = std::max(expected[(i - 1) * width + j], expected[i * width + j - 1]) - GAP;
            expected[i * width + j] = std::max(diagonal, side);
        }
    }
    DeviceArray<char> device_a(a), device_b(b);
    for (int which = 0; which < 2 * tiles - 1; ++which) {
        const int blocks = std::min(which, tiles - 1) - std::max(0, which - tiles + 1) + 1;
        diagonal<<<blocks, TILE>>>(device_a.get(), device_b.get(), table.get(), width, which, tiles);
    }
    CHECK_LAUNCH();
    verdict.equal(table.download(), expected, "table");
    std::printf("alignment %d\n", expected.back());
    return verdict.finish();
}
