// Rounds of a loop of kernels and copies on a few buffers, and a pause after each; prints a checksum of all of it.
//
// usage: giving <rounds> <iterations> <megabytes> <pause in microseconds>
#include <unistd.h>

#include "../../../native/support.cuh"

__global__ void advance(uint32_t *to, const uint32_t *from, uint32_t key, uint32_t words) {
    uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < words) to[i] = to[i] * 1664525 + (from[(i * 17 + key) % words] ^ key);
}

int main(int argc, char **argv) {
    if (argc != 5) return 2;
    int rounds = atoi(argv[1]), iterations = atoi(argv[2]);
    uint32_t words = atoi(argv[3]) << 17;  // of each half
    std::vector<uint32_t> host(words);
    for (uint32_t i = 0; i < words; i++) host[i] = i * 2654435761u;
    uint32_t *first, *second;
    CHECK(cudaMalloc(&first, words * 4));
    CHECK(cudaMalloc(&second, words * 4));
    CHECK(cudaMemcpy(first, host.data(), words * 4, cudaMemcpyHostToDevice));
    CHECK(cudaMemset(second, 7, words * 4));
    uint64_t sum = 0;
    for (int round = 0; round < rounds; round++) {
        for (int k = 0; k < iterations; k++) {
            advance<<<(words + 255) / 256, 256>>>(second, first, k, words);
            CHECK(cudaMemcpyAsync(first + k, second + 2 * k, 64, cudaMemcpyDeviceToDevice));
        }
        CHECK(cudaMemcpy(host.data(), second, words * 4, cudaMemcpyDeviceToHost));
        for (uint32_t i = 0; i < words; i += 97) sum = sum * 31 + host[i];
        if (atoi(argv[4])) usleep(atoi(argv[4]));
    }
    CHECK(cudaFree(first));
    CHECK(cudaFree(second));
    printf("%016llx\n", (unsigned long long)sum);
    return 0;
}
