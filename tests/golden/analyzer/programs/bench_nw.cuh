#include <cuda_runtime.h>
#include <cstdio>
#include <cstdlib>
__global__ void diag(int *ref, int *m, int cols, int penalty, int i, int bw) { int b = blockIdx.x + i; m[b] += ref[b] - penalty * cols + bw; }
__global__ void lu_d(float *m, int n, int o) { m[o * n + o] += 1; }
__global__ void lu_p(float *m, int n, int o) { m[o * n + o] += blockIdx.x; }
__global__ void lu_i(float *m, int n, int o) { m[o * n + o] *= 2; }
__global__ void fw(int *d, int n, int k) { int i = blockIdx.x; if (i < n && d[i * n + k] < 5) d[i] = k; }
void lud(float *m, int n) {
    int i = 0; const int B = 16;
    for (i = 0; i < n - B; i += B) {
        lu_d<<<1, B>>>(m, n, i);
        lu_p<<<(n - i) / B - 1, B * 2>>>(m, n, i);
        dim3 g((n - i) / B - 1, (n - i) / B - 1), b(B, B);
        lu_i<<<g, b>>>(m, n, i);
    }
    lu_d<<<1, B>>>(m, n, i);
}
int main(int argc, char **argv) {
    int n = atoi(argv[1]), penalty = atoi(argv[2]), bw = (n - 1) / 16, reps = atoi(argv[3]);
    int *ref, *mat, *dist; float *mm;
    cudaMalloc(&ref, 4 * n * n); cudaMalloc(&mat, 4 * n * n); cudaMalloc(&mm, 4 * n * n); cudaMalloc(&dist, 4 * n * n);
    dim3 dimGrid, dimBlock(16, 1);
    for (int i = 1; i <= bw; i++) { dimGrid.x = i; dimGrid.y = 1; diag<<<dimGrid, dimBlock>>>(ref, mat, n, penalty, i, bw); }
    for (int i = bw - 1; i >= 1; i--) { dimGrid.x = i; dimGrid.y = 1; diag<<<dimGrid, dimBlock>>>(ref, mat, n, penalty, i, bw); }
    for (int r = 0; r < reps; r++) lud(mm, n);
    for (int k = 0; k < n; ++k) fw<<<n, 256>>>(dist, n, k);
    for (int i = 0; i < n; i++) for (int j = i; j < n; j++) cudaMemsetAsync(mm + i * n + j, 0, 4);
    int *out = (int *)malloc(n * n * 4);
    cudaMemcpy(out, mat, n * n * 4, cudaMemcpyDeviceToHost);
    for (int i = n - 2, j = n - 2; i >= 0 && j >= 0;) { printf("%d ", out[i * n + j]); if (out[i] & 1) i--; else j--; }
    cudaFree(ref); cudaFree(mat); cudaFree(mm); cudaFree(dist);
    return 0;
}
