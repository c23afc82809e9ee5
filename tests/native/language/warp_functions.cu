// Warp-wide functions: votes, shuffles of several types, matching, compaction by ballots, segmented and masked reductions.
#include "../support.cuh"

constexpr unsigned ALL = 0xFFFFFFFF;

__global__ void compact(const int *in, int *out, int *total, int count) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x % 32;
    const bool keep = i < count && in[i] % 3 == 0;
    const unsigned kept = __ballot_sync(ALL, keep);
    int place = 0;
    if (lane == 0 && kept) {
        place = atomicAdd(total, __popc(kept));
    }
    place = __shfl_sync(ALL, place, 0) + __popc(kept & ((1u << lane) - 1));
    if (keep) {
        out[place] = in[i];
    }
}

__global__ void various(unsigned *out) {
    const unsigned lane = threadIdx.x;
    unsigned *own = out + lane * 12;
    own[0] = __any_sync(ALL, lane == 7);
    own[1] = __all_sync(ALL, lane < 31);
    own[2] = __shfl_up_sync(ALL, lane * lane, 3);
    own[3] = __shfl_down_sync(ALL, lane + 100, 5, 8);
    own[4] = __shfl_xor_sync(ALL, lane, 21);
    own[5] = unsigned(__shfl_sync(ALL, double(lane) * 0.5, 31 - lane) * 4);
    own[6] = unsigned(__shfl_sync(ALL, (long long)lane << 40, lane ^ 1) >> 40);
    own[7] = __match_any_sync(ALL, lane % 5);
    int same;
    own[8] = __match_all_sync(ALL, lane / 32, &same) + same;
    own[9] = own[10] = own[11] = 0;
    if (lane % 2) {
        unsigned sum = lane;
        const unsigned odd = 0xAAAAAAAA;
        own[9] = __activemask() == odd;
        for (int step = 16; step > 1; step /= 2) {
            sum += __shfl_xor_sync(odd, sum, step);
        }
        own[10] = sum;
        __syncwarp(odd);
    } else {
        own[11] = __ballot_sync(0x55555555, lane < 9);
    }
}

int main() {
    Verdict verdict;
    const int count = 3000;
    std::vector<int> values(count);
    Random random(11);
    long long sum = 0;
    int kept = 0;
    for (int &value : values) {
        value = int(random.below(100000));
        if (value % 3 == 0) {
            sum += value;
            ++kept;
        }
    }
    DeviceArray<int> in(values), out(count), total(1);
    total.zero();
    compact<<<(count + 255) / 256, 256>>>(in.get(), out.get(), total.get(), count);
    CHECK_LAUNCH();
    verdict.expect(total.download()[0] == kept, "how many are kept");
    const std::vector<int> result = out.download();
    for (int i = 0; i < kept; ++i) {
        sum -= result[i];
    }
    verdict.expect(sum == 0, "what is kept");

    DeviceArray<unsigned> device(32 * 12);
    various<<<1, 32>>>(device.get());
    CHECK_LAUNCH();
    std::vector<unsigned> expected;
    for (unsigned lane = 0; lane < 32; ++lane) {
        unsigned same = 0;
        for (unsigned other = lane % 5; other < 32; other += 5) {
            same |= 1u << other;
        }
        const bool odd = lane % 2;
        const unsigned own[] = {1, 0, lane < 3 ? lane * lane : (lane - 3) * (lane - 3), lane % 8 + 5 < 8 ? lane + 105 : lane + 100,
                                lane ^ 21, (31 - lane) * 2, lane ^ 1, same, ALL + 1, odd, odd ? 256u : 0u, odd ? 0 : 0x155u};
        expected.insert(expected.end(), own, own + 12);
    }
    verdict.equal(device.download(), expected, "lanes");
    std::printf("warp_functions %d kept\n", kept);
    return verdict.finish();
}
