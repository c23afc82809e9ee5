// A kernel that forgets the end of its array: the last block has more threads than there are values.
#include <cstdio>

__global__ void square(const int *from, int *to) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    to[i] = from[i] * from[i];  // "if (i < n)" is missing
}

int main() {
    const int n = 120;
    int values[n], *from, *to;
    for (int i = 0; i < n; ++i) {
        values[i] = i;
    }
    cudaMalloc(&from, sizeof values);
    cudaMalloc(&to, sizeof values);
    cudaMemcpy(from, values, sizeof values, cudaMemcpyHostToDevice);
    square<<<2, 64>>>(from, to);
    cudaError_t error = cudaMemcpy(values, to, sizeof values, cudaMemcpyDeviceToHost);
    if (error != cudaSuccess) {
        std::printf("the copy returns: %s\n", cudaGetErrorString(error));
        return 1;
    }
    std::printf("the square of %d is %d\n", n - 1, values[n - 1]);
    return 0;
}
