// Sums in four ways: shared-memory tree, warp shuffles, one atomic for each block, and a vote with ballots.
#include "../support.cuh"

__global__ void tree_sum(const int *values, long long *partial, int n) {
    __shared__ long long shared[256];
    long long sum = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        sum += values[i];
    }
    shared[threadIdx.x] = sum;
    __syncthreads();
    for (int width = blockDim.x / 2; width > 0; width /= 2) {
        if (threadIdx.x < width) {
            shared[threadIdx.x] += shared[threadIdx.x + width];
        }
        __syncthreads();
    }
    if (threadIdx.x == 0) {
        partial[blockIdx.x] = shared[0];
    }
}

__device__ int warp_sum(int value) {
    for (int offset = 16; offset > 0; offset /= 2) {
        value += __shfl_down_sync(0xFFFFFFFFu, value, offset);
    }
    return value;
}

__global__ void shuffle_sum(const int *values, int *total, int n) {
    __shared__ int warps[32];
    int sum = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        sum += values[i];
    }
    sum = warp_sum(sum);
    int lane = threadIdx.x % 32;
    int warp = threadIdx.x / 32;
    if (lane == 0) {
        warps[warp] = sum;
    }
    __syncthreads();
    if (warp == 0) {
        sum = lane < (blockDim.x + 31) / 32 ? warps[lane] : 0;
        sum = warp_sum(sum);
        if (lane == 0) {
            atomicAdd(total, sum);
        }
    }
}

// Every lane ends with its warp's minimum and maximum, by butterfly exchange.
__global__ void butterfly_range(const float *values, float *lows, float *highs, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float low = i < n ? values[i] : INFINITY;
    float high = i < n ? values[i] : -INFINITY;
    for (int mask = 1; mask < 32; mask *= 2) {
        low = fminf(low, __shfl_xor_sync(0xFFFFFFFFu, low, mask));
        high = fmaxf(high, __shfl_xor_sync(0xFFFFFFFFu, high, mask));
    }
    if (i < n) {
        lows[i] = low;
        highs[i] = high;
    }
}

__global__ void count_odd(const int *values, unsigned *count, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned ballot = __ballot_sync(0xFFFFFFFFu, i < n && (values[i] & 1));
    if (threadIdx.x % 32 == 0 && ballot != 0) {
        atomicAdd(count, __popc(ballot));
    }
}

int main() {
    const int n = 200001;
    Random random(4);
    std::vector<int> values(n);
    std::vector<float> reals(n);
    long long expected = 0;
    unsigned expected_odd = 0;
    for (int i = 0; i < n; ++i) {
        values[i] = static_cast<int>(random.below(2001)) - 1000;
        reals[i] = static_cast<float>(values[i]) * 0.125f;
        expected += values[i];
        expected_odd += values[i] & 1;
    }
    DeviceArray<int> device_values(values);
    DeviceArray<float> device_reals(reals);
    Verdict verdict;

    const int blocks = 37;
    DeviceArray<long long> partial(blocks);
    tree_sum<<<blocks, 256>>>(device_values.get(), partial.get(), n);
    CHECK_LAUNCH();
    long long tree = 0;
    for (long long value : partial.download()) {
        tree += value;
    }
    verdict.expect(tree == expected, "tree sum");

    DeviceArray<int> total(1);
    total.zero();
    shuffle_sum<<<blocks, 192>>>(device_values.get(), total.get(), n);
    CHECK_LAUNCH();
    int shuffled = total.download()[0];
    verdict.expect(shuffled == expected, "shuffle sum");

    DeviceArray<float> lows(n), highs(n);
    butterfly_range<<<(n + 127) / 128, 128>>>(device_reals.get(), lows.get(), highs.get(), n);
    CHECK_LAUNCH();
    std::vector<float> expected_lows(n), expected_highs(n);
    for (int start = 0; start < n; start += 32) {
        int end = start + 32 < n ? start + 32 : n;
        float low = reals[start], high = reals[start];
        for (int i = start; i < end; ++i) {
            low = std::fmin(low, reals[i]);
            high = std::fmax(high, reals[i]);
        }
        for (int i = start; i < end; ++i) {
            expected_lows[i] = low;
            expected_highs[i] = high;
        }
    }
    verdict.equal(lows.download(), expected_lows, "warp minimum");
    verdict.equal(highs.download(), expected_highs, "warp maximum");

    DeviceArray<unsigned> odd(1);
    odd.zero();
    count_odd<<<(n + 255) / 256, 256>>>(device_values.get(), odd.get(), n);
    CHECK_LAUNCH();
    unsigned odd_count = odd.download()[0];
    verdict.expect(odd_count == expected_odd, "number of odd values");

    std::printf("reduction %lld %d %u\n", tree, shuffled, odd_count);
    return verdict.finish();
}
