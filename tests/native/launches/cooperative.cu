// Cooperative groups within a block, and the warp functions beneath them: shuffles of every kind, votes, match, masks of
// active lanes in divergent code, warp-aggregated atomics, barriers that count.
#include <cooperative_groups.h>

#include "../support.cuh"

namespace cg = cooperative_groups;

__global__ void tile_sums(const int *in, int *sums16, int *scans, int n) {
    cg::thread_block block = cg::this_thread_block();
    cg::thread_block_tile<16> tile = cg::tiled_partition<16>(block);
    int i = blockIdx.x * blockDim.x + block.thread_rank();
    int value = i < n ? in[i] : 0;
    int sum = value;
    for (int offset = tile.size() / 2; offset > 0; offset /= 2) {
        sum += tile.shfl_down(sum, offset);
    }
    if (tile.thread_rank() == 0 && i < n) {
        sums16[i / 16] = sum;
    }
    int scan = value;
    for (int offset = 1; offset < 16; offset *= 2) {
        int other = tile.shfl_up(scan, offset);
        if (tile.thread_rank() >= offset) {
            scan += other;
        }
    }
    block.sync();
    if (i < n) {
        scans[i] = scan;
    }
}

// Threads that pass a test claim slots of one counter, one atomic for each group of active lanes.
__global__ void compact(const int *in, int *out, int *count, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && in[i] % 3 == 0) {
        cg::coalesced_group active = cg::coalesced_threads();
        int base = 0;
        if (active.thread_rank() == 0) {
            base = atomicAdd(count, static_cast<int>(active.size()));
        }
        base = active.shfl(base, 0);
        out[base + active.thread_rank()] = in[i];
    }
}

__global__ void warp_functions(const unsigned *in, unsigned *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) {
        return;
    }
    const unsigned all = 0xFFFFFFFFu;
    unsigned lane = threadIdx.x % 32, v = in[i];
    unsigned *row = out + i * 8;
    row[0] = __shfl_sync(all, v, (lane * 7 + 3) % 32);
    row[1] = __shfl_sync(all, v, v % 32, 8);
    row[2] = __shfl_up_sync(all, v, 3, 16);
    row[3] = __match_any_sync(all, v % 5);
    row[4] = __any_sync(all, v % 64 == 0) * 2 + __all_sync(all, v > 3);
    row[5] = __activemask();
    unsigned odd = __ballot_sync(all, v % 2);
    row[6] = v % 2 ? __ballot_sync(odd, v % 4 == 1) : 0;
    double d = __shfl_xor_sync(all, static_cast<double>(v) * 0.5, 9);
    row[7] = static_cast<unsigned>(d * 2.0);
}

__global__ void barriers(const int *in, int *out) {
    int t = threadIdx.x;
    int positive = __syncthreads_count(in[t] > 0);
    int every = __syncthreads_and(in[t] > -1000);
    int some = __syncthreads_or(in[t] == 12345);
    out[t] = positive * 4 + (every ? 2 : 0) + (some ? 1 : 0);
}

int main() {
    const int n = 1024;
    Verdict verdict;
    Random random(15);
    std::vector<int> values(n), sums(n / 16), scans(n);
    int multiples = 0;
    long long multiples_sum = 0;
    for (int i = 0; i < n; ++i) {
        values[i] = static_cast<int>(random.below(1000)) - 300;
        sums[i / 16] += values[i];
        scans[i] = values[i] + (i % 16 ? scans[i - 1] : 0);
        if (values[i] % 3 == 0) {
            ++multiples;
            multiples_sum += values[i];
        }
    }
    DeviceArray<int> in(values), device_sums(n / 16), device_scans(n), out(n), count(1);
    tile_sums<<<4, 256>>>(in.get(), device_sums.get(), device_scans.get(), n);
    CHECK_LAUNCH();
    verdict.equal(device_sums.download(), sums, "sum of 16");
    verdict.equal(device_scans.download(), scans, "scan of 16");

    count.zero();
    out.zero();
    compact<<<8, 128>>>(in.get(), out.get(), count.get(), n);
    CHECK_LAUNCH();
    long long sum = 0;
    std::vector<int> compacted = out.download();
    for (int i = 0; i < multiples; ++i) {
        sum += compacted[i];
        verdict.expect(compacted[i] % 3 == 0, "a multiple of three");
    }
    verdict.expect(count.download()[0] == multiples && sum == multiples_sum, "compacted values");

    std::vector<unsigned> words(n), expected(n * 8);
    for (unsigned &word : words) {
        word = random.below(200);
    }
    for (int start = 0; start < n; start += 32) {
        const unsigned *v = &words[start];
        unsigned any = 0, every = 1;
        for (int lane = 0; lane < 32; ++lane) {
            any |= v[lane] % 64 == 0;
            every &= v[lane] > 3;
        }
        for (int lane = 0; lane < 32; ++lane) {
            unsigned *row = &expected[(start + lane) * 8];
            row[0] = v[(lane * 7 + 3) % 32];
            row[1] = v[lane / 8 * 8 + v[lane] % 8];
            row[2] = lane % 16 >= 3 ? v[lane - 3] : v[lane];
            for (int other = 0; other < 32; ++other) {
                row[3] |= static_cast<unsigned>(v[other] % 5 == v[lane] % 5) << other;
                row[6] |= static_cast<unsigned>(v[lane] % 2 && v[other] % 2 && v[other] % 4 == 1) << other;
            }
            row[4] = any * 2 + every;
            row[5] = 0xFFFFFFFFu;
            row[7] = v[lane ^ 9];
        }
    }
    DeviceArray<unsigned> device_words(words), device_out(n * 8);
    warp_functions<<<n / 64, 64>>>(device_words.get(), device_out.get(), n);
    CHECK_LAUNCH();
    verdict.equal(device_out.download(), expected, "warp function");

    int positive = 0;
    for (int i = 0; i < 200; ++i) {
        positive += values[i] > 0;
    }
    barriers<<<1, 200>>>(in.get(), out.get());
    CHECK_LAUNCH();
    std::vector<int> counted = out.download();
    counted.resize(200);
    verdict.equal(counted, std::vector<int>(200, positive * 4 + 2), "counting barrier");

    std::printf("cooperative %d multiples\n", multiples);
    return verdict.finish();
}
