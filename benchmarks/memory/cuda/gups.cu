// Updates of a table at random places. Arguments: 2^n words of 8 bytes, 2^m updates.
#include "check.cuh"

__host__ __device__ uint64_t mixed(uint64_t value) {
    value = (value ^ (value >> 31)) * 0x9E3779B97F4A7C15ull;
    value = (value ^ (value >> 29)) * 0xBF58476D1CE4E5B9ull;
    return value ^ (value >> 32);
}

__global__ void update(unsigned long long *table, uint64_t mask) {
    uint64_t value = mixed(blockIdx.x * blockDim.x + threadIdx.x + 1);
    atomicXor(&table[value & mask], value);
}

int main(int count, char **words) {
    int size = argument(count, words, 1, 23), updates = argument(count, words, 2, 19);
    uint64_t mask = (1ull << size) - 1;
    unsigned long long *table = room<unsigned long long>(mask + 1);
    update<<<1 << (updates - 8), 256>>>(table, mask);
    std::vector<unsigned long long> expected(mask + 1, 0);
    for (uint64_t number = 1; number <= 1ull << updates; ++number) expected[mixed(number) & mask] ^= mixed(number);
    return finish(from_device(table, mask + 1) == expected);
}
