// A program whose every line depends on all work before it: what is lost, done twice or changed shows in what it prints.
// Arguments: the seed, the number of lines, and a constant that makes its kernel another one (which has to be compiled).
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <unistd.h>
#include <vector>

#define CHECK(call)                                                                                      \
    do {                                                                                                 \
        cudaError_t error = (call);                                                                      \
        if (error != cudaSuccess) {                                                                      \
            fprintf(stderr, "victim: line %d: error %d: %s\n", line, error, cudaGetErrorString(error));  \
            return 3;                                                                                    \
        }                                                                                                \
    } while (0)

constexpr unsigned kCells = 2048, kThreads = 128, kSteps = 24, kLarge = 1 << 18;

__global__ void step(uint64_t *cells, uint64_t number, uint64_t salt) {
    unsigned cell = blockIdx.x * blockDim.x + threadIdx.x;
    cells[cell] = cells[cell] * 6364136223846793005ull + number * (cell + salt) + 1;
}

__global__ void mix(uint64_t *cells, const uint64_t *input, unsigned size) {
    unsigned cell = blockIdx.x * blockDim.x + threadIdx.x;
    cells[cell] = (cells[cell] << 1 | cells[cell] >> 63) ^ input[cell % size];
}

__global__ void halve(unsigned *left, unsigned *more) {
    *left /= 2;
    *more = *left > 0;
}

int main(int, char **arguments) {
    uint64_t seed = strtoull(arguments[1], nullptr, 10), hash = seed;
    int lines = atoi(arguments[2]), line = 0;
    uint64_t *cells, *input;
    unsigned *left;
    CHECK(cudaMalloc(&cells, kCells * sizeof *cells));
    CHECK(cudaMalloc(&left, 2 * sizeof *left));
    CHECK(cudaMemset(cells, 0, kCells * sizeof *cells));
    std::vector<uint64_t> sent(kCells), found(kCells), large(kLarge);
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    for (; line < lines; ++line) {
        for (unsigned k = 0; k < kSteps; ++k) step<<<kCells / kThreads, kThreads, 0, stream>>>(cells, line * kSteps + k, seed);
        CHECK(cudaGetLastError());
        unsigned size = line % 6 == 5 ? kLarge : kCells;
        std::vector<uint64_t> &data = size == kLarge ? large : sent;
        for (unsigned cell = 0; cell < size; ++cell) data[cell] = hash * (cell + 1) + line;
        CHECK(cudaMalloc(&input, size * sizeof *input));
        CHECK(cudaMemcpyAsync(input, data.data(), size * sizeof *input, cudaMemcpyHostToDevice, stream));
        mix<<<kCells / kThreads, kThreads, 0, stream>>>(cells, input, size);
        CHECK(cudaMemcpyAsync(found.data(), cells, kCells * sizeof *cells, cudaMemcpyDeviceToHost, stream));
        CHECK(cudaStreamSynchronize(stream));
        for (uint64_t cell : found) hash = hash * 31 + cell;
        if (size == kLarge) {
            CHECK(cudaMemcpy(large.data(), input, size * sizeof *input, cudaMemcpyDeviceToHost));
            for (uint64_t cell : large) hash = hash * 31 + cell;
        }
        CHECK(cudaFree(input));
        unsigned start = hash % 1000, more = 1, turns = 0;
        CHECK(cudaMemcpy(left, &start, sizeof start, cudaMemcpyHostToDevice));
        while (more) {
            halve<<<1, 1>>>(left, left + 1);
            CHECK(cudaMemcpy(&more, left + 1, sizeof more, cudaMemcpyDeviceToHost));
            ++turns;
        }
        printf("%d %u %016" PRIx64 "\n", line, turns, hash);
        fflush(stdout);
        usleep(10000);
    }
    puts("done");
}
