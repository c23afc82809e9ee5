// Matrix multiplication with 8x8 sums in each thread's registers: for sizes that are no multiple of a tile, so that threads at the edges part from
// others; and with two buffers in shared memory and 128-bit accesses, where every second thread goes through the steps backwards.
#include "product.cuh"

constexpr int SIDE = 64, DEPTH = 8, EACH = 8;  // of a block's tile, of a step along k, of a thread's tile

__device__ __forceinline__ void multiply(float (&sum)[EACH][EACH], const float *left, const float *right) {
    float x[EACH], y[EACH];
#pragma unroll
    for (int i = 0; i < EACH; ++i) {
        x[i] = left[i];
        y[i] = right[i];
    }
#pragma unroll
    for (int i = 0; i < EACH; ++i) {
#pragma unroll
        for (int j = 0; j < EACH; ++j) {
            sum[i][j] += x[i] * y[j];
        }
    }
}

__device__ __forceinline__ void finish(float *c, const float (&sum)[EACH][EACH], int n, int row, int column) {
#pragma unroll
    for (int i = 0; i < EACH; ++i) {
#pragma unroll
        for (int j = 0; j < EACH; ++j) {
            if (row + i < n && column + j < n) {
                c[(row + i) * n + column + j] = sum[i][j];
            }
        }
    }
}

__global__ void with_edges(const float *a, const float *b, float *c, int n) {
    __shared__ float left[DEPTH][SIDE], right[DEPTH][SIDE];
    int first_row = blockIdx.y * SIDE, first_column = blockIdx.x * SIDE;
    int row = threadIdx.x / 8 * EACH, column = threadIdx.x % 8 * EACH;
    float sum[EACH][EACH] = {};
    for (int start = 0; start < n; start += DEPTH) {
        for (int k = 0; k < DEPTH; ++k) {
            int from = first_row + threadIdx.x, to = first_column + threadIdx.x;
            left[k][threadIdx.x] = from < n && start + k < n ? a[from * n + start + k] : 0.0f;
            right[k][threadIdx.x] = to < n && start + k < n ? b[(start + k) * n + to] : 0.0f;
        }
        __syncthreads();
        if (first_row + row < n && first_column + column < n) {
#pragma unroll
            for (int k = 0; k < DEPTH; ++k) {
                multiply(sum, &left[k][row], &right[k][column]);
            }
        }
        __syncthreads();
    }
    finish(c, sum, n, first_row + row, first_column + column);
}

__global__ void two_buffers(const float *a, const float *b, float *c, int n) {
    __shared__ __align__(16) float left[2][DEPTH][SIDE], right[2][DEPTH][SIDE];
    int first_row = blockIdx.y * SIDE, first_column = blockIdx.x * SIDE;
    int row = threadIdx.x / 8 * EACH, column = threadIdx.x % 8 * EACH;
    float sum[EACH][EACH] = {};
    auto stage = [&](int buffer, int start) {
        for (int k = 0; k < DEPTH; ++k) {
            int from = first_row + threadIdx.x, to = first_column + threadIdx.x;
            left[buffer][k][threadIdx.x] = from < n && start + k < n ? a[from * n + start + k] : 0.0f;
            right[buffer][k][threadIdx.x] = to < n && start + k < n ? b[(start + k) * n + to] : 0.0f;
        }
    };
    stage(0, 0);
    __syncthreads();
    int buffer = 0;
    for (int start = DEPTH; start < n + DEPTH; start += DEPTH) {
        float4 x[DEPTH][2], y[DEPTH][2];
#pragma unroll
        for (int k = 0; k < DEPTH; ++k) {
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                x[k][half] = *reinterpret_cast<const float4 *>(&left[buffer][k][row + 4 * half]);
                y[k][half] = *reinterpret_cast<const float4 *>(&right[buffer][k][column + 4 * half]);
            }
        }
        if (start < n) {
            stage(buffer ^ 1, start);
        }
        if (threadIdx.x % 2 == 0) {
#pragma unroll
            for (int k = 0; k < DEPTH; ++k) {
                multiply(sum, reinterpret_cast<const float *>(x[k]), reinterpret_cast<const float *>(y[k]));
            }
        } else {
#pragma unroll
            for (int k = DEPTH - 1; k >= 0; --k) {
                multiply(sum, reinterpret_cast<const float *>(x[k]), reinterpret_cast<const float *>(y[k]));
            }
        }
        __syncthreads();
        buffer ^= 1;
    }
    finish(c, sum, n, first_row + row, first_column + column);
}

int main() {
    const int n = 100;
    const Product product(n);
    DeviceArray<float> device_a(product.a), device_b(product.b), device_c(n * n);
    Verdict verdict;
    dim3 grid((n + SIDE - 1) / SIDE, (n + SIDE - 1) / SIDE);
    with_edges<<<grid, SIDE>>>(device_a.get(), device_b.get(), device_c.get(), n);
    CHECK_LAUNCH();
    std::vector<float> c = device_c.download();
    verdict.equal(c, product.expected, "c, with edges");
    print_checksum("register_tiles with edges", c);

    device_c.zero();
    two_buffers<<<grid, SIDE>>>(device_a.get(), device_b.get(), device_c.get(), n);
    CHECK_LAUNCH();
    c = device_c.download();
    verdict.equal(c, product.expected, "c, two buffers");
    print_checksum("register_tiles two buffers", c);
    return verdict.finish();
}
