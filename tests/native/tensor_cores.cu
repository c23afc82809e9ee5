// Matrix products by warps: wmma fragments of half precision and of bytes, loaded from global and from shared memory.
#include <mma.h>

#include "support.cuh"

using namespace nvcuda;

constexpr int N = 48;

__global__ void halves(const __half *a, const __half *b, float *c) {
    wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::col_major> fb;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> fc;
    wmma::fill_fragment(fc, 1.0f);
    for (int k = 0; k < N; k += 16) {
        wmma::load_matrix_sync(fa, a + blockIdx.y * 16 * N + k, N);
        wmma::load_matrix_sync(fb, b + blockIdx.x * 16 * N + k, N);
        wmma::mma_sync(fc, fa, fb, fc);
    }
    for (int i = 0; i < fc.num_elements; ++i) {
        fc.x[i] *= 2;
    }
    wmma::store_matrix_sync(c + blockIdx.y * 16 * N + blockIdx.x * 16, fc, N, wmma::mem_row_major);
}

__global__ void bytes(const signed char *a, const signed char *b, int *c) {
    __shared__ signed char left[16 * 16], right[16 * 16];
    wmma::fragment<wmma::matrix_a, 16, 16, 16, signed char, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, signed char, wmma::row_major> fb;
    wmma::fragment<wmma::accumulator, 16, 16, 16, int> fc;
    wmma::fill_fragment(fc, 0);
    for (int k = 0; k < N; k += 16) {
        for (int i = threadIdx.x; i < 256; i += 32) {
            left[i] = a[(blockIdx.y * 16 + i / 16) * N + k + i % 16];
            right[i] = b[(k + i / 16) * N + blockIdx.x * 16 + i % 16];
        }
        __syncwarp();
        wmma::load_matrix_sync(fa, left, 16);
        wmma::load_matrix_sync(fb, right, 16);
        wmma::mma_sync(fc, fa, fb, fc);
        __syncwarp();
    }
    wmma::store_matrix_sync(c + blockIdx.y * 16 * N + blockIdx.x * 16, fc, N, wmma::mem_row_major);
}

int main() {
    Verdict verdict;
    std::vector<__half> a(N * N), b(N * N);
    std::vector<signed char> left(N * N), right(N * N);
    Random random(7);
    for (int i = 0; i < N * N; ++i) {
        left[i] = (signed char)(random.below(256) - 128), right[i] = (signed char)(random.below(256) - 128);
        a[i] = __float2half(float(left[i] % 8)), b[i] = __float2half(float(right[i] % 8));
    }
    std::vector<float> product(N * N);
    std::vector<int> whole(N * N);
    for (int i = 0; i < N; ++i) {
        for (int j = 0; j < N; ++j) {
            float sum = 1;
            for (int k = 0; k < N; ++k) {
                sum += float(left[i * N + k] % 8) * float(right[j * N + k] % 8);
                whole[i * N + j] += left[i * N + k] * right[k * N + j];
            }
            product[i * N + j] = 2 * sum;
        }
    }
    DeviceArray<__half> device_a(a), device_b(b);
    DeviceArray<float> c(N * N);
    DeviceArray<signed char> device_left(left), device_right(right);
    DeviceArray<int> d(N * N);
    halves<<<dim3(N / 16, N / 16), 32>>>(device_a.get(), device_b.get(), c.get());
    bytes<<<dim3(N / 16, N / 16), 32>>>(device_left.get(), device_right.get(), d.get());
    CHECK_LAUNCH();
    verdict.equal(c.download(), product, "halves");
    verdict.equal(d.download(), whole, "bytes");
    print_checksum("tensor_cores", whole);
    return verdict.finish();
}
