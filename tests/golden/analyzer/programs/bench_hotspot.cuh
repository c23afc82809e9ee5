#include <cuda_runtime.h>
#include <cstdio>
#include <cstdlib>
#include <cmath>
#include <ctime>
#define BLOCK 16
#define MIN(a, b) ((a) <= (b) ? (a) : (b))
__global__ void temp(int iteration, float *power, float *src, float *dst, int cols, int rows, int bc, int br, float Cap, float Rx, float Ry, float Rz, float step, float elapsed) { int x = blockIdx.x * BLOCK + threadIdx.x, y = blockIdx.y * BLOCK + threadIdx.y; if (x < cols && y < rows) dst[y * cols + x] = src[y * cols + x] + step / Cap * (power[y * cols + x] + iteration); }
int compute(float *power, float *T[2], int col, int row, int total, int num, int bCols, int bRows, int borderCols, int borderRows) {
    dim3 dimBlock(BLOCK, BLOCK), dimGrid(bCols, bRows);
    float h = 0.016f / row, w = 0.016f / col, Cap = 0.5f * 1.75e6f * 0.0005f * w * h, Rx = w / (2 * 100 * 0.0005f * h), Ry = h / (2 * 100 * 0.0005f * w), Rz = 0.0005f / (100 * h * w);
    float step = 0.001f / (3.0e6f / (0.5f * 0.0005f * 1.75e6f)), elapsed = 0.001f;
    int src = 1, dst = 0;
    for (float t = 0; t < total; t += num) {
        int tmp = src; src = dst; dst = tmp;
        temp<<<dimGrid, dimBlock>>>(MIN(num, total - t), power, T[src], T[dst], col, row, borderCols, borderRows, Cap, Rx, Ry, Rz, step, elapsed);
    }
    return dst;
}
int main(int argc, char **argv) {
    int size = atoi(argv[1]), pyramid = atoi(argv[2]), total = atoi(argv[3]);
    float *T[2], *P; float *ft = (float *)malloc(size * size * 4), *fp = (float *)malloc(size * size * 4);
    cudaMalloc((void **)&T[0], 4 * size * size); cudaMalloc((void **)&T[1], 4 * size * size); cudaMalloc((void **)&P, 4 * size * size);
    cudaMemcpy(T[0], ft, 4 * size * size, cudaMemcpyHostToDevice); cudaMemcpy(P, fp, 4 * size * size, cudaMemcpyHostToDevice);
    int ret = compute(P, T, size, size, total, pyramid, size / 16, size / 16, pyramid, pyramid);
    float *A = T[0], *B = T[1];
    dim3 grid(size / 16, size / 16), block(16, 16);
    for (int i = 0; i < total; i++) {
        temp<<<grid, block>>>(i, P, A, B, size, size, 1, 1, 1.f, 2.f, 3.f, 4.f, .5f, i * 0.1f);
        float *t = A; A = B; B = t;
    }
    for (int i = 0; i < total; i++) temp<<<grid, block>>>(1, P, T[i & 1], T[1 - (i & 1)], size, size, 1, 1, 1.f, 2.f, 3.f, 4.f, .5f, 0);
    cudaMemcpy(ft, T[ret], 4 * size * size, cudaMemcpyDeviceToHost);
    cudaFree(P); cudaFree(T[0]); cudaFree(T[1]); free(ft); free(fp);
    return 0;
}
