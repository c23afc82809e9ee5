// Single-pass prefix sums: each block waits for what the blocks before it have published (decoupled look-back).
#include "../support.cuh"

constexpr int THREADS = 128, EACH = 4, TILE = THREADS * EACH;
enum : unsigned { NOTHING, PARTIAL, WHOLE };

__global__ void scan(const unsigned *in, unsigned *out, int count, unsigned *ticket, volatile uint64_t *tiles) {
    __shared__ unsigned sums[THREADS], tile, before;
    if (threadIdx.x == 0) {
        tile = atomicAdd(ticket, 1);
    }
    __syncthreads();
    const int start = tile * TILE + threadIdx.x * EACH;
    unsigned own[EACH], total = 0;
    for (int k = 0; k < EACH; ++k) {
        own[k] = total += start + k < count ? in[start + k] : 0;
    }
    sums[threadIdx.x] = total;
    for (int step = 1; step < THREADS; step *= 2) {
        __syncthreads();
        unsigned add = threadIdx.x >= step ? sums[threadIdx.x - step] : 0;
        __syncthreads();
        sums[threadIdx.x] += add;
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        const unsigned all = sums[THREADS - 1];
        unsigned running = 0;
        if (tile > 0) {
            tiles[tile] = uint64_t(PARTIAL) << 32 | all;
            for (int other = int(tile) - 1; other >= 0;) {
                const uint64_t state = tiles[other];
                const unsigned flag = unsigned(state >> 32);
                if (flag == NOTHING) {
                    continue;
                }
                running += unsigned(state);
                if (flag == WHOLE) {
                    break;
                }
                --other;
            }
        }
        __threadfence();
        tiles[tile] = uint64_t(WHOLE) << 32 | (running + all);
        before = running;
    }
    __syncthreads();
    const unsigned lead = before + (threadIdx.x ? sums[threadIdx.x - 1] : 0);
    for (int k = 0; k < EACH; ++k) {
        if (start + k < count) {
            out[start + k] = lead + own[k];
        }
    }
}

int main() {
    Verdict verdict;
    for (int count : {1, TILE, 40001}) {
        std::vector<unsigned> values(count), expected(count);
        Random random(count);
        unsigned sum = 0;
        for (int i = 0; i < count; ++i) {
            expected[i] = sum += values[i] = random.below(1000);
        }
        const int tiles = (count + TILE - 1) / TILE;
        DeviceArray<unsigned> in(values), out(count), ticket(1);
        DeviceArray<uint64_t> states(tiles);
        ticket.zero();
        states.zero();
        scan<<<tiles, THREADS>>>(in.get(), out.get(), count, ticket.get(), states.get());
        CHECK_LAUNCH();
        verdict.equal(out.download(), expected, "sums");
    }
    std::printf("lookback_scan\n");
    return verdict.finish();
}
