// y = A x for a sparse matrix in rows (CSR), a warp for each row, columns at random. Arguments: rows, entries of a row, columns.
#include "check.cuh"

__global__ void spmv(const int *starts, const int *columns, const float *values, const float *x, float *y, int rows) {
    int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    if (row >= rows) return;
    float sum = 0;
    for (int at = starts[row] + lane; at < starts[row + 1]; at += 32) sum += values[at] * x[columns[at]];
    for (int step = 16; step; step /= 2) sum += __shfl_down_sync(0xffffffffu, sum, step);
    if (lane == 0) y[row] = sum;
}

int main(int count, char **words) {
    int rows = argument(count, words, 1, 12288), entries = argument(count, words, 2, 32), width = argument(count, words, 3, 1 << 21);
    Random random{3};
    std::vector<int> starts(rows + 1), columns(size_t(rows) * entries);
    std::vector<float> values(columns.size()), x(width);
    for (int row = 0; row <= rows; ++row) starts[row] = row * entries;
    for (int &column : columns) column = random() % width;
    for (float &value : values) value = random() % 16;
    for (float &value : x) value = random() % 16;
    float *y = room<float>(rows);
    spmv<<<(rows + 7) / 8, 256>>>(to_device(starts), to_device(columns), to_device(values), to_device(x), y, rows);
    std::vector<float> found = from_device(y, rows);
    bool right = true;
    for (int row = 0; row < rows; ++row) {
        float sum = 0;
        for (int at = starts[row]; at < starts[row + 1]; ++at) sum += values[at] * x[columns[at]];
        right &= found[row] == sum;
    }
    return finish(right);
}
