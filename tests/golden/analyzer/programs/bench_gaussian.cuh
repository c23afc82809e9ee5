#include <cuda_runtime.h>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <chrono>
__global__ void Fan1(float *m, const float *a, int size, int t) { int i = threadIdx.x + blockIdx.x * blockDim.x; if (i < size - 1 - t) m[size * (i + t + 1) + t] = a[size * (i + t + 1) + t] / a[size * t + t]; }
__global__ void Fan2(const float *m, float *a, float *b, int size, int j1, int t) { int x = threadIdx.x + blockIdx.x * blockDim.x, y = threadIdx.y + blockIdx.y * blockDim.y; if (x < size - 1 - t && y < size - t) a[size * (x + 1 + t) + y + t] -= m[size * (x + 1 + t) + t] * a[size * t + y + t]; }
void checkCUDAError(const char *msg) { cudaError_t err = cudaGetLastError(); if (cudaSuccess != err) { fprintf(stderr, "Cuda error: %s: %s.\n", msg, cudaGetErrorString(err)); exit(EXIT_FAILURE); } }
float *a, *b, *m; int Size;
void ForwardSub() {
    float *d_a, *d_b, *d_m;
    cudaMalloc((void **)&d_m, Size * Size * sizeof(float)); cudaMalloc((void **)&d_a, Size * Size * sizeof(float)); cudaMalloc((void **)&d_b, Size * sizeof(float));
    cudaMemcpy(d_m, m, Size * Size * sizeof(float), cudaMemcpyHostToDevice); cudaMemcpy(d_a, a, Size * Size * sizeof(float), cudaMemcpyHostToDevice); cudaMemcpy(d_b, b, Size * sizeof(float), cudaMemcpyHostToDevice);
    int block = 512, grid = (Size / block) + (!(Size % block) ? 0 : 1);
    dim3 dimBlock(block), dimGrid(grid), dimBlockXY(4, 4), dimGridXY(Size / 4 + (!(Size % 4) ? 0 : 1), Size / 4 + 1);
    auto t0 = std::chrono::steady_clock::now();
    for (int t = 0; t < Size - 1; t++) {
        Fan1<<<dimGrid, dimBlock>>>(d_m, d_a, Size, t);
        cudaDeviceSynchronize();
        Fan2<<<dimGridXY, dimBlockXY>>>(d_m, d_a, d_b, Size, Size - t, t);
        cudaDeviceSynchronize();
        checkCUDAError("Fan2");
    }
    auto t1 = std::chrono::steady_clock::now();
    printf("Time %f\n", std::chrono::duration<double>(t1 - t0).count());
    cudaMemcpy(m, d_m, Size * Size * sizeof(float), cudaMemcpyDeviceToHost); cudaMemcpy(a, d_a, Size * Size * sizeof(float), cudaMemcpyDeviceToHost);
    cudaFree(d_m); cudaFree(d_a); cudaFree(d_b);
}
int main(int argc, char **argv) {
    Size = atoi(argv[1]);
    a = new float[Size * Size]; b = new float[Size]; m = new float[Size * Size];
    for (int i = 0; i < Size * Size; i++) a[i] = i % 7;
    memset(m, 0, Size * Size * 4);
    ForwardSub();
    std::cout << a[0] << std::endl;
    delete[] a; delete[] b; delete[] m;
    return 0;
}
