// A loop that reads in each iteration, entered again and again: each time with so many iterations.
#include "check.cuh"

#include <cstdio>
#include <cstdlib>

__global__ void step(int *left) { *left -= 1; }

__attribute__((noinline)) static int count_down(int *left) {
    int steps = 0, now;
    do {
        step<<<1, 1>>>(left);
        OK(cudaMemcpy(&now, left, sizeof now, cudaMemcpyDeviceToHost));
        ++steps;
    } while (now > 0);
    return steps;
}

int main(int, char **arguments) {
    const int entries = std::atoi(arguments[1]), iterations = std::atoi(arguments[2]);
    int *left, steps = 0;
    OK(cudaMalloc(&left, sizeof *left));
    for (int entry = 0; entry < entries; ++entry) {
        OK(cudaMemcpy(left, &iterations, sizeof iterations, cudaMemcpyHostToDevice));
        steps += count_down(left);
    }
    std::printf("%d steps\n", steps);
    OK(cudaFree(left));
}
