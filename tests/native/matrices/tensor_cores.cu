// Matrix products by warps: wmma fragments of half precision, of bytes, of four bits and of single ones, loaded from global and from shared memory.
#include <mma.h>

#include "../support.cuh"

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

// One tile of 8 x 8, and 64 (or 256) elements along k, four bits or one each.
__global__ void nibbles(const int *a, const int *b, int *c) {
    using namespace wmma::experimental;
    wmma::fragment<wmma::matrix_a, 8, 8, 32, precision::s4, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, 8, 8, 32, precision::s4, wmma::col_major> fb;
    wmma::fragment<wmma::accumulator, 8, 8, 32, int> fc;
    wmma::fill_fragment(fc, 5);
    for (int word = 0; word < 8; word += 4) {
        wmma::load_matrix_sync(fa, a + word, 64);
        wmma::load_matrix_sync(fb, b + word, 64);
        wmma::mma_sync(fc, fa, fb, fc);
    }
    wmma::store_matrix_sync(c, fc, 8, wmma::mem_col_major);
}

__global__ void bits(const int *a, const int *b, int *c) {
    using namespace wmma::experimental;
    wmma::fragment<wmma::matrix_a, 8, 8, 128, precision::b1, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, 8, 8, 128, precision::b1, wmma::col_major> fb;
    wmma::fragment<wmma::accumulator, 8, 8, 128, int> fc;
    wmma::fill_fragment(fc, 0);
    for (int word = 0; word < 8; word += 4) {
        wmma::load_matrix_sync(fa, reinterpret_cast<const unsigned *>(a) + word, 256);
        wmma::load_matrix_sync(fb, reinterpret_cast<const unsigned *>(b) + word, 256);
        wmma::bmma_sync(fc, fa, fb, fc, bmmaBitOpXOR, bmmaAccumulateOpPOPC);
    }
    wmma::store_matrix_sync(c, fc, 8, wmma::mem_row_major);
}

static void parts_of_bytes(Verdict &verdict) {
    Random random(9);
    std::vector<int> a(64), b(64), sums(64, 5), counts(64);
    for (int i = 0; i < 64; ++i) {
        a[i] = (int)random.next(), b[i] = (int)random.next();
    }
    for (int row = 0; row < 8; ++row) {
        for (int column = 0; column < 8; ++column) {
            for (int word = 0; word < 8; ++word) {
                int left = a[row * 8 + word], right = b[column * 8 + word];
                counts[row * 8 + column] += __builtin_popcount(left ^ right);
                for (int shift = 28; shift >= 0; shift -= 4) {
                    sums[column * 8 + row] += ((int)((unsigned)left << shift) >> 28) * ((int)((unsigned)right << shift) >> 28);
                }
            }
        }
    }
    DeviceArray<int> left(a), right(b), c(64), d(64);
    nibbles<<<1, 32>>>(left.get(), right.get(), c.get());
    bits<<<1, 32>>>(left.get(), right.get(), d.get());
    CHECK_LAUNCH();
    verdict.equal(c.download(), sums, "four bits");
    verdict.equal(d.download(), counts, "single bits");
}

int main() {
    Verdict verdict;
    parts_of_bytes(verdict);
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
