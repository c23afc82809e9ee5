// Exclusive prefix sum of any length: blocks scan, the blocks' sums are scanned recursively, and added back.
#include "../support.cuh"

constexpr int BLOCK = 256;

// Work-efficient scan of 2 * BLOCK values for each block, in shared memory (up-sweep and down-sweep).
__global__ void scan_blocks(const unsigned *input, unsigned *output, unsigned *sums, int n) {
    __shared__ unsigned shared[2 * BLOCK];
    int base = blockIdx.x * 2 * BLOCK;
    int first = threadIdx.x;
    int second = threadIdx.x + BLOCK;
    shared[first] = base + first < n ? input[base + first] : 0;
    shared[second] = base + second < n ? input[base + second] : 0;
    int offset = 1;
    for (int active = BLOCK; active > 0; active /= 2) {
        __syncthreads();
        if (threadIdx.x < active) {
            int left = offset * (2 * threadIdx.x + 1) - 1;
            int right = offset * (2 * threadIdx.x + 2) - 1;
            shared[right] += shared[left];
        }
        offset *= 2;
    }
    if (threadIdx.x == 0) {
        sums[blockIdx.x] = shared[2 * BLOCK - 1];
        shared[2 * BLOCK - 1] = 0;
    }
    for (int active = 1; active <= BLOCK; active *= 2) {
        offset /= 2;
        __syncthreads();
        if (threadIdx.x < active) {
            int left = offset * (2 * threadIdx.x + 1) - 1;
            int right = offset * (2 * threadIdx.x + 2) - 1;
            unsigned value = shared[left];
            shared[left] = shared[right];
            shared[right] += value;
        }
    }
    __syncthreads();
    if (base + first < n) {
        output[base + first] = shared[first];
    }
    if (base + second < n) {
        output[base + second] = shared[second];
    }
}

__global__ void add_sums(unsigned *output, const unsigned *sums, int n) {
    int i = blockIdx.x * 2 * BLOCK + threadIdx.x;
    unsigned sum = sums[blockIdx.x];
    if (i < n) {
        output[i] += sum;
    }
    if (i + BLOCK < n) {
        output[i + BLOCK] += sum;
    }
}

static void exclusive_scan(const unsigned *input, unsigned *output, int n) {
    int blocks = (n + 2 * BLOCK - 1) / (2 * BLOCK);
    DeviceArray<unsigned> sums(blocks), scanned(blocks);
    scan_blocks<<<blocks, BLOCK>>>(input, output, sums.get(), n);
    CHECK_LAUNCH();
    if (blocks > 1) {
        exclusive_scan(sums.get(), scanned.get(), blocks);
        add_sums<<<blocks, BLOCK>>>(output, scanned.get(), n);
        CHECK_LAUNCH();
    }
}

int main() {
    Verdict verdict;
    for (int n : {1, 511, 512, 513, 300007}) {
        Random random(5 + n);
        std::vector<unsigned> values(n), expected(n);
        unsigned sum = 0;
        for (int i = 0; i < n; ++i) {
            values[i] = random.below(1000000);
            expected[i] = sum;
            sum += values[i];  // wraps, as on the device
        }
        DeviceArray<unsigned> input(values), output(n);
        exclusive_scan(input.get(), output.get(), n);
        std::vector<unsigned> scanned = output.download();
        verdict.equal(scanned, expected, "scan");
        std::printf("%d ", n);
        print_checksum("scan", scanned);
    }
    return verdict.finish();
}
