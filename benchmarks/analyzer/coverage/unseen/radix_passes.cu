// A radix sort whose offsets the host computes from each pass's histogram.
#include "common.cuh"

__global__ void count(const unsigned *keys, unsigned *histogram, int shift, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) atomicAdd(&histogram[(keys[i] >> shift) & 15], 1u);
}

__global__ void scatter(const unsigned *from, unsigned *to, unsigned *offsets, int shift, int n) {
    if (threadIdx.x == 0 && blockIdx.x == 0)
        for (int i = 0; i < n; ++i) to[offsets[(from[i] >> shift) & 15]++] = from[i];
}

int main() {
    const int n = 200;
    std::vector<unsigned> keys(n), histogram(16), offsets(16);
    for (int i = 0; i < n; ++i) keys[i] = (i * 7919u) % 65521u;
    unsigned *d_in = on_device<unsigned>(n), *d_out = on_device<unsigned>(n);
    unsigned *d_histogram = on_device<unsigned>(16), *d_offsets = on_device<unsigned>(16);
    CHECK(cudaMemcpy(d_in, keys.data(), n * 4, cudaMemcpyHostToDevice));
    for (int pass = 0; pass < 4; ++pass) {
        CHECK(cudaMemset(d_histogram, 0, 16 * sizeof(unsigned)));
        count<<<2, 128>>>(d_in, d_histogram, pass * 4, n);
        CHECK(cudaMemcpy(histogram.data(), d_histogram, 16 * sizeof(unsigned), cudaMemcpyDeviceToHost));
        unsigned sum = 0;
        for (int digit = 0; digit < 16; ++digit) {
            offsets[digit] = sum;
            sum += histogram[digit];
        }
        CHECK(cudaMemcpy(d_offsets, offsets.data(), 16 * sizeof(unsigned), cudaMemcpyHostToDevice));
        scatter<<<1, 32>>>(d_in, d_out, d_offsets, pass * 4, n);
        std::swap(d_in, d_out);
    }
    CHECK(cudaMemcpy(keys.data(), d_in, n * 4, cudaMemcpyDeviceToHost));
    printf("%u %u\n", keys[0], keys[n - 1]);
}
