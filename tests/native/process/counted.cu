// Launches and copies that are lost or done twice change what is printed: each step depends on the one before it, and none is idempotent.
#include "../support.cuh"

#include <cinttypes>
#include <cstdint>
#include <cstdlib>
#include <vector>

namespace {

constexpr unsigned kCells = 4096;
constexpr unsigned kThreads = 128;
constexpr unsigned kSteps = 40;       // of a round
constexpr unsigned kLargeCells = 1 << 19;  // 4 MiB

__host__ __device__ uint64_t stepped(uint64_t cell, uint64_t step, uint64_t number) {
    return cell * 6364136223846793005ull + step * 1442695040888963407ull + number;
}

__global__ void step(uint64_t *cells, unsigned long long *count, uint64_t number) {
    unsigned cell = blockIdx.x * blockDim.x + threadIdx.x;
    cells[cell] = stepped(cells[cell], number, cell);
    if (cell == 0) atomicAdd(count, 1ull);
}

__global__ void mix(uint64_t *cells, const uint64_t *input, unsigned size) {
    unsigned cell = blockIdx.x * blockDim.x + threadIdx.x;
    if (cell < size) cells[cell] = (cells[cell] << 1 | cells[cell] >> 63) ^ input[cell];
}

}  // namespace

int main(int argc, char **argv) {
    unsigned rounds = argc > 1 ? strtoul(argv[1], nullptr, 10) : 20;
    uint64_t *cells, *input, *large;
    unsigned long long *count;
    CHECK(cudaMalloc(&cells, kCells * sizeof *cells));
    CHECK(cudaMalloc(&input, kCells * sizeof *input));
    CHECK(cudaMalloc(&large, kLargeCells * sizeof *large));
    CHECK(cudaMalloc(&count, sizeof *count));
    CHECK(cudaMemset(cells, 0, kCells * sizeof *cells));
    CHECK(cudaMemset(count, 0, sizeof *count));
    CHECK(cudaMemset(large, 0, kLargeCells * sizeof *large));
    std::vector<uint64_t> expected(kCells), sent(kCells), read(kCells), block(kLargeCells), whole(kLargeCells);
    std::vector<uint64_t> expected_large(kLargeCells);
    uint64_t number = 0, hash = 0;
    for (unsigned round = 0; round < rounds; ++round) {
        for (unsigned k = 0; k < kSteps; ++k, ++number) {
            step<<<kCells / kThreads, kThreads>>>(cells, count, number);
            for (unsigned cell = 0; cell < kCells; ++cell) expected[cell] = stepped(expected[cell], number, cell);
        }
        for (unsigned cell = 0; cell < kCells; ++cell) sent[cell] = number * cell + round;
        CHECK(cudaMemcpy(input, sent.data(), kCells * sizeof *input, cudaMemcpyHostToDevice));
        mix<<<kCells / kThreads, kThreads>>>(cells, input, kCells);
        for (unsigned cell = 0; cell < kCells; ++cell) {
            expected[cell] = (expected[cell] << 1 | expected[cell] >> 63) ^ sent[cell];
        }
        if (round % 3 == 0) {
            CHECK(cudaMemcpy(read.data(), cells, kCells * sizeof *cells, cudaMemcpyDeviceToHost));
            if (read != expected) return printf("FAIL round %u\n", round), 1;
            for (uint64_t cell : read) hash = hash * 31 + cell;
        }
        if (round % 5 == 4) {
            uint64_t *passing;
            CHECK(cudaMalloc(&passing, kLargeCells * sizeof *passing));
            for (unsigned cell = 0; cell < kLargeCells; ++cell) block[cell] = stepped(cell, round, number);
            CHECK(cudaMemcpy(passing, block.data(), kLargeCells * sizeof *passing, cudaMemcpyHostToDevice));
            mix<<<kLargeCells / kThreads, kThreads>>>(large, passing, kLargeCells);
            for (unsigned cell = 0; cell < kLargeCells; ++cell) {
                expected_large[cell] = (expected_large[cell] << 1 | expected_large[cell] >> 63) ^ block[cell];
            }
            CHECK(cudaFree(passing));
            CHECK(cudaMemcpy(whole.data(), large, kLargeCells * sizeof *large, cudaMemcpyDeviceToHost));
            if (whole != expected_large) return printf("FAIL round %u, large\n", round), 1;
            for (uint64_t cell : whole) hash = hash * 31 + cell;
        }
    }
    unsigned long long counted;
    CHECK(cudaMemcpy(&counted, count, sizeof counted, cudaMemcpyDeviceToHost));
    printf("%llu steps, %" PRIx64 "\n", counted, hash);
    puts(counted == number ? "PASS" : "FAIL");
    return counted != number;
}
