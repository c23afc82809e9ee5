// Loops that end on a device: what a program prints is the same with its slices and without.
#include "common.cuh"

__global__ void halve(double *error, int *left) {
    *error *= 0.5;
    if (--*left < 0) *left = 0;
}

PROGRAM(until_small) {
    double error = 100;
    int k = 0;
    cudaMemcpy(d, &error, sizeof error, cudaMemcpyHostToDevice);
    while (error > 1e-3 && k < 50) {
        halve<<<1, 1>>>(d, f);
        cudaMemcpy(&error, d, sizeof error, cudaMemcpyDeviceToHost);
        printf("%d: %g\n", k++, error);
    }
    LEFT;
}

PROGRAM(until_none_is_left) {
    int left = 9;
    cudaMemcpy(f, &left, sizeof left, cudaMemcpyHostToDevice);
    do {
        halve<<<left, 1>>>(d, f);
        cudaMemcpy(&left, f, sizeof left, cudaMemcpyDeviceToHost);
    } while (left);
    printf("%d\n", left);
    LEFT;
}

int main() {
    float *x;
    int *f;
    double *d;
    cudaMalloc(&x, 4096), cudaMalloc(&f, 64), cudaMalloc(&d, 64);
    cudaMemset(f, 0, 64);
    until_small(x, x, f, d, 3);
    until_none_is_left(x, x, f, d, 3);
}
