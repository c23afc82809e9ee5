// A program whose signal handler uses CUDA: it would see memory that the program has not come to.
#include <csignal>
#include "common.cuh"

int *status;
int seen;
static void look(int) { cudaMemcpy(&seen, status, sizeof seen, cudaMemcpyDeviceToHost); }

PROGRAM(looked_at_by_a_handler) {
    int flag;
    do {
        step<<<1, 32>>>(x, f, 1, 2);
        cudaMemcpy(&flag, f, sizeof flag, cudaMemcpyDeviceToHost);
    } while (flag);
    LEFT;
}

int main() {
    float *x;
    int *f;
    cudaMalloc(&x, 4096), cudaMalloc(&f, 64);
    status = f;
    signal(SIGUSR1, look);
    looked_at_by_a_handler(x, x, f, nullptr, 3), LEFT;
}
