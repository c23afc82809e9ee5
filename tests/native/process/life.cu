// The game of life on a torus: bytes in shared memory with a halo, two buffers in turn, populations counted by block votes.
#include "../support.cuh"

constexpr int W = 96, H = 80, B = 16;

__global__ void generation(const unsigned char *from, unsigned char *to, int *population) {
    __shared__ unsigned char area[B + 2][B + 2];
    const int x0 = blockIdx.x * B, y0 = blockIdx.y * B;
    for (int i = threadIdx.y * B + threadIdx.x; i < (B + 2) * (B + 2); i += B * B) {
        const int x = (x0 + i % (B + 2) - 1 + W) % W, y = (y0 + i / (B + 2) - 1 + H) % H;
        area[i / (B + 2)][i % (B + 2)] = from[y * W + x];
    }
    __syncthreads();
    int around = 0;
    for (int dy = 0; dy < 3; ++dy) {
        for (int dx = 0; dx < 3; ++dx) {
            around += dx == 1 && dy == 1 ? 0 : area[threadIdx.y + dy][threadIdx.x + dx];
        }
    }
    const bool lives = around == 3 || (around == 2 && area[threadIdx.y + 1][threadIdx.x + 1]);
    to[(y0 + threadIdx.y) * W + x0 + threadIdx.x] = lives;
    const int living = __syncthreads_count(lives);
    const bool any = __syncthreads_or(lives), all = __syncthreads_and(lives);
    if (threadIdx.x == 0 && threadIdx.y == 0) {
        atomicAdd(&population[0], living);
        atomicAdd(&population[1], any);
        atomicAdd(&population[2], all);
    }
}

int main() {
    Verdict verdict;
    std::vector<unsigned char> cells(W * H), next(W * H);
    Random random(5);
    for (unsigned char &cell : cells) {
        cell = random.below(3) == 0;
    }
    DeviceArray<unsigned char> one(cells), two(W * H);
    DeviceArray<int> population(3);
    int living = 0;
    for (int turn = 0; turn < 20; ++turn) {
        population.zero();
        generation<<<dim3(W / B, H / B), dim3(B, B)>>>((turn % 2 ? two : one).get(), (turn % 2 ? one : two).get(), population.get());
        CHECK_LAUNCH();
        living = 0;
        for (int y = 0; y < H; ++y) {
            for (int x = 0; x < W; ++x) {
                int around = -cells[y * W + x];
                for (int d = 0; d < 9; ++d) {
                    around += cells[(y + d / 3 - 1 + H) % H * W + (x + d % 3 - 1 + W) % W];
                }
                living += next[y * W + x] = around == 3 || (around == 2 && cells[y * W + x]);
            }
        }
        cells.swap(next);
    }
    verdict.equal(one.download(), cells, "cells");
    const std::vector<int> counted = population.download();
    verdict.expect(counted[0] == living && counted[1] > 0 && counted[2] == 0, "population");
    std::printf("life %d\n", living);
    return verdict.finish();
}
