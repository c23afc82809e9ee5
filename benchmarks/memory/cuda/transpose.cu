// The transpose of a square matrix through tiles of 32 x 32 in shared memory. Argument: the size, a multiple of 32.
#include "check.cuh"

__global__ void transpose(const float *in, float *out, int n) {
    __shared__ float tile[32][33];
    int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
    for (int row = 0; row < 32; row += 8) tile[threadIdx.y + row][threadIdx.x] = in[(y + row) * n + x];
    __syncthreads();
    x = blockIdx.y * 32 + threadIdx.x;
    y = blockIdx.x * 32 + threadIdx.y;
    for (int row = 0; row < 32; row += 8) out[(y + row) * n + x] = tile[threadIdx.x][threadIdx.y + row];
}

int main(int count, char **words) {
    int n = argument(count, words, 1, 2048);
    std::vector<float> in(size_t(n) * n);
    for (size_t index = 0; index < in.size(); ++index) in[index] = float(index);
    float *out = room<float>(in.size());
    transpose<<<dim3(n / 32, n / 32), dim3(32, 8)>>>(to_device(in), out, n);
    std::vector<float> found = from_device(out, in.size());
    bool right = true;
    for (int row = 0; row < n; ++row)
        for (int column = 0; column < n; ++column) right &= found[size_t(column) * n + row] == in[size_t(row) * n + column];
    return finish(right);
}
