// A stencil of five points, some rounds, from one grid to another and back. Arguments: width (a multiple of 32), height (of 8), rounds.
#include "check.cuh"

__global__ void stencil(const float *in, float *out, int width, int height) {
    int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 8 + threadIdx.y;
    if (x == 0 || y == 0 || x == width - 1 || y == height - 1) return;
    const float *at = in + y * width + x;
    out[y * width + x] = 0.25f * (at[-1] + at[1] + at[-width] + at[width]) - at[0];
}

int main(int count, char **words) {
    int width = argument(count, words, 1, 2048), height = argument(count, words, 2, 1024), rounds = argument(count, words, 3, 2);
    Random random{2};
    std::vector<float> grid(size_t(width) * height);
    for (float &value : grid) value = random() % 256;
    float *a = to_device(grid), *b = to_device(grid);
    std::vector<float> expected = grid, before;
    for (int round = 0; round < rounds; ++round) {
        stencil<<<dim3(width / 32, height / 8), dim3(32, 8)>>>(a, b, width, height);
        std::swap(a, b);
        before = expected;
        for (int y = 1; y < height - 1; ++y)
            for (int x = 1; x < width - 1; ++x) {
                const float *at = &before[size_t(y) * width + x];
                expected[size_t(y) * width + x] = 0.25f * (at[-1] + at[1] + at[-width] + at[width]) - at[0];
            }
    }
    return finish(from_device(a, grid.size()) == expected);
}
