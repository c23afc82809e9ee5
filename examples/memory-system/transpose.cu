// A matrix transposed twice: once with writes that lie a row apart, once through a tile in shared memory.
#include <cstdio>
#include <cstdlib>
#include <vector>

constexpr int N = 128, TILE = 16;

static void check(cudaError_t error) {
    if (error != cudaSuccess) {
        std::fprintf(stderr, "transpose: %s\n", cudaGetErrorString(error));
        std::exit(1);
    }
}

__global__ void direct(const float *from, float *to) {
    int x = blockIdx.x * TILE + threadIdx.x, y = blockIdx.y * TILE + threadIdx.y;
    to[x * N + y] = from[y * N + x];
}

__global__ void tiled(const float *from, float *to) {
    __shared__ float tile[TILE][TILE + 1];
    int x = blockIdx.x * TILE + threadIdx.x, y = blockIdx.y * TILE + threadIdx.y;
    tile[threadIdx.y][threadIdx.x] = from[y * N + x];
    __syncthreads();
    x = blockIdx.y * TILE + threadIdx.x;
    y = blockIdx.x * TILE + threadIdx.y;
    to[y * N + x] = tile[threadIdx.x][threadIdx.y];
}

int main() {
    std::vector<float> values(N * N), back(N * N);
    for (int i = 0; i < N * N; ++i) {
        values[i] = static_cast<float>(i);
    }
    float *a, *b;
    check(cudaMalloc(&a, N * N * sizeof(float)));
    check(cudaMalloc(&b, N * N * sizeof(float)));
    check(cudaMemcpy(a, values.data(), N * N * sizeof(float), cudaMemcpyHostToDevice));
    dim3 grid(N / TILE, N / TILE), block(TILE, TILE);
    direct<<<grid, block>>>(a, b);
    tiled<<<grid, block>>>(b, a);
    check(cudaMemcpy(back.data(), a, N * N * sizeof(float), cudaMemcpyDeviceToHost));
    std::printf("transposed twice is the same: %s\n", back == values ? "yes" : "no");
    return back == values ? 0 : 1;
}
