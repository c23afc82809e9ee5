// A program that shares memory with the device: an address that a kernel is given may stand there, for anyone to see.
#include "common.cuh"

PROGRAM(own_variable) {
    int flag;
    do {
        step<<<1, 32>>>(x, f, 1, 2);
        cudaMemcpy(&flag, f, sizeof flag, cudaMemcpyDeviceToHost);
    } while (flag);
    LEFT;
}

PROGRAM(address_for_a_kernel) {
    int flag;
    do {
        hold<<<1, 1>>>(&flag, f);
        step<<<1, 32>>>(x, f, 1, 2);
        cudaMemcpy(&flag, f, sizeof flag, cudaMemcpyDeviceToHost);
    } while (flag);
    LEFT;
}

int main(int count, char **) {
    float *x;
    int *f;
    cudaMalloc(&x, 4096), cudaMalloc(&f, 64);
    if (count > 1) cudaMallocHost(&x, 4096);
    own_variable(x, x, f, nullptr, 3), LEFT;
    address_for_a_kernel(x, x, f, nullptr, 3), LEFT;
}
