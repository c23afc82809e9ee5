// Monte Carlo with a generator for each thread whose state stays in memory between launches: pi, and a random walk with early ends.
#include "../support.cuh"

__host__ __device__ inline uint32_t draw(uint4 &s) {
    uint32_t t = s.x ^ s.x << 11;
    s.x = s.y, s.y = s.z, s.z = s.w;
    return s.w ^= s.w >> 19 ^ t ^ t >> 8;
}

__host__ __device__ inline int inside(uint4 &s) {
    const uint64_t x = draw(s) >> 8, y = draw(s) >> 8;
    return x * x + y * y < 1ull << 48;
}

__host__ __device__ inline int walk(uint4 &s) {
    int place = 0, steps = 0;
    while (place > -12 && place < 12 && steps < 500) {
        place += draw(s) & 1 ? 1 : -1;
        ++steps;
    }
    return steps;
}

__global__ void seed(uint4 *states) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    states[i] = make_uint4(i * 69069u + 1, i ^ 0x9E3779B9u, i * i + 7, 88675123u);
}

__global__ void simulate(uint4 *states, int *hits, int *steps, int tries) {
    __shared__ int own;
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (threadIdx.x == 0) {
        own = 0;
    }
    __syncthreads();
    uint4 state = states[i];
    int found = 0;
    for (int k = 0; k < tries; ++k) {
        found += inside(state);
    }
    atomicAdd(&own, found);
    steps[i] = walk(state);
    states[i] = state;
    __syncthreads();
    if (threadIdx.x == 0) {
        atomicAdd(hits, own);
    }
}

int main() {
    Verdict verdict;
    const int threads = 512, tries = 50, rounds = 4;
    DeviceArray<uint4> states(threads);
    DeviceArray<int> hits(1), steps(threads);
    hits.zero();
    seed<<<4, 128>>>(states.get());
    std::vector<int> expected(threads);
    int total = 0;
    std::vector<uint4> own(threads);
    for (unsigned i = 0; i < unsigned(threads); ++i) {
        own[i] = make_uint4(i * 69069u + 1, i ^ 0x9E3779B9u, i * i + 7, 88675123u);
    }
    for (int round = 0; round < rounds; ++round) {
        simulate<<<4, 128>>>(states.get(), hits.get(), steps.get(), tries);
        for (int i = 0; i < threads; ++i) {
            for (int k = 0; k < tries; ++k) {
                total += inside(own[i]);
            }
            expected[i] = walk(own[i]);
        }
    }
    CHECK_LAUNCH();
    verdict.equal(steps.download(), expected, "steps");
    verdict.expect(hits.download()[0] == total, "hits");
    std::printf("monte_carlo %.3f\n", 4.0 * total / (threads * tries * rounds));
    return verdict.finish();
}
