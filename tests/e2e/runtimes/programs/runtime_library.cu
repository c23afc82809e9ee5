// A library that calls CUDA and has a variable that its constructors set.
#include <cstdio>
__global__ void doubled(int* p) { p[threadIdx.x] *= 2; }
static int early = 7;
extern "C" int twice(int value) {
    int* p; int out = -1;
    if (cudaMalloc(&p, 4) || cudaMemcpy(p, &value, 4, cudaMemcpyHostToDevice)) return -1;
    doubled<<<1, 1>>>(p);
    cudaMemcpy(&out, p, 4, cudaMemcpyDeviceToHost);
    cudaFree(p);
    return early == 7 ? out : -2;
}
