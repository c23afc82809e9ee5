// The value below which nine tenths of some numbers lie: the device counts them in bins, the host reads the counts into
// a vector and goes on with the one bin that holds the value, until it is one number wide. How many numbers each step
// has left out is kept in a global array.
#include "../support.cuh"

constexpr int BINS = 32;
int left_out[8];

__global__ void count(const unsigned *values, int n, unsigned low, unsigned width, int *counts) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && values[i] >= low && (values[i] - low) / width < BINS) {
        atomicAdd(&counts[(values[i] - low) / width], 1);
    }
}

int main() {
    const int n = 5000, wanted = n / 10 * 9;
    Random random(23);
    std::vector<unsigned> values(n);
    for (unsigned &value : values) {
        value = random.below(1 << 25);
    }

    unsigned *device_values;
    int *device_counts;
    CHECK(cudaMalloc(&device_values, n * sizeof(unsigned)));
    CHECK(cudaMalloc(&device_counts, BINS * sizeof(int)));
    CHECK(cudaMemcpy(device_values, values.data(), n * sizeof(unsigned), cudaMemcpyHostToDevice));
    std::vector<int> counts(BINS);
    unsigned low = 0, width = 1 << 20;
    int before = 0, steps = 0;
    while (true) {
        CHECK(cudaMemset(device_counts, 0, BINS * sizeof(int)));
        count<<<(n + 127) / 128, 128>>>(device_values, n, low, width, device_counts);
        CHECK(cudaMemcpy(counts.data(), device_counts, BINS * sizeof(int), cudaMemcpyDeviceToHost));
        int bin = 0;
        while (bin < BINS - 1 && before + counts[bin] <= wanted) {
            before += counts[bin];
            ++bin;
        }
        left_out[steps & 7] = before;
        ++steps;
        low += bin * width;
        if (width == 1) {
            break;
        }
        width /= BINS;
    }
    Verdict verdict;
    int below = 0, equal = 0;
    for (unsigned value : values) {
        below += value < low;
        equal += value == low;
    }
    verdict.expect(below <= wanted && wanted < below + equal, "the value");
    verdict.expect(before == below && left_out[(steps - 1) & 7] == below, "how many are below it");
    std::printf("quantile %u in %d steps\n", low, steps);
    return verdict.finish();
}
