#include <cuda_runtime.h>
#include <cstdio>
#include <cstdlib>
#include <vector>
#include <algorithm>
#include <utility>
__global__ void bitonic(int *d, int j, int k) { int i = threadIdx.x + blockDim.x * blockIdx.x, x = i ^ j; if (x > i && ((i & k) == 0) == (d[i] > d[x])) { int t = d[i]; d[i] = d[x]; d[x] = t; } }
__global__ void radix(const unsigned *in, unsigned *out, int shift, int n) { int i = threadIdx.x + blockDim.x * blockIdx.x; if (i < n) out[i] = in[i] >> shift; }
__global__ void oddeven(int *d, int phase, int n) { int i = 2 * (threadIdx.x + blockDim.x * blockIdx.x) + phase; if (i + 1 < n && d[i] > d[i + 1]) { int t = d[i]; d[i] = d[i + 1]; d[i + 1] = t; } }
void bitonic_sort(int *d, int n) { for (int k = 2; k <= n; k <<= 1) for (int j = k >> 1; j > 0; j >>= 1) bitonic<<<n / 512, 512>>>(d, j, k); }
void radix_sort(unsigned *keys, unsigned *tmp, int n) {
    unsigned *a = keys, *b = tmp;
    for (int bit = 0; bit < 32; bit += 4) { radix<<<(n + 255) / 256, 256>>>(a, b, bit, n); std::swap(a, b); }
}
int main(int argc, char **argv) {
    const int n = 1 << 16; int passes = argc > 1 ? atoi(argv[1]) : 10;
    std::vector<int> h(n);
    for (int p = 0; p < passes; p++) {
        int *d; unsigned *t;
        for (auto &v : h) v = rand();
        cudaMalloc(&d, n * sizeof(int)); cudaMalloc(&t, n * sizeof(int));
        cudaMemcpy(d, h.data(), n * sizeof(int), cudaMemcpyHostToDevice);
        bitonic_sort(d, n);
        radix_sort((unsigned *)d, t, n);
        for (int i = 0; i < n; i++) oddeven<<<n / 1024, 512>>>(d, i % 2, n);
        cudaMemcpy(h.data(), d, n * sizeof(int), cudaMemcpyDeviceToHost);
        printf("%d\n", std::is_sorted(h.begin(), h.end()));
        cudaFree(d); cudaFree(t);
    }
    return 0;
}
