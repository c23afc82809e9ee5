#include <cuda_runtime.h>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <utility>
#include <vector>
inline void gpuAssert(cudaError_t code, const char *file, int line, bool abort = true) {
    if (code != cudaSuccess) { fprintf(stderr, "GPUassert: %s %s %d\n", cudaGetErrorString(code), file, line); if (abort) exit(code); }
}
#define gpuErrchk(ans) { gpuAssert((ans), __FILE__, __LINE__); }
__global__ void step(const float *a, float *b, float *err, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i > 0 && i < n - 1) { b[i] = .5f * (a[i - 1] + a[i + 1]); atomicAdd(err, fabsf(b[i] - a[i])); }
}
int main(int argc, char **argv) {
    int n = argc > 1 ? atoi(argv[1]) : 1 << 20, max_iter = argc > 2 ? atoi(argv[2]) : 1000;
    float *a, *b, *d_err, err = 1e9f;
    gpuErrchk(cudaMalloc(&a, n * 4)); gpuErrchk(cudaMalloc(&b, n * 4)); gpuErrchk(cudaMalloc(&d_err, 4));
    gpuErrchk(cudaMemset(a, 0, n * 4));
    int iter = 0;
    while (err > 1e-5f && iter < max_iter) {
        gpuErrchk(cudaMemset(d_err, 0, 4));
        step<<<(n + 127) / 128, 128>>>(a, b, d_err, n);
        gpuErrchk(cudaPeekAtLastError());
        gpuErrchk(cudaMemcpy(&err, d_err, 4, cudaMemcpyDeviceToHost));
        if (iter % 100 == 0) printf("%d %g\n", iter, err);
        std::swap(a, b);
        iter++;
    }
    for (int t = 0; t < max_iter; ++t) {
        step<<<(n + 127) / 128, 128>>>(a, b, d_err, n);
        std::swap(a, b);
    }
    for (int t = 0; t < max_iter; t += 2) {
        step<<<dim3((n + 127) / 128, 2), dim3(128, 1, 1)>>>(a, b, d_err, n - t);
        step<<<dim3((n + 127) / 128, 2), dim3(128, 1, 1)>>>(b, a, d_err, n - t);
    }
    gpuErrchk(cudaDeviceSynchronize());
    cudaFree(a); cudaFree(b); cudaFree(d_err);
    return 0;
}
