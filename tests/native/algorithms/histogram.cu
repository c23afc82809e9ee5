// Histograms with atomics: straight to global memory, privatised in shared memory, and a 64-bit and a CAS variant.
#include "../support.cuh"

constexpr int BINS = 256;

__global__ void histogram_global(const unsigned char *data, unsigned *bins, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        atomicAdd(&bins[data[i]], 1u);
    }
}

__global__ void histogram_shared(const unsigned char *data, unsigned *bins, int n) {
    __shared__ unsigned local[BINS];
    for (int bin = threadIdx.x; bin < BINS; bin += blockDim.x) {
        local[bin] = 0;
    }
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        atomicAdd(&local[data[i]], 1u);
    }
    __syncthreads();
    for (int bin = threadIdx.x; bin < BINS; bin += blockDim.x) {
        if (local[bin] != 0) {
            atomicAdd(&bins[bin], local[bin]);
        }
    }
}

__global__ void extremes(const unsigned char *data, unsigned long long *sum, int *low, int *high, unsigned *bits, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        atomicAdd(sum, 1000000007ull * data[i]);
        atomicMin(low, data[i]);
        atomicMax(high, data[i]);
        atomicOr(bits, 1u << (data[i] & 31));
    }
}

// The largest value and its first index in one word, updated by compare-and-swap.
__global__ void arg_max(const unsigned char *data, unsigned long long *best, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        unsigned long long candidate = (static_cast<unsigned long long>(data[i]) << 32) | (0xFFFFFFFFu - i);
        unsigned long long seen = *best;
        while (candidate > seen) {
            unsigned long long before = atomicCAS(best, seen, candidate);
            if (before == seen) {
                break;
            }
            seen = before;
        }
    }
}

int main() {
    const int n = 120000;
    Random random(6);
    std::vector<unsigned char> data(n);
    std::vector<unsigned> expected(BINS);
    unsigned long long expected_sum = 0;
    int expected_low = 255, expected_high = 0, expected_index = 0;
    unsigned expected_bits = 0;
    for (int i = 0; i < n; ++i) {
        // Skewed, so that many threads meet in few bins; 0, 1 and 254 and above never occur.
        data[i] = static_cast<unsigned char>(2 + random.below(16) * random.below(17) + (random.below(8) == 0 ? 11 : 0));
        ++expected[data[i]];
        expected_sum += 1000000007ull * data[i];
        expected_bits |= 1u << (data[i] & 31);
        if (data[i] < expected_low) {
            expected_low = data[i];
        }
        if (data[i] > expected_high) {
            expected_high = data[i];
            expected_index = i;
        }
    }
    DeviceArray<unsigned char> device_data(data);
    DeviceArray<unsigned> bins(BINS);
    Verdict verdict;

    bins.zero();
    histogram_global<<<60, 128>>>(device_data.get(), bins.get(), n);
    CHECK_LAUNCH();
    std::vector<unsigned> counted = bins.download();
    verdict.equal(counted, expected, "bins, global atomics");

    bins.zero();
    histogram_shared<<<24, 192>>>(device_data.get(), bins.get(), n);
    CHECK_LAUNCH();
    verdict.equal(bins.download(), expected, "bins, shared atomics");

    DeviceArray<unsigned long long> sum(1), best(1);
    DeviceArray<int> low(std::vector<int>{1 << 30}), high(std::vector<int>{-1});
    DeviceArray<unsigned> bits(1);
    sum.zero();
    best.zero();
    bits.zero();
    extremes<<<20, 128>>>(device_data.get(), sum.get(), low.get(), high.get(), bits.get(), n);
    CHECK_LAUNCH();
    arg_max<<<20, 128>>>(device_data.get(), best.get(), n);
    CHECK_LAUNCH();
    unsigned long long packed = best.download()[0];
    int index = static_cast<int>(0xFFFFFFFFu - static_cast<unsigned>(packed));
    verdict.expect(sum.download()[0] == expected_sum, "64-bit sum");
    verdict.expect(low.download()[0] == expected_low, "minimum");
    verdict.expect(high.download()[0] == expected_high, "maximum");
    verdict.expect(bits.download()[0] == expected_bits, "bits");
    verdict.expect(static_cast<int>(packed >> 32) == expected_high && index == expected_index, "place of the maximum");

    print_checksum("histogram", counted);
    std::printf("histogram %d..%d at %d\n", expected_low, expected_high, index);
    return verdict.finish();
}
