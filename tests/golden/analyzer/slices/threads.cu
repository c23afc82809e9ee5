// A program with threads: what is a loop's own stays its own, global variables are not.
#include <thread>
#include "common.cuh"

int shared = 1;

PROGRAM(own_variable) {
    int flag;
    do {
        step<<<1, 32>>>(x, f, 1, 2);
        cudaMemcpy(&flag, f, sizeof flag, cudaMemcpyDeviceToHost);
    } while (flag);
    LEFT;
}

PROGRAM(shared_variable) {
    int flag;
    do {
        step<<<1, 32>>>(x, f, shared, 2);
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

int main() {
    float *x;
    int *f;
    cudaMalloc(&x, 4096), cudaMalloc(&f, 64);
    std::thread other([] { __atomic_store_n(&shared, 2, __ATOMIC_SEQ_CST); });
    own_variable(x, x, f, nullptr, 3), LEFT;
    shared_variable(x, x, f, nullptr, 3), LEFT;
    address_for_a_kernel(x, x, f, nullptr, 3), LEFT;
    other.join();
}
