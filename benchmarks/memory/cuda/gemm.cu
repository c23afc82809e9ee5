// C = A B for square matrices of single precision, tiles of 16 x 16 in shared memory. Argument: the size, a multiple of 16.
#include <cmath>

#include "check.cuh"

constexpr int TILE = 16;

__global__ void gemm(const float *a, const float *b, float *c, int n) {
    __shared__ float left[TILE][TILE], right[TILE][TILE];
    int row = blockIdx.y * TILE + threadIdx.y, column = blockIdx.x * TILE + threadIdx.x;
    float sum = 0;
    for (int tile = 0; tile < n; tile += TILE) {
        left[threadIdx.y][threadIdx.x] = a[row * n + tile + threadIdx.x];
        right[threadIdx.y][threadIdx.x] = b[(tile + threadIdx.y) * n + column];
        __syncthreads();
        for (int k = 0; k < TILE; ++k) sum += left[threadIdx.y][k] * right[k][threadIdx.x];
        __syncthreads();
    }
    c[row * n + column] = sum;
}

int main(int count, char **words) {
    int n = argument(count, words, 1, 512);
    Random random{1};
    std::vector<float> a(n * n), b(n * n);
    for (float &value : a) value = random() % 16;
    for (float &value : b) value = random() % 16;
    float *c = room<float>(n * n);
    gemm<<<dim3(n / TILE, n / TILE), dim3(TILE, TILE)>>>(to_device(a), to_device(b), c, n);
    std::vector<float> found = from_device(c, n * n);
    bool right = true;
    for (int probe = 0; probe < 64; ++probe) {
        int row = random() % n, column = random() % n;
        float sum = 0;
        for (int k = 0; k < n; ++k) sum += a[row * n + k] * b[k * n + column];
        right &= found[row * n + column] == sum;
    }
    return finish(right);
}
