// A sum in shared memory without a barrier between its steps: right on many runs, and wrong all the same.
#include <cstdio>

__global__ void sum(const int *from, int *to) {
    __shared__ int part[128];
    int t = threadIdx.x;
    part[t] = from[t];
    __syncthreads();
    for (int half = 64; half > 0; half /= 2) {
        if (t < half) {
            part[t] += part[t + half];
        }
        // "__syncthreads();" is missing
    }
    if (t == 0) {
        *to = part[0];
    }
}

int main() {
    int values[128], *from, *to, result = 0;
    for (int i = 0; i < 128; ++i) {
        values[i] = 1;
    }
    cudaMalloc(&from, sizeof values);
    cudaMalloc(&to, sizeof(int));
    cudaMemcpy(from, values, sizeof values, cudaMemcpyHostToDevice);
    sum<<<1, 128>>>(from, to);
    cudaMemcpy(&result, to, sizeof(int), cudaMemcpyDeviceToHost);
    std::printf("the sum is there\n");
    cudaFree(from);
    cudaFree(to);
    return result > 0 ? 0 : 1;
}
