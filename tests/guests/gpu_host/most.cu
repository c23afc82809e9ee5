// Allocates three quarters of the device's memory, prints the error or 0, uses what it has, and waits for the end of its input.
#include <cstdio>
#include <cuda_runtime.h>

int main() {
    size_t available, total;
    char *large = nullptr, *small = nullptr;
    unsigned word = 0;
    if (cudaMemGetInfo(&available, &total) != cudaSuccess) return 1;
    printf("%d\n", int(cudaMalloc(&large, total / 4 * 3)));
    bool right = cudaMalloc(&small, 4096) == cudaSuccess && cudaMemset(small, 7, 4096) == cudaSuccess;
    right = right && cudaMemcpy(&word, small + 4092, 4, cudaMemcpyDeviceToHost) == cudaSuccess && word == 0x07070707;
    right = right && cudaFree(small) == cudaSuccess && cudaFree(large) == cudaSuccess;
    printf("%s\n", right ? "PASS" : "FAIL");
    cudaMalloc(&large, total / 4 * 3);
    fflush(stdout);
    while (getchar() != EOF) {
    }
    return right ? 0 : 1;
}
