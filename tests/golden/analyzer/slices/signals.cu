// A program that handles signals: a handler may change global variables, and nothing of the frame.
#include <csignal>
#include "common.cuh"

volatile sig_atomic_t stopped;
static void stop(int) { stopped = 1; }

PROGRAM(own_variable) {
    int flag;
    do {
        step<<<1, 32>>>(x, f, 1, 2);
        cudaMemcpy(&flag, f, sizeof flag, cudaMemcpyDeviceToHost);
    } while (flag);
    LEFT;
}

PROGRAM(stopped_by_a_signal) {
    int flag;
    do {
        step<<<1, 32>>>(x, f, 1, 2);
        cudaMemcpy(&flag, f, sizeof flag, cudaMemcpyDeviceToHost);
    } while (flag && !stopped);
    LEFT;
}

int main() {
    float *x;
    int *f;
    cudaMalloc(&x, 4096), cudaMalloc(&f, 64);
    signal(SIGINT, stop);
    own_variable(x, x, f, nullptr, 3), LEFT;
    stopped_by_a_signal(x, x, f, nullptr, 3), LEFT;
}
