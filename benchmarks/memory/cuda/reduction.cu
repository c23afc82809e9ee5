// The sum of an array: each block a part of the numbers by the grid's stride, then a tree in shared memory. Argument: 2^n numbers.
#include "check.cuh"

__global__ void reduce(const unsigned *values, unsigned *sums, size_t count) {
    __shared__ unsigned part[256];
    unsigned sum = 0;
    for (size_t at = blockIdx.x * blockDim.x + threadIdx.x; at < count; at += gridDim.x * blockDim.x) sum += values[at];
    part[threadIdx.x] = sum;
    for (int step = 128; step; step /= 2) {
        __syncthreads();
        if (threadIdx.x < step) part[threadIdx.x] += part[threadIdx.x + step];
    }
    if (threadIdx.x == 0) sums[blockIdx.x] = part[0];
}

int main(int count, char **words) {
    size_t size = size_t(1) << argument(count, words, 1, 23);
    Random random{7};
    std::vector<unsigned> values(size);
    unsigned expected = 0;
    for (unsigned &value : values) expected += value = random();
    unsigned *sums = room<unsigned>(512), *total = room<unsigned>(1);
    reduce<<<512, 256>>>(to_device(values), sums, size);
    reduce<<<1, 256>>>(sums, total, 512);
    return finish(from_device(total, 1)[0] == expected);
}
