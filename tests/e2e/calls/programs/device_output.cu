// Printing kernels in places where nothing else makes the shim wait: at exit, in loops whose synchronizations a manifest answers.
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <cuda_runtime.h>

__global__ void print(int value) { printf("device %d\n", value); }
__global__ void long_lines(int value) { printf("device %100d\n", value); }
__global__ void quiet(int value, int *out) { *out = value; }

static void check(cudaError_t error) {
    if (error != cudaSuccess) {
        exit(2);
    }
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "";
    if (!strcmp(what, "exit")) {
        printf("host\n");
        print<<<1, 1>>>(1);
    } else if (!strcmp(what, "loop")) {
        for (int i = 0; i < 40; ++i) {
            print<<<1, 1>>>(i);
            printf("host %d\n", i);
            check(cudaDeviceSynchronize());
        }
    } else if (!strcmp(what, "big")) {
        check(cudaDeviceSetLimit(cudaLimitPrintfFifoSize, 64 << 20));
        long_lines<<<42000, 1>>>(1000000);
        check(cudaDeviceSynchronize());
    } else if (!strcmp(what, "full")) {
        long_lines<<<42000, 1>>>(1000000);
        check(cudaDeviceSynchronize());
    }
    return 0;
}
