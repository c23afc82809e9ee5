// Tiled matrix multiplication: static shared memory with barriers, then the same with dynamic shared memory.
#include "product.cuh"

constexpr int TILE = 16;

__global__ void multiply_static(const float *a, const float *b, float *c, int n) {
    __shared__ float tile_a[TILE][TILE];
    __shared__ float tile_b[TILE][TILE];
    int row = blockIdx.y * TILE + threadIdx.y;
    int column = blockIdx.x * TILE + threadIdx.x;
    float sum = 0.0f;
    for (int start = 0; start < n; start += TILE) {
        int k_a = start + threadIdx.x;
        int k_b = start + threadIdx.y;
        tile_a[threadIdx.y][threadIdx.x] = row < n && k_a < n ? a[row * n + k_a] : 0.0f;
        tile_b[threadIdx.y][threadIdx.x] = k_b < n && column < n ? b[k_b * n + column] : 0.0f;
        __syncthreads();
        for (int k = 0; k < TILE; ++k) {
            sum += tile_a[threadIdx.y][k] * tile_b[k][threadIdx.x];
        }
        __syncthreads();
    }
    if (row < n && column < n) {
        c[row * n + column] = sum;
    }
}

__global__ void multiply_dynamic(const float *a, const float *b, float *c, int n, int tile) {
    extern __shared__ float shared[];
    float *tile_a = shared;
    float *tile_b = shared + tile * tile;
    int row = blockIdx.y * tile + threadIdx.y;
    int column = blockIdx.x * tile + threadIdx.x;
    float sum = 0.0f;
    for (int start = 0; start < n; start += tile) {
        int k_a = start + threadIdx.x;
        int k_b = start + threadIdx.y;
        tile_a[threadIdx.y * tile + threadIdx.x] = row < n && k_a < n ? a[row * n + k_a] : 0.0f;
        tile_b[threadIdx.y * tile + threadIdx.x] = k_b < n && column < n ? b[k_b * n + column] : 0.0f;
        __syncthreads();
        for (int k = 0; k < tile; ++k) {
            sum += tile_a[threadIdx.y * tile + k] * tile_b[k * tile + threadIdx.x];
        }
        __syncthreads();
    }
    if (row < n && column < n) {
        c[row * n + column] = sum;
    }
}

int main() {
    const int n = 100;
    const Product product(n);
    DeviceArray<float> device_a(product.a), device_b(product.b), device_c(n * n);
    Verdict verdict;

    int blocks = (n + TILE - 1) / TILE;
    multiply_static<<<dim3(blocks, blocks), dim3(TILE, TILE)>>>(device_a.get(), device_b.get(), device_c.get(), n);
    CHECK_LAUNCH();
    std::vector<float> c = device_c.download();
    verdict.equal(c, product.expected, "c, static shared memory");
    print_checksum("matmul_tiled static", c);

    for (int tile : {8, 20, 32}) {
        device_c.zero();
        blocks = (n + tile - 1) / tile;
        size_t shared = 2 * tile * tile * sizeof(float);
        multiply_dynamic<<<dim3(blocks, blocks), dim3(tile, tile), shared>>>(device_a.get(), device_b.get(),
                                                                             device_c.get(), n, tile);
        CHECK_LAUNCH();
        c = device_c.download();
        verdict.equal(c, product.expected, "c, dynamic shared memory");
        std::printf("tile %d ", tile);
        print_checksum("matmul_tiled dynamic", c);
    }
    return verdict.finish();
}
